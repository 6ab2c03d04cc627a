"""The paper's general form (Proposition 1 and eq. theta_update): any forward map, any spacing.

With w* = s(theta) and the perturbed weight w^ = s(theta - beta g), g = dl/dw, the latent moves along

    d = (w* - w^) / beta,

a finite difference of s with spacing beta |g|. As beta -> 0 it becomes the chain rule g s'(theta); a larger beta looks
past a flat part of s. Legend: s forward map, theta latent, g gradient, beta spacing, d the gradient of the latent.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from adaste._util.checks import require, require_kind
from adaste.estimators.base import Estimator
from adaste.estimators.maps import DoubleWell, ForwardMap, same_sign, sign
from adaste.estimators.schedules import Scheduled, now


@dataclass(frozen=True)
class Spacing(ABC):
    """How far the perturbed point lies from the latent."""

    @abstractmethod
    def slope(self, forward: ForwardMap, grad: Tensor, latent: Tensor) -> Tensor:
        """The d = (s(theta) - s(theta - beta g)) / beta of each weight."""


@dataclass(frozen=True)
class FixedSpacing(Spacing):
    """The same beta for every weight."""

    beta: Scheduled = 1.0

    def __post_init__(self) -> None:
        require("beta", self.beta, above=0)

    def slope(self, forward: ForwardMap, grad: Tensor, latent: Tensor) -> Tensor:
        beta = now(self.beta)
        shift = beta * grad
        perturbed = latent - shift
        across = sign(latent) * (forward.magnitude(latent.abs()) + forward.magnitude(perturbed.abs()))
        along = shift.sign() * forward.increase(torch.minimum(latent.abs(), perturbed.abs()), shift.abs())
        return torch.where(sign(latent) == sign(perturbed), along, across) / beta


@dataclass(frozen=True)
class AdaptiveSpacing(Spacing):
    """Eq. beta_choice: beta = max(reach, |theta|) / |g| where theta g > 0, else 1; the paper's reach is 2.

    In closed form only: for |theta| >= reach the perturbed point is exactly zero and rounding would decide on which
    side of the jump it falls. It is taken as the limit from beyond the crossing. With D = max(reach, |theta|):

        theta g > 0:   d = g (s(|theta|) + s(D - |theta|)) / D
        theta g <= 0:  d = sign(g) (s(|theta| + |g|) - s(|theta|))

    A theta of 0 belongs to the positive side, as its weight does: theta g > 0 is g > 0 there.
    """

    reach: float = 2.0

    def __post_init__(self) -> None:
        require("reach", self.reach, above=0)

    def slope(self, forward: ForwardMap, grad: Tensor, latent: Tensor) -> Tensor:
        size = latent.abs()
        distance = size.clamp(min=self.reach)
        toward = grad * ((forward.magnitude(size) + forward.magnitude(distance - size)) / distance)
        away = grad.sign() * forward.increase(size, grad.abs())
        return torch.where(same_sign(latent, grad), toward, away)


@dataclass(frozen=True)
class FiniteDifference(Estimator):
    """w = s(theta), d = (s(theta) - s(theta - beta g)) / beta for a chosen map and spacing."""

    map: ForwardMap = DoubleWell()
    spacing: Spacing = AdaptiveSpacing()

    def __post_init__(self) -> None:
        require_kind("map", self.map, ForwardMap)
        require_kind("spacing", self.spacing, Spacing)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return self.map(latent)

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        return self.spacing.slope(self.map, grad, latent)
