"""One optimizer step, twice: as it is defined, and as one fused pass over memory. Tests hold the two equal.

Both are called where no gradients are recorded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from adaste._util.compiling import own_copy
from adaste.estimators import Estimator
from adaste.estimators.schedules import Scalar, Schedule, Scheduled, at_step, now, schedules_in
from adaste.optim.rules import Rule
from adaste.optim.sharding import like_shard

T = TypeVar("T")
TwoMoments = Callable[[list[Schedule], int | Tensor], tuple[list[Scalar], list[Scalar]]]


@dataclass(frozen=True)
class Method:
    """How the weights of one group are trained."""

    estimator: Estimator
    averaging: Scheduled


class Moment(NamedTuple):
    """A method at one step, and at the next, whose forward pass will see the weights."""

    now: Method
    after: Method


class StepPart(NamedTuple):
    """One parameter's part of a step; tensors are the shards of this rank and are changed in place."""

    group: int
    moment: int
    """Its place among the moments of the step; parameters that draw no random numbers share one."""
    weight: Tensor
    grad: Tensor
    latent: Tensor
    owner: Tensor
    """The parameter of the base optimizer whose shard `latent` is."""
    average: Tensor | None
    mass: Tensor | None
    norm: Tensor | None
    """On a GPU: the largest |g|, to tell whether the gradient is finite. None where that is known."""

    def keep(self, old: Tensor | float, new: Tensor) -> Tensor:
        """`new`, but `old` where the gradient of this parameter is not finite."""
        return new if self.norm is None else torch.where(self.norm.isfinite(), new, old)


def averaged(grad: Tensor, average: Tensor, mass: Tensor, rate: Scalar) -> tuple[Tensor, Tensor]:
    """The exponential average of the gradient, free of bias at every step, also where the rate changes:

    mass <- rate mass + (1 - rate), average <- average + (g - average) (1 - rate) / mass.
    """
    mass = rate * mass + (1 - rate)
    return average + (grad - average) * ((1 - rate) / mass), mass


def reference_step(base: Optimizer, moments: list[Moment], parts: list[StepPart]) -> None:
    """The step as it is defined, one function after the other, for any base optimizer."""
    before = [part.latent if part.norm is None else part.latent.clone() for part in parts]
    for part in parts:
        method = moments[part.moment].now
        weight = part.weight.to(part.latent.dtype)
        grad = _averaged_in_place(part, method)
        part.latent.copy_(method.estimator.carry(part.latent, weight))
        # Here and not in backward: the slope is not linear, it must see the gradient of the whole batch.
        slope = method.estimator.gradient(grad, part.latent, weight)
        part.owner.grad = like_shard(part.keep(0.0, slope), part.owner)
    base.step()
    base.zero_grad()
    for part, old in zip(parts, before, strict=True):
        moment = moments[part.moment]
        weight = part.weight.to(part.latent.dtype)
        part.latent.copy_(part.keep(old, moment.now.estimator.settle(part.latent, weight)))
        part.weight.copy_(moment.after.estimator.weight(part.latent, weight))


def fused_step(
    rule: Rule,
    settings: list[dict[str, Any]],
    states: list[dict[str, Tensor]],
    moments: list[Moment],
    parts: list[StepPart],
    steps: Tensor,
) -> None:
    """The same with the base optimizer's rule as a pure function, so that the compiler sees all of it at once.

    It counts the step, too.
    """
    for state, part in zip(states, parts, strict=True):
        method, after = moments[part.moment]
        weight = part.weight.to(part.latent.dtype)
        grad = _averaged_in_place(part, method)
        start = method.estimator.carry(part.latent, weight)
        slope = method.estimator.gradient(grad, start, weight)
        moved, advanced = rule.advance(start, slope, state, settings[part.group])
        part.latent.copy_(part.keep(part.latent, method.estimator.settle(moved, weight)))
        part.weight.copy_(after.estimator.weight(part.latent, weight))
        for name, value in advanced.items():
            state[name].copy_(part.keep(state[name], value))
    steps.add_(1)


def compiled(function: Callable[..., T], steps: int | Tensor) -> Callable[..., T]:
    """`function`, compiled for one optimizer, whose count of steps is where its parameters are."""
    # The parameters are independent of each other: on a GPU a few kernels can serve them all. On CPUs torch 2.6 fails.
    on_gpu = isinstance(steps, Tensor) and steps.is_cuda
    return torch.compile(own_copy(function), fullgraph=True, dynamic=False, options={"combo_kernels": on_gpu})


def two_moments(schedules: list[Schedule], step: int | Tensor) -> tuple[list[Scalar], list[Scalar]]:
    """What schedules are at a step and at the next."""
    return [schedule.at(step) for schedule in schedules], [schedule.at(step + 1) for schedule in schedules]


def moments_at(methods: list[Method], step: int | Tensor, evaluate: TwoMoments) -> list[Moment]:
    """Each method at a step and at the next; `evaluate` is `two_moments`, compiled or not."""
    if all(at_step(method, 0) is method for method in methods):
        return [Moment(method, method) for method in methods]  # nothing depends on the step
    schedules = [schedule for method in methods for schedule in schedules_in(method)]
    at_once, after = (iter(values) for values in (evaluate if schedules else two_moments)(schedules, step))
    following = step + 1
    return [Moment(at_step(method, step, at_once), at_step(method, following, after)) for method in methods]


def _averaged_in_place(part: StepPart, method: Method) -> Tensor:
    grad = part.grad.to(part.latent.dtype)
    if part.average is None or part.mass is None:
        return grad
    average, mass = averaged(grad, part.average, part.mass, now(method.averaging))
    part.average.copy_(part.keep(part.average, average))
    part.mass.copy_(part.keep(part.mass, mass))
    return average
