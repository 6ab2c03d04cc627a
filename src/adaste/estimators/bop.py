"""Bop (Helwegen et al. 2019): no latent weights, an average of gradients that flips bits."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require
from adaste.estimators.base import Estimator
from adaste.estimators.maps import sign
from adaste.estimators.schedules import Scheduled, now


@dataclass(frozen=True)
class Bop(Estimator):
    """Bop (Helwegen et al. 2019): an average m of gradients flips the bits.

        m <- (1 - gamma) m + gamma g
        w flips where w m > threshold

    Here theta = -m, and d = g + theta: SGD with lr = gamma is the average. The sign of w survives while the average
    stays on its side or under the threshold.

    Args:
        threshold: A number of at least 0, or a schedule.

    Raises:
        ValueError: If `threshold` is negative.
    """

    elementwise: ClassVar[bool] = True

    threshold: Scheduled = 1e-8

    def __post_init__(self) -> None:
        require("threshold", self.threshold, least=0)

    def latent(self, weight: Tensor) -> Tensor:
        return torch.zeros_like(weight)

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        return grad + latent

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        kept = sign(previous)
        return torch.where(kept * latent < -now(self.threshold), -kept, kept)

    def binarize(self, latent: Tensor, weight: Tensor) -> Tensor:
        return sign(weight)
