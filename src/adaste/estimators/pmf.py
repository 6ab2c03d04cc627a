"""Proximal mean-field (Ajanthan et al. 2019): gradient descent on the softmax of two levels per weight."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require
from adaste._util.serial import later_field
from adaste.estimators.base import Estimator, from_two_levels, to_two_levels
from adaste.estimators.schedules import Scheduled, now


@dataclass(frozen=True)
class PMF(Estimator):
    """Proximal mean-field (Ajanthan et al. 2019), gradient descent on the softmax of two levels per weight.

        p = softmax(beta u),  w = p_plus - p_minus = tanh(beta (u_plus - u_minus) / 2)
        G = dl/dp = (-g, +g)
        d = beta (p G - p (p . G))

    That d is the true Jacobian. The published programs have the identity in place of diag(p), which does not vanish as
    the weights saturate (both do this on purpose).

    Args:
        beta: A positive number, or a schedule.
        released: Take d = beta (G - p (p . G)), that of the code of md-bnn.
        original: Take d = beta (G - q (q . G)) with q = softmax(beta p), that of the code of pmf, which takes the
            softmax twice.

    Raises:
        ValueError: If `beta` is not positive, or if both `released` and `original` are True.
    """

    elementwise: ClassVar[bool] = True

    beta: Scheduled = 1.0
    released: bool = False
    original: bool = later_field(False)

    def __post_init__(self) -> None:
        require("beta", self.beta, above=0)
        if self.released and self.original:
            raise ValueError(
                "released (the Jacobian of md-bnn's code) and original (that of pmf's) exclude each other, "
                "got True for both; set one of them to False"
            )

    def latent(self, weight: Tensor) -> Tensor:
        return to_two_levels(weight)

    def position(self, latent: Tensor) -> Tensor:
        return from_two_levels(latent)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return torch.tanh(now(self.beta) * self.position(latent))

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        beta = now(self.beta)
        levels = torch.softmax(beta * latent, dim=-1)
        pull = to_two_levels(grad)
        if self.original:
            levels = torch.softmax(beta * levels, dim=-1)
        mean = (levels * pull).sum(dim=-1, keepdim=True)
        return beta * ((pull if self.released or self.original else levels * pull) - levels * mean)
