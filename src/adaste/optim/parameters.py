"""The parameters of an optimizer with all that belongs to each, and what one step of them is made from.

Tensors are the shards of this rank. Everything here is called where no gradients are recorded.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from adaste.estimators import Estimator
from adaste.estimators.base import FIRST, OutputAxis
from adaste.estimators.schedules import Scalar, Schedule, Scheduled, at_step, schedules_in
from adaste.optim.state import first_element, is_shard, local

_ROWS = torch.contiguous_format
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}

TwoMoments = Callable[[list[Schedule], int | Tensor], tuple[list[Scalar], list[Scalar]]]


@dataclass(frozen=True)
class Method:
    """The way in which the weights of one group are trained."""

    estimator: Estimator
    averaging: Scheduled

    @cached_property
    def is_constant(self) -> bool:
        """Whether nothing in it depends on the step."""
        return at_step(self, 0) is self


class Moment(NamedTuple):
    """A method at one step, and at the next, whose forward pass will see the weights."""

    now: Method
    after: Method


class Part(NamedTuple):
    """One parameter with all that belongs to it; its tensors are changed in place."""

    slot: int
    name: str
    group: int
    parameter: nn.Parameter
    """The network's."""
    owner: nn.Parameter
    """The base optimizer's, whose shard `latent` is."""
    sharded: bool
    """Whether they are DTensors."""
    axis: OutputAxis
    weight: Tensor
    latent: Tensor
    average: Tensor | None
    mass: Tensor | None
    grad: Tensor | None = None
    """dl/dw, where the parameter moves in this step; dense, also where the network's is sparse."""
    norm: Tensor | None = None
    """On a GPU: the largest |g|, to tell whether the gradient is finite. None where that is known."""
    moment: int = 0
    """The place of its method among the moments of the step."""

    def specialise(self, estimator: Estimator) -> Estimator:
        """Return the estimator with the random numbers and the output channels of this parameter."""
        return estimator.on_parameter(self.slot, first_element(self.parameter), self.axis)

    def keep(self, old: Tensor | float, new: Tensor) -> Tensor:
        """Return `new`, but `old` where the gradient of this parameter is not finite."""
        return new if self.norm is None else torch.where(self.norm.isfinite(), new, old)

    @property
    def is_vector(self) -> bool:
        """Whether all its tensors have their elements in the same order and without gaps, one for each weight."""
        weight, latent, average = self.weight, self.latent, self.average
        dense = weight.is_contiguous() or weight.is_contiguous(memory_format=_CHANNELS_LAST.get(weight.dim(), _ROWS))
        return (
            dense
            and (latent.shape, latent.stride()) == (weight.shape, weight.stride())
            and (average is None or average.stride() == weight.stride())
        )

    def export(self, estimator: Estimator) -> Tensor:
        """Return the weights of this parameter as they would be exported."""
        return estimator.binarize(self.latent, self.weight.to(self.latent.dtype)).to(self.weight.dtype)

    def write_weight(self, estimator: Estimator, *, unless_close: bool = False) -> None:
        """Give the network weight(theta, w); a weight that agrees up to rounding may be left alone, to the last bit."""
        new = estimator.weight(self.latent, self.weight.to(self.latent.dtype))
        if not isinstance(new, Tensor) or new.shape != self.weight.shape:  # which copy_ would repeat for all weights
            got = f"a tensor of shape {tuple(new.shape)}" if isinstance(new, Tensor) else f"{new!r}"
            raise ValueError(
                f"the function weight of {estimator!r} must return a tensor of the shape of the weights, "
                f"{tuple(self.weight.shape)} for {self.name}, got {got}"
            )
        new = new.to(self.weight.dtype)
        if not (unless_close and torch.allclose(self.weight, new, rtol=8 * torch.finfo(new.dtype).eps, atol=0)):
            self.weight.copy_(new)


def parts_in(groups: Sequence[Mapping[str, Any]], state: Mapping[Tensor, dict[str, Any]]) -> Iterator[Part]:
    """Yield all parameters of an optimizer's groups, in order."""
    slot = 0
    for index, group in enumerate(groups):
        names = group.get("param_names") or [f"parameter {i} of group {index}" for i in range(len(group["params"]))]
        for name, parameter, axis in zip(names, group["params"], output_axes(group), strict=True):
            own = state[parameter]
            average = local(own["average"]) if "average" in own else None
            yield Part(
                slot=slot,
                name=name,
                group=index,
                parameter=parameter,
                owner=own["latent"],
                sharded=is_shard(parameter),
                axis=axis,
                weight=local(parameter),
                latent=local(own["latent"]),
                average=average,
                mass=own.get("mass"),
            )
            slot += 1


def output_axes(group: Mapping[str, Any]) -> Sequence[OutputAxis]:
    """Return where each parameter of a group has its output channels."""
    return group.get("output_axes") or [FIRST] * len(group["params"])


def dense_grad(part: Part, grad: Tensor) -> Tensor:
    """Return the gradient of a part as this rank holds it; those of embeddings may be sparse."""
    grad = local(grad) if part.sharded else grad
    return grad.to_dense() if grad.is_sparse else grad


class StepInputs(NamedTuple):
    """What one step is made from: the parameters that move, and of each its gradient, its norm and its method."""

    parts: Sequence[Part]
    grads: Sequence[Tensor]
    norms: Sequence[Tensor | None]
    """As `Part.norm`."""
    methods: Sequence[Method]
    """Those of the groups."""
    moments: Sequence[Moment]
    """Those of the groups, and behind them those of single parameters."""
    places: Sequence[int]
    """The place among them of each part's."""

    def in_parts(self) -> list[Part]:
        """Return the parts, each with its own gradient, norm and place."""
        own = zip(self.parts, self.grads, self.norms, self.places, strict=True)
        return [part._replace(grad=grad, norm=norm, moment=place) for part, grad, norm, place in own]


def assign_moments(
    parts: Sequence[Part], methods: Sequence[Method], groups: Sequence[Moment]
) -> tuple[list[Moment], list[int]]:
    """Return moments, and the place of each part's among them; `methods` are those of the groups at any step.

    A part has the moment of its group, one for each other place of output channels in it, or one's own if its method
    draws random numbers.
    """
    moments, places = list(groups), []
    draws = [method.estimator.draws for method in methods]
    shared = {(place, FIRST): place for place, draw in enumerate(draws) if not draw}
    for part in parts:
        place = shared.get((part.group, part.axis))
        if place is None:
            place = len(moments)
            moments.append(
                Moment(*(replace(each, estimator=part.specialise(each.estimator)) for each in groups[part.group]))
            )
            if not draws[part.group]:
                shared[part.group, part.axis] = place
        places.append(place)
    return moments, places


def two_moments(schedules: list[Schedule], step: int | Tensor) -> tuple[list[Scalar], list[Scalar]]:
    """Return the values of schedules at a step and at the next."""
    return [schedule.at(step) for schedule in schedules], [schedule.at(step + 1) for schedule in schedules]


def moments_at(methods: list[Method], step: int | Tensor, evaluate: TwoMoments) -> list[Moment]:
    """Return each method at a step and at the next; `evaluate` is `two_moments`, compiled or not."""
    if all(method.is_constant for method in methods):
        return [Moment(method, method) for method in methods]
    schedules = [schedule for method in methods for schedule in schedules_in(method)]
    at_once, after = (iter(values) for values in (evaluate if schedules else two_moments)(schedules, step))
    following = step + 1
    return [Moment(at_step(method, step, at_once), at_step(method, following, after)) for method in methods]
