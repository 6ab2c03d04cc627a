"""Proximal mean-field (Ajanthan et al. 2019): gradient descent on the softmax of two levels per weight."""

from dataclasses import dataclass

import torch
from torch import Tensor

from adaste.checks import require
from adaste.estimators.base import Estimator, from_two_levels, to_two_levels
from adaste.schedules import Scheduled, now


@dataclass(frozen=True)
class PMF(Estimator):
    """p = softmax(beta u), w = p_plus - p_minus = tanh(beta (u_plus - u_minus) / 2), G = dl/dp = (-g, +g).

    d = beta (p G - p (p . G)), the true Jacobian; or, with `released`, d = beta (G - p (p . G)): the identity in
    place of diag(p), which does not vanish as the weights saturate (the published code does this on purpose).
    """

    beta: Scheduled = 1.0
    released: bool = False

    def __post_init__(self) -> None:
        require("beta", self.beta, above=0)

    def latent(self, weight: Tensor) -> Tensor:
        return to_two_levels(weight)

    def position(self, latent: Tensor) -> Tensor:
        return from_two_levels(latent)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return torch.tanh(now(self.beta) * self.position(latent))

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        levels = torch.softmax(now(self.beta) * latent, dim=-1)
        pull = to_two_levels(grad)
        mean = (levels * pull).sum(dim=-1, keepdim=True)
        return now(self.beta) * ((pull if self.released else levels * pull) - levels * mean)
