"""Values that change during training, as frozen objects: a schedule is a pure function from a step to a number.

The one internal unit is the optimizer step. `every` is the number of steps one tick lasts, so the same schedule moves
once per step (`every=1`) or once per epoch (`every=steps_per_epoch`); `length` counts ticks.

    Geometric(start=1.0, stop=100.0, length=200, every=391)      # mu <- gamma mu after every epoch of 391 steps

A step is a Python integer, and the value a float; or it is an integer tensor, and the value a tensor on the same
device, so that a captured CUDA graph sees the current value at every replay.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from adaste._util.checks import require_count, require_finite

Scalar = float | Tensor
"""A number, or a tensor without dimensions that holds one."""

T = TypeVar("T")


class Timed(ABC):
    """A value that depends on the step."""

    @abstractmethod
    def at(self, step: int | Tensor) -> Any:
        """Return the value at a step.

        Args:
            step: The step, 0-based; an integer or a tensor.

        Returns:
            The value.
        """


@dataclass(frozen=True, kw_only=True)
class Schedule(Timed):
    """A number that depends on the step."""

    every: int = 1

    def __post_init__(self) -> None:
        require_count("every", self.every, least=1)

    @abstractmethod
    def at(self, step: int | Tensor) -> Scalar:
        """Return the number at a step.

        Args:
            step: The step, 0-based; an integer or an integer tensor.

        Returns:
            A float, or a tensor without dimensions on the device of `step`.
        """

    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest value of all steps.

        Returns:
            The two numbers.
        """

    def stretched(self, factor: int) -> Self:
        """Return the same course over `factor` times as many ticks: a schedule in epochs becomes one in steps.

        Args:
            factor: The ticks that replace one.

        Returns:
            The schedule.
        """
        return self

    def _tick(self, step: int | Tensor) -> int | Tensor:
        return step // self.every if isinstance(step, int) else torch.div(step, self.every, rounding_mode="floor")


@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """The same value at every step.

    Args:
        value: The number.
        every: Without effect; all schedules have it.

    Raises:
        ValueError: If `value` is not finite.
    """

    value: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_finite("value", self.value)

    def at(self, step: int | Tensor) -> Scalar:
        return self.value

    def bounds(self) -> tuple[float, float]:
        return self.value, self.value


@dataclass(frozen=True, kw_only=True)
class Ramp(Schedule):
    """From `start` to `stop` in `length` ticks after `delay` ticks, constant before and after.

    Args:
        start: The value until tick `delay`.
        stop: The value from tick `delay + length` on.
        length: Ticks from one to the other.
        delay: Ticks before the first change.
        every: Steps that one tick lasts.

    Raises:
        ValueError: If a value is not finite or a count out of range.
    """

    start: float
    stop: float
    length: int
    delay: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("length", self.length, least=1)
        require_count("delay", self.delay, least=0)
        require_finite("start", self.start)
        require_finite("stop", self.stop)

    @abstractmethod
    def shape(self, progress: Scalar) -> Scalar:
        """Return the value at `progress`, which runs from 0 to 1.

        Args:
            progress: The share p of the ticks between the ends; a number or a tensor.

        Returns:
            The value, of the same type.
        """

    def at(self, step: int | Tensor) -> Scalar:
        tick = self._tick(step)
        if isinstance(tick, Tensor):
            progress = ((tick - self.delay).to(torch.float32) / self.length).clamp(0, 1)
            value = torch.where(progress >= 1, self.stop, self.shape(progress))
            return torch.where(progress <= 0, self.start, value)
        elapsed = tick - self.delay
        # The ends are returned as given, not computed: an annealed mu must reach 1/alpha to the last digit.
        if elapsed <= 0:
            return self.start
        return self.stop if elapsed >= self.length else self.shape(elapsed / self.length)

    def bounds(self) -> tuple[float, float]:
        return min(self.start, self.stop), max(self.start, self.stop)

    def stretched(self, factor: int) -> Self:
        return dataclasses.replace(self, length=self.length * factor, delay=self.delay * factor)


@dataclass(frozen=True, kw_only=True)
class Linear(Ramp):
    """A straight line, `start + (stop - start) p`, where p is the share of the ticks that have passed.

    Args:
        start: The value until tick `delay`.
        stop: The value from tick `delay + length` on.
        length: Ticks from one to the other.
        delay: Ticks before the first change.
        every: Steps that one tick lasts.

    Raises:
        ValueError: If a value is not finite or a count out of range.
    """

    def shape(self, progress: Scalar) -> Scalar:
        return self.start + (self.stop - self.start) * progress


@dataclass(frozen=True, kw_only=True)
class Geometric(Ramp):
    """A geometric sequence, `start (stop / start)^p`, where p is the share of the ticks that have passed.

    The value is multiplied by the same factor at every tick, as mu <- gamma mu in the paper.

    Args:
        start: The value until tick `delay`.
        stop: The value from tick `delay + length` on.
        length: Ticks from one to the other.
        delay: Ticks before the first change.
        every: Steps that one tick lasts.

    Raises:
        ValueError: If a value is not finite or a count out of range, or an end is not positive.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start <= 0 or self.stop <= 0:
            raise ValueError(
                f"a Geometric schedule needs start > 0 and stop > 0 (it multiplies), got {self.start} and {self.stop}"
            )

    def shape(self, progress: Scalar) -> Scalar:
        value: Scalar = self.start * (self.stop / self.start) ** progress
        return value


@dataclass(frozen=True, kw_only=True)
class Cosine(Ramp):
    """Half a period of a cosine, `stop + (start - stop) (1 + cos(pi p)) / 2`, where p is the share of the ticks that
    have passed.

    Args:
        start: The value until tick `delay`.
        stop: The value from tick `delay + length` on.
        length: Ticks from one to the other.
        delay: Ticks before the first change.
        every: Steps that one tick lasts.

    Raises:
        ValueError: If a value is not finite or a count out of range.
    """

    def shape(self, progress: Scalar) -> Scalar:
        angle = math.pi * progress
        cosine = torch.cos(angle) if isinstance(angle, Tensor) else math.cos(angle)
        return self.stop + (self.start - self.stop) * (1 + cosine) / 2


@dataclass(frozen=True, kw_only=True)
class Sigmoid(Ramp):
    """A logistic curve from start to stop, normalised so that it begins and ends exactly there (PARQ's).

    With p, the share of the ticks that have passed, and k, the steepness:

        start + (stop - start) (1 + tanh(k (p - 1/2) / 2) / tanh(k / 4)) / 2

    Args:
        start: The value until tick `delay`.
        stop: The value from tick `delay + length` on.
        length: Ticks from one to the other.
        delay: Ticks before the first change.
        every: Steps that one tick lasts.
        steepness: The factor k in the exponent of the curve; larger is steeper in the middle.

    Raises:
        ValueError: If a value is not finite or a count out of range, or `steepness` is not positive.
    """

    steepness: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_finite("steepness", self.steepness)
        if self.steepness <= 0:
            raise ValueError(f"steepness must be positive, got {self.steepness}")

    def shape(self, progress: Scalar) -> Scalar:
        # By tanh, of which a logistic curve is a shifted copy: it keeps its digits however flat the curve is.
        angle = self.steepness * (progress - 0.5) / 2
        tangent = torch.tanh(angle) if isinstance(angle, Tensor) else math.tanh(angle)
        share = (1 + tangent / math.tanh(self.steepness / 4)) / 2
        return self.start + (self.stop - self.start) * share


@dataclass(frozen=True, kw_only=True)
class Triangle(Schedule):
    """Two straight lines: from `start` up to `peak`, and from there down to `stop`. Constant afterwards.

    At tick t, with the ticks r of the rise and the length l:

        start + (peak - start) t / r                  for t < r
        peak + (stop - peak) (t - r) / (l - r)        for r <= t < l

    Args:
        start: The value at the first tick.
        peak: The value at tick `rise`.
        stop: The value from tick `length` on.
        rise: Ticks from the start to the peak; 0 for none.
        length: Ticks from the start to the end.
        every: Steps that one tick lasts.

    Raises:
        ValueError: If a value is not finite or a count out of range, or `rise` is not below `length`.
    """

    start: float
    peak: float
    stop: float
    rise: int
    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("start", "peak", "stop"):
            require_finite(name, getattr(self, name))
        require_count("rise", self.rise, least=0)
        require_count("length", self.length, least=1)
        if self.rise >= self.length:
            raise ValueError(f"rise must be below length, {self.length}, got {self.rise}")

    def at(self, step: int | Tensor) -> Scalar:
        tick, fall = self._tick(step), self.length - self.rise
        if isinstance(tick, Tensor):
            ahead = tick.to(torch.float32)
            rising = self.start + (self.peak - self.start) * ahead / max(self.rise, 1)
            falling = self.peak + (self.stop - self.peak) * (ahead - self.rise) / fall
            value = torch.where(tick < self.rise, rising, falling)
            return torch.where(tick >= self.length, self.stop, value)
        if tick < self.rise:
            return self.start + (self.peak - self.start) * tick / self.rise
        return self.stop if tick >= self.length else self.peak + (self.stop - self.peak) * (tick - self.rise) / fall

    def bounds(self) -> tuple[float, float]:
        ends = [self.peak, self.stop, *([self.start] if self.rise else [])]
        return min(ends), max(ends)

    def stretched(self, factor: int) -> Self:
        return dataclasses.replace(self, rise=self.rise * factor, length=self.length * factor)


@dataclass(frozen=True, kw_only=True)
class Steps(Schedule):
    """A piecewise constant: `values[i]` from tick `ticks[i - 1]` on, `values[0]` before the first.

    Args:
        values: The values in order, one more than ticks.
        ticks: The ticks at which the value changes; they increase.
        every: Steps that one tick lasts.

    Raises:
        ValueError: If there is not one value more than ticks, a value is not finite, or the ticks do not increase.
    """

    values: tuple[float, ...]
    ticks: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.values) != len(self.ticks) + 1:
            raise ValueError(
                f"Steps needs one value more than ticks, got {len(self.values)} values and {len(self.ticks)} ticks"
            )
        for value in self.values:
            require_finite("every value of Steps", value)
        for tick in self.ticks:
            require_count("every tick of Steps", tick, least=0)
        if list(self.ticks) != sorted(set(self.ticks)):
            raise ValueError(f"the ticks of Steps must increase, got {self.ticks}")

    def at(self, step: int | Tensor) -> Scalar:
        tick = self._tick(step)
        if isinstance(tick, Tensor):
            value = torch.full_like(tick, self.values[0], dtype=torch.float32)
            for boundary, later in zip(self.ticks, self.values[1:], strict=True):
                value = torch.where(tick >= boundary, later, value)
            return value
        return self.values[sum(tick >= boundary for boundary in self.ticks)]

    def bounds(self) -> tuple[float, float]:
        return min(self.values), max(self.values)

    def stretched(self, factor: int) -> Self:
        return dataclasses.replace(self, ticks=tuple(tick * factor for tick in self.ticks))


Scheduled = float | Schedule | Tensor
"""A parameter that may follow a schedule. The tensor is what a schedule becomes at a step that is a tensor."""


def now(value: Scheduled) -> Scalar:
    """Return the value of a parameter inside a pure function, where every schedule has been resolved already.

    Raise TypeError if it is still a schedule.
    """
    if isinstance(value, Schedule):
        raise TypeError(
            f"this parameter follows {value}: it has no value before a step is chosen, use at_step(estimator, step)"
        )
    return value


def at_step(value: T, step: int | Tensor, values: Iterator[Scalar] | None = None) -> T:
    """Return `value` with everything inside it that depends on the step replaced by its value at `step`.

        at_step(AdaSTE(mu=Geometric(start=1.0, stop=100.0, length=200)), 100)    # AdaSTE with mu = 10

    Args:
        value: A method, or another frozen dataclass.
        step: The step, 0-based; an integer or an integer tensor.
        values: The values of its schedules at this step, if they are known: in the order of the fields.

    Returns:
        A copy without schedules; the same object if nothing depends on the step.
    """

    def resolve(part: Any) -> Any:
        if isinstance(part, Schedule) and values is not None:
            return next(values)
        return part.at(step) if isinstance(part, Timed) else part

    return transform(value, resolve)


def parts_of(value: Any) -> Iterator[Any]:
    """Yield a value and, if it is a dataclass, the parts of all its fields in order."""
    yield value
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from parts_of(getattr(value, field.name))


def schedules_in(value: Any) -> list[Schedule]:
    """Return all schedules inside nested frozen dataclasses, in the order of their fields."""
    return [part for part in parts_of(value) if isinstance(part, Schedule)]


def transform(value: T, change: Callable[[Any], Any]) -> T:
    """Return nested frozen dataclasses with `change` applied to every field; the same object where nothing changed."""
    changed = {}
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        before = getattr(value, field.name)
        after = change(before)
        if after is before and dataclasses.is_dataclass(before):
            after = transform(before, change)
        if after is not before:
            changed[field.name] = after
    return dataclasses.replace(value, **changed) if changed else value  # type: ignore[type-var]
