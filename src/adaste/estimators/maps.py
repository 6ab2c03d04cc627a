"""Forward maps s(theta): the weight a network computes with as a function of the latent weight.

Each map is the minimiser of an inner objective, s(theta) = argmin_w G(w) - w theta (eq. separable_E). All are odd and
increasing, so each is given by its magnitude on theta >= 0, s(theta) = sign(theta) magnitude(|theta|), where
magnitude(0) is the limit from the right: a map with a jump at zero has no other sensible value there.

Legend: theta latent, w weight, G inner objective, mu and alpha shape of the double well.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require
from adaste.estimators.schedules import Scalar, Scheduled, now


def sign(x: Tensor) -> Tensor:
    """Return +1 where x >= 0, else -1. Never zero: training, packing and kernels share this rule.

    Args:
        x: A tensor of any floating-point type.

    Returns:
        A new tensor of the same shape and type, without a gradient.
    """
    if torch.compiler.is_compiling():  # torch 2.11's compiler refuses `out=` where channels lie last
        return (x.detach() >= 0).to(x.dtype) * 2 - 1
    # Not by torch.where, which guesses wrong at every other random sign on a CPU and takes ten times as long.
    return torch.rsub(torch.ge(x.detach(), 0, out=torch.empty_like(x)), -1, alpha=-2)


def same_sign(x: Tensor, y: Tensor) -> Tensor:
    """Return whether x y > 0, where an x of 0 counts as positive, as in `sign`; never true where y is 0.

    Signs are compared and not the product with 0, which underflows for small numbers.
    """
    return ((x >= 0) == (y > 0)) & (y != 0)


def choose(condition: bool | Tensor, then: Callable[[], Tensor], otherwise: Callable[[], Tensor]) -> Tensor:
    """Return `then()` or `otherwise()`: as one if the condition is known on the host, else element by element."""
    if isinstance(condition, Tensor):
        return torch.where(condition, then(), otherwise())
    return then() if condition else otherwise()


class Elementwise:
    """A class whose functions may be element-wise, and which says so itself."""

    elementwise: ClassVar[bool] = False
    """Whether each element of all results depends on the same element of the arguments alone, in every bit. A step then
    calls its functions for parts of weights, or for several weights at once.
    """

    def __init_subclass__(cls) -> None:
        # Not inherited: a function that a class adds may look at a whole weight, as a mean over a layer does.
        cls.elementwise = vars(cls).get("elementwise", False)


@dataclass(frozen=True)
class ForwardMap(Elementwise, ABC):
    """An odd, increasing map into [-1, 1]."""

    @property
    def is_sign(self) -> bool | Tensor:
        """Whether it is the sign function (a tensor where that depends on a step which is a tensor)."""
        return False

    @abstractmethod
    def magnitude(self, size: Tensor) -> Scalar:
        """Return s(size) for size >= 0; the limit from the right at 0.

        Args:
            size: |theta|.

        Returns:
            Values in [0, 1]; one number if they are all equal.
        """

    @abstractmethod
    def increase(self, size: Tensor, by: Tensor) -> Scalar:
        """Return s(size + by) - s(size) for size, by >= 0, in a form that keeps its digits when `by` is small.

        Args:
            size: |theta|.
            by: The distance to the other point.

        Returns:
            Values in [0, 1]; one number if they are all equal.
        """

    @abstractmethod
    def objective(self, weight: Tensor) -> Tensor:
        """Return G(w) for |w| <= 1.

        Args:
            weight: w.

        Returns:
            A tensor in the shape of `weight`.
        """

    def __call__(self, latent: Tensor) -> Tensor:
        """Return s(theta)."""
        return sign(latent) if self.is_sign is True else sign(latent).mul_(self.magnitude(latent.abs()))


@dataclass(frozen=True)
class Tanh(ForwardMap):
    """The map `s = tanh(theta / temperature)`.

    From G = temperature (entropy of a Bernoulli variable of mean w, negated).

    Args:
        temperature: A positive number, or a schedule.

    Raises:
        ValueError: If `temperature` is not positive.
    """

    elementwise: ClassVar[bool] = True

    temperature: Scheduled = 1.0

    def __post_init__(self) -> None:
        require("temperature", self.temperature, above=0)

    def magnitude(self, size: Tensor) -> Tensor:
        return torch.tanh(size / now(self.temperature))

    def increase(self, size: Tensor, by: Tensor) -> Tensor:
        # tanh a - tanh b = tanh(a - b) (1 - tanh a tanh b)
        temperature = now(self.temperature)
        return torch.tanh(by / temperature) * (1 - self.magnitude(size) * self.magnitude(size + by))

    def objective(self, weight: Tensor) -> Tensor:
        terms = torch.special.xlogy(1 + weight, 1 + weight) + torch.special.xlogy(1 - weight, 1 - weight)
        scaled: Tensor = terms * now(self.temperature) / 2
        return scaled


@dataclass(frozen=True)
class HardTanh(ForwardMap):
    """The map `s = clip(theta / temperature, -1, 1)`.

    From G = temperature w^2 / 2 on [-1, 1].

    Args:
        temperature: A positive number, or a schedule.

    Raises:
        ValueError: If `temperature` is not positive.
    """

    elementwise: ClassVar[bool] = True

    temperature: Scheduled = 1.0

    def __post_init__(self) -> None:
        require("temperature", self.temperature, above=0)

    def magnitude(self, size: Tensor) -> Tensor:
        return (size / now(self.temperature)).clamp(max=1)

    def increase(self, size: Tensor, by: Tensor) -> Tensor:
        temperature = now(self.temperature)
        return torch.minimum(by, (temperature - size).clamp(min=0)) / temperature

    def objective(self, weight: Tensor) -> Tensor:
        return now(self.temperature) / 2 * weight**2


@dataclass(frozen=True)
class DoubleWell(ForwardMap):
    """The paper's map (eq. our_s_mapping): `s = clip((theta + mu (1 + alpha) sign theta) / (1 + mu), -1, 1)`.

    From G = (1 + mu) / 2 w^2 - mu (1 + alpha) |w| on [-1, 1] (eq. our_E). Linear for |theta| < 1 - mu alpha, +-1
    beyond, and exactly the sign function from mu = 1 / alpha on.

    Args:
        mu: A positive number, or a schedule. It weighs the two wells at -1 and +1.
        alpha: A number inside (0, 1): the inverse of the mu from which on the map is the sign function.

    Raises:
        ValueError: If a number is out of range.
    """

    elementwise: ClassVar[bool] = True

    mu: Scheduled = 100.0
    alpha: float = 0.01

    def __post_init__(self) -> None:
        require("mu", self.mu, above=0, why="it weighs the two wells at -1 and +1")
        require("alpha", self.alpha, above=0, below=1, why="weights are +-1 from mu = 1/alpha on")

    @property
    def is_sign(self) -> bool | Tensor:
        """Whether mu alpha >= 1."""
        # mu against 1/alpha and not the product against 1: in floats 100 * 0.01 may fall short of 1.
        return now(self.mu) >= 1 / self.alpha

    @property
    def linear_reach(self) -> Scalar:
        """The end r = max(0, 1 - mu alpha) of the linear part: the map is +-1 where |theta| > r."""
        reach = 1 - now(self.mu) * self.alpha
        # Not left to rounding: mu alpha may fall short of 1 where mu = 1 / alpha.
        if isinstance(reach, Tensor):
            return torch.where(torch.as_tensor(self.is_sign), 0.0, reach.clamp(min=0))
        return 0.0 if self.is_sign else max(0.0, reach)

    @property
    def slope(self) -> Scalar:
        """1 / (1 + mu): the derivative of the linear part."""
        return 1 / (1 + now(self.mu))

    @property
    def jump(self) -> Scalar:
        """s(0+) = mu (1 + alpha) / (1 + mu), at most 1."""
        height = now(self.mu) * (1 + self.alpha) * self.slope
        if isinstance(height, Tensor):
            return torch.where(torch.as_tensor(self.is_sign), 1.0, height.clamp(max=1))
        return 1.0 if self.is_sign else min(1.0, height)

    def magnitude(self, size: Tensor) -> Scalar:
        if self.is_sign is True:
            return 1.0
        return (size * self.slope + self.jump).clamp(max=1)

    def increase(self, size: Tensor, by: Tensor) -> Scalar:
        if self.is_sign is True:
            return 0.0
        return torch.minimum(by, (self.linear_reach - size).clamp(min=0)) * self.slope

    def objective(self, weight: Tensor) -> Tensor:
        mu = now(self.mu)
        return (1 + mu) / 2 * weight**2 - mu * (1 + self.alpha) * weight.abs()
