"""The data of the paper's figures 1 and 2, for every form they are drawn in.

Legend: theta latent, w* = s(theta) weight, w^ = s(theta - beta g) perturbed weight, g = dl/dw, beta spacing.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adaste.estimators.maps import DoubleWell
from adaste.paper.mathematics import chain_rule

LATENTS, WEIGHTS = (-5.5, 3.0), (-1.3, 1.3)
"""From where to where a panel of figure 1 goes."""

SMALL, LARGE = -0.2, -2.0
"""The latents of figure 1: near zero and far below it."""

MUS, ALPHA, REACH = (1.0, 10.0, 100.0), 0.01, 1.5
"""Of figure 2; its latents go from -REACH to REACH. The paper's text does not give mu: the start, the middle and the
end of annealing."""


@dataclass(frozen=True)
class AdaptiveSlope:
    """One panel of figure 1: the chord of tanh from theta to theta - beta g beside the tangent at theta."""

    case: str
    latent: float
    grad: float
    beta: float

    @property
    def perturbed(self) -> float:
        """The perturbed latent theta - beta g."""
        return self.latent - self.beta * self.grad

    @property
    def slope(self) -> float:
        """(w* - w^) / (beta g): the slope of the chord."""
        return float(chain_rule.mean_slope(_scalar(self.latent), _scalar(self.beta * self.grad)))

    @property
    def derivative(self) -> float:
        """tanh'(theta): the slope of the tangent."""
        return float(chain_rule.derivative(_scalar(self.latent)))

    @property
    def touched(self) -> tuple[float, float]:
        """The latents between which the tangent is drawn."""
        return self.latent - 1.1, self.latent + 1.1

    def tangent(self, latents: Tensor) -> Tensor:
        """The height of the tangent over these latents."""
        return math.tanh(self.latent) + self.derivative * (latents - self.latent)

    def chord(self, latents: Tensor) -> Tensor:
        """The height of the chord over these latents: w* over theta, w^ over theta - beta g."""
        return math.tanh(self.latent) + self.slope * (latents - self.latent)


def adaptive_slopes() -> tuple[AdaptiveSlope, AdaptiveSlope, AdaptiveSlope]:
    """Figure 1: theta near zero; theta far below zero and pulled towards it (g < 0); the same, pushed away (g > 0).

    The paper does not say which beta it draws. Where the gradient pulls towards zero this is the steepest one; in the
    last panel that of the middle one.
    """
    near, far = (abs(float(chain_rule.tangent_distance(_scalar(latent)))) for latent in (SMALL, LARGE))
    return (
        AdaptiveSlope("near zero", SMALL, -1.0, near),
        AdaptiveSlope("pulled towards zero", LARGE, -1.0, far),
        AdaptiveSlope("pushed away from zero", LARGE, 1.0, far),
    )


@dataclass(frozen=True)
class MapCurve:
    """One curve of figure 2; a nan between its two halves keeps a line from being drawn across the jump."""

    mu: float
    latent: Tensor
    weight: Tensor


def map_curves(points: int = 301) -> tuple[MapCurve, ...]:
    """Figure 2: s(theta) for alpha = 1/100 and three values of mu, each half in so many points."""
    half = torch.linspace(0, REACH, points, dtype=torch.float64)
    gap = torch.full((1,), torch.nan, dtype=torch.float64)
    latent = torch.cat((-half.flip(0), gap, half))
    curves = []
    for mu in MUS:
        height = DoubleWell(mu, ALPHA)(half)
        curves.append(MapCurve(mu, latent, torch.cat((-height.flip(0), gap, height))))
    return tuple(curves)


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)
