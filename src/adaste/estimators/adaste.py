"""AdaSTE, the adaptive straight-through estimator: the finite difference with the double-well map.

Three slopes of the same method:

- `PrintedSlope`, the rule of the main text, for any mu and alpha. Under mini-batch noise it drifts: E[d] is about
  0.4 sigma sign(theta) + E[g] / 2, every latent shrinks to zero and the weights flip at random. Give the optimizer
  `averaging=0.999` or more with it (docs/method.md has the measurements).
- `ExactSlope`, the appendix's slope for mu alpha < 1.
- `ReleasedSlope`, the rule of the authors' released code. Its accuracy comes from the latent dynamics around it (an
  exponential average of gradients), not from its adaptive gate, which fewer than 1e-4 of the weights ever meet.

Legend: s forward map, theta latent, g = dl/dw, r = 1 - mu alpha, d the gradient that the base optimizer sees. A theta
of 0 counts as positive, as its weight is: theta g > 0 is g > 0 there.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require, require_kind
from adaste.estimators.base import Estimator, start_latents
from adaste.estimators.maps import DoubleWell, Elementwise, ForwardMap, choose, same_sign, sign
from adaste.estimators.schedules import Scheduled, now


@dataclass(frozen=True)
class Spacing(Elementwise, ABC):
    """The distance from the latent to the perturbed point, |beta g|."""

    @abstractmethod
    def slope(self, forward: ForwardMap, grad: Tensor, latent: Tensor) -> Tensor:
        """Return d = (s(theta) - s(theta - beta g)) / beta of each weight.

        Args:
            forward: The map s.
            grad: g = dl/dw.
            latent: theta.

        Returns:
            A tensor in the shape of `latent`.
        """


@dataclass(frozen=True)
class FixedSpacing(Spacing):
    """The same beta for every weight: `d = (s(theta) - s(theta - beta g)) / beta`.

    Args:
        beta: A positive number, or a schedule.

    Raises:
        ValueError: If `beta` is not positive.
    """

    elementwise: ClassVar[bool] = True

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
    """The paper's spacing (eq. beta_choice): `beta = max(reach, |theta|) / |g|` where theta g > 0, else 1.

    In closed form only: for |theta| >= reach the perturbed point is exactly zero and rounding would decide on which
    side of the jump it falls. It is taken as the limit from beyond the crossing. With D = max(reach, |theta|):

        theta g > 0:   d = g (s(|theta|) + s(D - |theta|)) / D
        theta g <= 0:  d = sign(g) (s(|theta| + |g|) - s(|theta|))

    A theta of 0 belongs to the positive side, as its weight does: theta g > 0 is g > 0 there.

    Args:
        reach: The least distance, a positive number; 2 in the paper.

    Raises:
        ValueError: If `reach` is not positive.
    """

    elementwise: ClassVar[bool] = True

    reach: float = 2.0

    def __post_init__(self) -> None:
        require("reach", self.reach, above=0)

    def slope(self, forward: ForwardMap, grad: Tensor, latent: Tensor) -> Tensor:
        size = latent.abs()
        distance = size.clamp(min=self.reach)
        # g = g+ + g-, of which one is 0: sums of both cases, for torch.where takes long on a CPU (see `sign`).
        side = sign(latent)
        toward = (side * grad).clamp_(min=0).mul_(side)
        if forward.is_sign is True:
            return toward.mul_(distance.reciprocal_().mul_(2))
        away = grad - toward
        rise = toward * ((forward.magnitude(size) + forward.magnitude(distance - size)) / distance)
        return rise + away.sign() * forward.increase(size, away.abs())


@dataclass(frozen=True)
class FiniteDifference(Estimator):
    """The finite difference of any forward map.

        w = s(theta)
        d = (s(theta) - s(theta - beta g)) / beta

    Args:
        map: The map s: `DoubleWell`, `Tanh` or `HardTanh`.
        spacing: The choice of beta: `AdaptiveSpacing` or `FixedSpacing`.

    Raises:
        ValueError: If `map` is no map or `spacing` no spacing.
    """

    elementwise: ClassVar[bool] = True

    map: ForwardMap = DoubleWell()
    spacing: Spacing = AdaptiveSpacing()

    def __post_init__(self) -> None:
        require_kind("map", self.map, ForwardMap)
        require_kind("spacing", self.spacing, Spacing)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return self.map(latent)

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        return self.spacing.slope(self.map, grad, latent)


@dataclass(frozen=True)
class Slope(Elementwise, ABC):
    """A rule for the gradient of the latent, for the double-well map."""

    @abstractmethod
    def gradient(self, grad: Tensor, latent: Tensor, well: DoubleWell) -> Tensor:
        """Return d of each weight.

        Args:
            grad: g = dl/dw.
            latent: theta.
            well: The forward map.

        Returns:
            A tensor in the shape of `latent`.
        """


@dataclass(frozen=True)
class PrintedSlope(Slope):
    """The slope of the main text, eq. beta_choice, for any mu and alpha: `AdaptiveSpacing` with the double-well map.

    For mu alpha >= 1 this is d = g 2 / max(2, |theta|) where theta g > 0, and 0 elsewhere.

    Under mini-batch noise it drifts and every latent shrinks to zero: give the optimizer `averaging=0.999` or more.
    """

    elementwise: ClassVar[bool] = True

    spacing: ClassVar[AdaptiveSpacing] = AdaptiveSpacing()

    def gradient(self, grad: Tensor, latent: Tensor, well: DoubleWell) -> Tensor:
        return self.spacing.slope(well, grad, latent)


@dataclass(frozen=True)
class ExactSlope(Slope):
    """The appendix's slope for mu alpha < 1, limited to |d| <= |g|; for mu alpha >= 1 it is the printed one.

        theta g > 0:  beta_0 = |theta| / |g|       d = g (s(|theta|) + s(0+)) / |theta|
                      beta_1 = (|theta| + r) / |g|  d = g (s(|theta|) + 1) / (|theta| + r)
        theta g < 0:  d = g / (1 + mu) where |theta| < r, else 0

    Here r = 1 - mu alpha. The paper recommends beta_0 throughout.

    Args:
        steepest: Take the larger of the two, which is the maximum over all beta (it is beta_1 exactly where |theta| > 1
            + 2 mu + mu alpha).
    """

    elementwise: ClassVar[bool] = True

    steepest: bool = False

    def gradient(self, grad: Tensor, latent: Tensor, well: DoubleWell) -> Tensor:
        size = latent.abs()
        weight = well.magnitude(size)
        factor = (weight + well.jump) / size
        if self.steepest:
            factor = torch.maximum(factor, (weight + 1) / (size + well.linear_reach))
        toward = grad * factor.clamp(max=1)
        away = torch.where(size < well.linear_reach, grad * well.slope, 0.0)
        return torch.where(same_sign(latent, grad), toward, away)


@dataclass(frozen=True)
class ReleasedSlope(Slope):
    """The factor of the authors' released code, `d = f g`, with its flaws (its gate needs |g| > threshold).

    For mu alpha >= 1: f = 1 where |g| <= threshold or |theta| <= 1e-3; else min(1/2, 1/|theta|) where theta g > 0 and 0
    where theta g < 0: half the printed slope. For mu alpha < 1 f = 1 / (1 + mu) instead of 1, and un-halved formulas of
    the appendix inside the gate, one of them with the sign of theta where |theta| is meant. The sizes of theta below
    which there is no gate, 1e-3 and 1e-6, are constants of that code.

    Args:
        threshold: The |g| beyond which the factor is adaptive.

    Raises:
        ValueError: If `threshold` is negative.
    """

    elementwise: ClassVar[bool] = True

    threshold: float = 1e-3

    def __post_init__(self) -> None:
        require("threshold", self.threshold, least=0)

    def gradient(self, grad: Tensor, latent: Tensor, well: DoubleWell) -> Tensor:
        factor = choose(
            well.is_sign, lambda: self._binary_factor(grad, latent), lambda: self._soft_factor(grad, latent, well)
        )
        return factor * grad

    def _binary_factor(self, grad: Tensor, latent: Tensor) -> Tensor:
        size = latent.abs()
        gated = (grad.abs() > self.threshold) & (size > 1e-3)
        # At most 1/2 inside of the gate and 1 outside: the larger of both, for torch.where takes long (see `sign`).
        inside = (1 / size).clamp_(max=0.5).mul_(same_sign(latent, grad))
        return torch.maximum(inside, (~gated).to(inside.dtype))

    def _soft_factor(self, grad: Tensor, latent: Tensor, well: DoubleWell) -> Tensor:
        mu, alpha = now(well.mu), well.alpha
        size = latent.abs()
        large = grad.abs() > self.threshold
        toward = same_sign(latent, grad)
        saturated = (size > well.linear_reach) & (size > 1e-6)
        linear = (size < well.linear_reach) & (size > 1e-6)
        beyond = ((1 + 2 * mu + mu * alpha) * well.slope / size).clamp(max=0.5)
        within = ((2 * mu * (1 + alpha) - latent) * well.slope / size).clamp(0, 0.5)
        factor = torch.where(large & toward & linear, within, well.slope)
        factor = torch.where(large & toward & saturated, beyond, factor)
        return torch.where(large & ~toward & saturated, 0.0, factor)


@dataclass(frozen=True)
class AdaSTE(Estimator):
    """AdaSTE, the adaptive straight-through estimator: `w = s(theta; mu, alpha)`, d by the chosen slope.

    s is the map of `DoubleWell`, with theta / unit in place of theta:

        s(theta) = clip((theta + mu (1 + alpha) sign theta) / (1 + mu), -1, 1)

    Args:
        mu: A positive number, or a schedule to anneal (the paper: `Geometric` from 1 to 1/alpha over 200 epochs). From
            mu = 1/alpha on all weights are +-1.
        alpha: A number inside (0, 1): the inverse of the mu from which on all weights are +-1.
        slope: `PrintedSlope()`, `ExactSlope()` or `ReleasedSlope()`.
        unit: The size of a latent that stands for theta = 1 in the formulas. Rescaling (theta, unit, lr) by one factor
            leaves all signs as they are; released-code dynamics use it to keep latents of order one.
        start: If given, latents start at +-start with the signs of the network's weights.

    Raises:
        ValueError: If a number is out of range or `slope` is no slope.
    """

    elementwise: ClassVar[bool] = True

    mu: Scheduled = 100.0
    alpha: float = 0.01
    slope: Slope = PrintedSlope()
    unit: float = 1.0
    start: float | None = None

    _well: ClassVar[DoubleWell]
    """No field, for it follows from the fields; made once, for a step asks for it often."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_well", DoubleWell(self.mu, self.alpha))
        require_kind("slope", self.slope, Slope)
        require("unit", self.unit, above=0)
        require("start", self.start, above=0, optional=True)

    @property
    def well(self) -> DoubleWell:
        """The forward map s."""
        return self._well

    def latent(self, weight: Tensor) -> Tensor:
        return start_latents(weight, self.start)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return self.well(self._in_units(latent))

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        return self.slope.gradient(grad, self._in_units(latent), self.well)

    def _in_units(self, latent: Tensor) -> Tensor:
        return latent if self.unit == 1 else latent / self.unit
