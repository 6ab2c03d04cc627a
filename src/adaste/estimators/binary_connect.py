"""BinaryConnect (Courbariaux et al. 2015): straight-through gradients, latents kept inside [-1, 1]."""

from dataclasses import dataclass

import torch
from torch import Tensor

from adaste._util.checks import require_kind
from adaste.estimators.base import Estimator
from adaste.estimators.maps import sign
from adaste.estimators.noise import Noise


def round_at_random(latent: Tensor, noise: Noise) -> Tensor:
    """+1 with probability clip((theta + 1) / 2, 0, 1), else -1."""
    return torch.where(noise.uniform(latent) < (latent + 1) / 2, 1.0, -1.0).to(latent.dtype)


@dataclass(frozen=True)
class BinaryConnect(Estimator):
    """w = sign(theta), d = g, theta clipped to [-1, 1]. With `noise`, w is drawn at random in training."""

    noise: Noise | None = None

    def __post_init__(self) -> None:
        require_kind("noise", self.noise, Noise, optional=True)

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        return latent.clamp(-1, 1)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return sign(latent) if self.noise is None else round_at_random(latent, self.noise)
