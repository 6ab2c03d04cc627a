"""One parameter of an optimizer with all that belongs to it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from adaste.estimators import Estimator
from adaste.estimators.output_axis import FIRST, OutputAxis
from adaste.optim.sharding import first_element, local
from adaste.optim.step import Method, Moment, StepPart


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
