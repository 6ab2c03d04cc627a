"""A method of training binary weights: a straight-through estimator whose signs are slow to flip."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste.estimators import Estimator


@dataclass(frozen=True)
class SlowSign(Estimator):
    """w keeps its sign while abs(theta) <= threshold, else w = sign(theta); theta is clipped to [-1, 1].

    Args:
        threshold: how far beyond zero a latent must go for its weight to flip.
    """

    elementwise: ClassVar[bool] = True

    threshold: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold must be at least 0 and below 1, got {self.threshold}")

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        return latent.clamp(-1, 1)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        side = torch.where(latent.abs() <= self.threshold, previous, latent)
        return torch.where(side < 0, -1.0, 1.0).to(latent.dtype)
