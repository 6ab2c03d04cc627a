"""How far training has moved the binary weights."""

import numpy as np
import torch
from torch import Tensor

from adaste.optim.latent_optimizer import LatentOptimizer


class FlipCounter:
    """Remembers the signs of all binary weights, and tells how many have changed since."""

    def __init__(self, optimizer: LatentOptimizer) -> None:
        self._optimizer = optimizer
        self._signs: list[Tensor] = []
        self.restart()

    def restart(self) -> None:
        """Remember the signs of now."""
        self._signs = list(self._optimizer.signs())

    def changes(self) -> tuple[float | None, float | None]:
        """The share of weights whose sign has changed, and the mean |theta| of now; None without binary weights."""
        latents = [latent for _, latent in self._optimizer.latents()]
        if not latents:
            return None, None
        count = sum(latent.numel() for latent in latents)
        changed = [(now != then).sum() for now, then in zip(self._optimizer.signs(), self._signs, strict=True)]
        sizes = [latent.abs().sum(dtype=torch.float64) for latent in latents]
        totals = torch.stack([torch.stack(changed).sum().double(), torch.stack(sizes).sum()])
        flipped, size = (totals / count).tolist()
        return flipped, size

    def latents_are_finite(self) -> bool:
        """Whether no latent is infinite or NaN: the signs of such ones still look like weights."""
        # A sum is finite only if all its terms are.
        sums = [latent.sum(dtype=torch.float64) for _, latent in self._optimizer.latents()]
        return not sums or bool(torch.stack(sums).isfinite().all())

    def state(self) -> list[Tensor]:
        """The remembered signs, eight to a byte."""
        return [torch.from_numpy(np.packbits(sign.cpu().numpy())) for sign in self._signs]

    def load(self, state: list[Tensor]) -> None:
        """Remember the signs of a `state`."""
        self._signs = [
            torch.from_numpy(np.unpackbits(packed.numpy(), count=sign.numel()).astype(bool))
            .view(sign.shape)
            .to(sign.device)
            for packed, sign in zip(state, self._signs, strict=True)
        ]
