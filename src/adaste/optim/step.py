"""One optimizer step as it is defined. It is called where no gradients are recorded."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adaste.estimators import Estimator
from adaste.estimators.base import FIRST, OutputAxis
from adaste.estimators.schedules import Scalar, Schedule, Scheduled, at_step, now, schedules_in
from adaste.optim.state import first_element, like_shard, local

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


class TrainedParameter(NamedTuple):
    """One parameter with all that belongs to it: its weight and gradient, its latent and the rest of its state."""

    slot: int
    name: str
    group: int
    weight: nn.Parameter
    state: dict[str, Any]
    axis: OutputAxis = FIRST
    """Where the weight has its output channels."""

    @property
    def moves(self) -> bool:
        return self.weight.grad is not None

    @property
    def grad(self) -> Tensor:
        """The gradient of a weight that moves, dense: those of embeddings may be sparse."""
        grad = local(cast("Tensor", self.weight.grad))
        return grad.to_dense() if grad.is_sparse else grad

    @property
    def latent(self) -> nn.Parameter:
        return cast("nn.Parameter", self.state["latent"])

    def placed(self, estimator: Estimator) -> Estimator:
        """The estimator with the random numbers and the output channels of this parameter."""
        return estimator.on_parameter(self.slot, first_element(self.weight), self.axis)

    def method(self, method: Method) -> Method:
        """A method with the estimator placed on this parameter."""
        return replace(method, estimator=self.placed(method.estimator))

    def part(self, moment: int, grad: Tensor, norm: Tensor | None) -> StepPart:
        """Its part of a step."""
        return StepPart(
            group=self.group,
            moment=moment,
            weight=local(self.weight),
            grad=grad,
            latent=local(self.latent),
            owner=self.latent,
            average=local(self.state["average"]) if "average" in self.state else None,
            mass=self.state.get("mass"),
            norm=norm,
        )

    def exported(self, estimator: Estimator) -> Tensor:
        """The weights of this parameter as they would be exported."""
        weight, latent = local(self.weight), local(self.latent)
        return estimator.binarize(latent, weight.to(latent.dtype)).to(weight.dtype)

    def write_weight(self, estimator: Estimator, *, unless_close: bool = False) -> None:
        """Give the network weight(theta, w); a weight that agrees up to rounding may be left alone, to the last bit."""
        weight, latent = local(self.weight), local(self.latent)
        new = estimator.weight(latent, weight.to(latent.dtype)).to(weight.dtype)
        if not (unless_close and torch.allclose(weight, new, rtol=8 * torch.finfo(new.dtype).eps, atol=0)):
            weight.copy_(new)


def parameters_of(
    groups: Sequence[Mapping[str, Any]], state: Mapping[Tensor, dict[str, Any]]
) -> Iterator[TrainedParameter]:
    """All parameters of an optimizer's groups, in order."""
    slot = 0
    for index, group in enumerate(groups):
        names = group.get("param_names") or [f"parameter {i} of group {index}" for i in range(len(group["params"]))]
        for name, weight, axis in zip(names, group["params"], output_axes(group), strict=True):
            yield TrainedParameter(slot, name, index, weight, state[weight], axis)
            slot += 1


def output_axes(group: Mapping[str, Any]) -> Sequence[OutputAxis]:
    """Where each parameter of a group has its output channels."""
    return group.get("output_axes") or [FIRST] * len(group["params"])


def planned(
    moving: Sequence[TrainedParameter],
    grads: Sequence[Tensor],
    norms: Sequence[Tensor | None],
    groups: Sequence[Moment],
) -> tuple[list[Moment], list[StepPart]]:
    """A step's parts and their moments: that of the group, one for each other place of output channels in it, or one's
    own for a parameter that draws random numbers.
    """
    moments, parts = list(groups), []
    draws = [moment.now.estimator.draws for moment in groups]
    shared = {(place, FIRST): place for place, draw in enumerate(draws) if not draw}
    for parameter, grad, norm in zip(moving, grads, norms, strict=True):
        place = shared.get((parameter.group, parameter.axis))
        if place is None:
            place = len(moments)
            moments.append(Moment(*(parameter.method(method) for method in groups[parameter.group])))
            if not draws[parameter.group]:
                shared[parameter.group, parameter.axis] = place
        parts.append(parameter.part(place, grad, norm))
    return moments, parts


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
        grad = averaged_in_place(part, method)
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


def averaged_in_place(part: StepPart, method: Method) -> Tensor:
    """Return the gradient that the estimator sees, of which the part may keep an average."""
    grad = part.grad.to(part.latent.dtype)
    if part.average is None or part.mass is None:
        return grad
    average, mass = averaged(grad, part.average, part.mass, now(method.averaging))
    part.average.copy_(part.keep(part.average, average))
    part.mass.copy_(part.keep(part.mass, mass))
    return average
