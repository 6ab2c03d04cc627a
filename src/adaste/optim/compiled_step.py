"""What is compiled for one optimizer, and whether a step can and should be the compiled one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from adaste._util.warnings import warn_user
from adaste.estimators.schedules import Scalar, Schedule
from adaste.optim.parameters import TrainedParameter
from adaste.optim.rules import RULES
from adaste.optim.settings import base_settings
from adaste.optim.sharding import local
from adaste.optim.step import Moment, StepPart, TwoMoments, compiled, fused_step, two_moments

# The compiler gives up with an error after eight versions of one function.
_MOST_COMPILATIONS = 4


@dataclass
class _FirstFew:
    """The first few versions of a function: they are compiled, others are not."""

    versions: list[Any] = field(default_factory=list)

    def admit(self, version: Any) -> bool:
        """Whether it is one of them."""
        if version not in self.versions and len(self.versions) < _MOST_COMPILATIONS:
            self.versions.append(version)
        return version in self.versions


class CompiledStep:
    """The fused step and the values of schedules. `groups` are an optimizer's, `moving` its parameters that move."""

    def __init__(self) -> None:
        # Made when first needed: to load the compiler takes seconds.
        self.fused: Callable[..., None] | None = None
        self._evaluate: TwoMoments | None = None
        self._steps, self._schedules = _FirstFew(), _FirstFew()
        self._warned = self._failed = False

    def two_moments(self, schedules: list[Schedule], steps: int | Tensor) -> tuple[list[Scalar], list[Scalar]]:
        """What schedules are at a step and at the next."""
        if not self._schedules.admit(schedules):
            return two_moments(schedules, steps)
        if self._evaluate is None:
            self._evaluate = compiled(two_moments, steps)
        return self._evaluate(schedules, steps)

    def suits(self, base: Optimizer, groups: list[dict[str, Any]], moving: list[TrainedParameter]) -> bool:
        """Whether the base optimizer has made the state that the fused step reads, and the step is one of a few."""
        needs = RULES[type(base)].needs
        begun = all(
            base.state.get(each.latent, {}).get(name) is not None
            for each in moving
            for name in needs(groups[each.group])
        )
        return begun and not self._failed and self._worth_compiling(type(base).__name__, groups, moving)

    def step(
        self,
        base: Optimizer,
        groups: list[dict[str, Any]],
        moving: list[TrainedParameter],
        moments: list[Moment],
        parts: list[StepPart],
        steps: int | Tensor,
    ) -> bool:
        """The fused step, which counts itself in `steps`; False, and nothing has changed, if it cannot be compiled."""
        rule = RULES[type(base)]
        settings = [base_settings(group) for group in groups]
        states = [
            {name: local(base.state[each.latent][name]) for name in rule.needs(settings[each.group])} for each in moving
        ]
        if self.fused is None:
            self.fused = compiled(fused_step, steps)
        from torch._dynamo.exc import BackendCompilerFailed  # the compiler is loaded by now

        # Backwards: the gradients that were checked last are still in the cache.
        pairs = [_as_vectors(state, part) for state, part in zip(states[::-1], parts[::-1], strict=True)]
        try:
            self.fused(rule, settings, [state for state, _ in pairs], moments, [part for _, part in pairs], steps)
        except BackendCompilerFailed as error:
            self._failed = True
            reason = error.inner_exception
            first_line = f"{type(reason).__name__}: {reason}".partition("\n")[0]
            warn_user(
                f"torch {torch.__version__} cannot compile this step of {type(base).__name__}: the optimizer goes on "
                f"uncompiled, with the same results (compile=False is silent). The compiler said: {first_line}"
            )
        return not self._failed

    def _worth_compiling(self, kind_of_base: str, groups: list[dict[str, Any]], moving: list[TrainedParameter]) -> bool:
        """Whether this version of the step is one of the first few, which are compiled."""
        if self._steps.admit((_compiled_in(groups), _kinds(groups, moving))):
            return True
        if not self._warned:
            self._warned = True
            warn_user(
                f"settings of {kind_of_base} other than the learning rate, or which parameters have a gradient, have "
                f"changed {_MOST_COMPILATIONS} times, and each change compiles the step anew: it goes on uncompiled, "
                "but for what is compiled already. A schedule that cycles momentum does this (cycle_momentum=False)"
            )
        return False


def _as_vectors(state: dict[str, Tensor], part: StepPart) -> tuple[dict[str, Tensor], StepPart]:
    """The tensors of a part of a step that have no dimensions, as vectors of one element, which share their memory.

    On a CPU, torch's compiler takes a float64 tensor without dimensions for a number: what is written there is lost.
    """
    single = not part.weight.dim()  # then all of its tensors get one dimension more

    def vector(tensor: Tensor) -> Tensor:
        return tensor.unsqueeze(0) if single or not tensor.dim() else tensor

    if single:
        part = part._replace(weight=vector(part.weight), grad=vector(part.grad), latent=vector(part.latent))
    if part.average is not None and part.mass is not None:
        part = part._replace(average=vector(part.average), mass=vector(part.mass))
    return {name: vector(tensor) for name, tensor in state.items()}, part


def _compiled_in(groups: list[dict[str, Any]]) -> list[Any]:
    """The settings of the base that are constants of a compiled step; the learning rate is none, it may change."""
    return [
        tuple((name, value) for name, value in base_settings(group).items() if isinstance(value, int | float | tuple))
        for group in groups
    ]


def _kinds(groups: list[dict[str, Any]], moving: list[TrainedParameter]) -> list[Any]:
    """What a compiled step takes for granted of the parameters that move."""
    drawing = [group["estimator"].draws for group in groups]
    return [
        (
            each.group,
            each.weight.shape,
            each.weight.stride(),
            each.weight.dtype,
            each.axis,
            drawing[each.group] and each.slot,
        )
        for each in moving
    ]
