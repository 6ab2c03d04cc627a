"""Latents at the ends of epochs: how many signs flip, the mean over the last epochs, and the histogram at the end."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from adaste.optim.latent_optimizer import LatentOptimizer
from adaste.training.records import Histogram

BINS = 81
"""An odd number: the middle one is around zero."""

REACH = 4.0
"""Standard deviations from zero to either end; latents beyond are counted in the outermost bins."""


class FlipCounter:
    """Stores the signs of all binary weights and compares later ones with them."""

    def __init__(self, optimizer: LatentOptimizer) -> None:
        self._optimizer = optimizer
        self._signs: list[Tensor] = []
        self.restart()

    def restart(self) -> None:
        """Store the present signs."""
        self._signs = list(self._optimizer.signs())

    def changes(self) -> tuple[float | None, float | None]:
        """Return the share of weights whose sign has changed, and the mean |theta|; None without binary weights."""
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
        """Return whether all latents are finite: the signs of others would still look like weights."""
        # A sum is finite only if all its terms are.
        sums = [latent.sum(dtype=torch.float64) for _, latent in self._optimizer.latents()]
        return not sums or bool(torch.stack(sums).isfinite().all())

    def state(self) -> list[Tensor]:
        """Return the stored signs, eight to a byte."""
        return [torch.from_numpy(np.packbits(sign.cpu().numpy())) for sign in self._signs]

    def load(self, state: list[Tensor]) -> None:
        """Store the signs of a `state`."""
        self._signs = [
            torch.from_numpy(np.unpackbits(packed.numpy(), count=sign.numel()).astype(bool))
            .view(sign.shape)
            .to(sign.device)
            for packed, sign in zip(state, self._signs, strict=True)
        ]


class LatentMean:
    """The mean of all latents, those of real weights too, at the ends of the `last` of `epochs` epochs."""

    def __init__(self, optimizer: LatentOptimizer, *, epochs: int, last: int) -> None:
        self._optimizer, self._epochs, self._before = optimizer, epochs, epochs - last
        self._means: list[Tensor] = []

    @torch.no_grad()
    def epoch_ended(self, epochs: int) -> None:
        """Take the latents after so many epochs into the mean; after the last one, replace them by it."""
        count = epochs - self._before
        if count <= 0:
            return
        latents = self._latents()
        self._means = self._means or [torch.zeros_like(latent) for latent in latents]
        for mean, latent in zip(self._means, latents, strict=True):
            mean.lerp_(latent, 1 / count)
        if epochs == self._epochs:
            for mean, latent in zip(self._means, latents, strict=True):
                latent.copy_(mean)  # in place: a captured step reads it
            self._means = []

    def state(self) -> list[Tensor]:
        """Return the means so far; empty before the first of the epochs, and after the last."""
        return self._means

    def load(self, state: list[Tensor]) -> None:
        """Continue from a `state`."""
        latents = self._latents() if state else []
        self._means = [mean.to(latent.device, copy=True) for mean, latent in zip(state, latents, strict=True)]

    def _latents(self) -> list[Tensor]:
        groups = self._optimizer.param_groups
        return [self._optimizer.state[weight]["latent"].detach() for group in groups for weight in group["params"]]


@torch.no_grad()
def histogram(latents: Sequence[Tensor]) -> Histogram | None:
    """Return the histogram of all numbers in `latents`; None if there are none."""
    count = sum(latent.numel() for latent in latents)
    if not count:
        return None
    squares = torch.stack([latent.double().square().sum() for latent in latents]).sum()
    reach = REACH * float(squares / count) ** 0.5 or 1.0
    width = 2 * reach / BINS
    total = torch.zeros(BINS, dtype=torch.int64)
    for latent in latents:
        places = ((latent.double() + reach) / width).floor().clamp(0, BINS - 1).long()
        total += torch.bincount(places.flatten(), minlength=BINS).cpu()
    return Histogram(reach, tuple(total.tolist()))
