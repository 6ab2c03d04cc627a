"""The step as one fused pass over memory, compiled for one optimizer. Tests hold it equal to the eager one.

torch does not let its compiler trace through `Optimizer.step`, so the rules of the usual base optimizers stand here
again, as pure functions of tensors. They work on the base optimizer's own state: a checkpoint does not know which of
the two made it, and a first step, which creates that state, is always made by the base optimizer itself. h stands for
the hyper-parameters of a group.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, MappingProxyType
from typing import Any, ParamSpec, TypeVar, cast

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from adaste._util.warnings import warn_user
from adaste.estimators.schedules import Scalar, Schedule, now
from adaste.optim.parameters import Method, Moment, Part, StepInputs, TwoMoments, two_moments
from adaste.optim.state import base_settings, local
from adaste.optim.step import average_gradient

P = ParamSpec("P")
T = TypeVar("T")

State = dict[str, Tensor]
Settings = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """A base optimizer's update: (latent, gradient, state, hyper-parameters) -> (latent, state)."""

    advance: Callable[[Tensor, Tensor, State, Settings], tuple[Tensor, State]]
    needs: Callable[[Settings], tuple[str, ...]]
    """The names of the state it reads, given the hyper-parameters."""


def sgd(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    """Return a step of torch.optim.SGD after its first: buf <- m buf + (1 - dampening) d, theta <- theta - lr buf."""
    grad = _decay(latent, grad, h)
    if not h["momentum"]:
        return latent - h["lr"] * grad, {}
    buffer = h["momentum"] * state["momentum_buffer"] + (1 - h["dampening"]) * grad
    direction = grad + h["momentum"] * buffer if h["nesterov"] else buffer
    return latent - h["lr"] * direction, {"momentum_buffer": buffer}


def adam(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    """Return a step of torch.optim.Adam: theta <- theta - lr m_hat / (sqrt(v_hat) + eps)."""
    if h.get("decoupled_weight_decay"):
        return adamw(latent, grad, state, h)
    return _adam(latent, _decay(latent, grad, h), state, h)


def adamw(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    """Return a step of torch.optim.AdamW, where the decay acts on theta itself."""
    grad = -grad if h["maximize"] else grad
    return _adam(latent * (1 - h["lr"] * h["weight_decay"]), grad, state, h)


def rmsprop(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    """Return a step of torch.optim.RMSprop: theta <- theta - lr d / (sqrt(v) + eps)."""
    grad = _decay(latent, grad, h)
    kept = {"step": state["step"] + 1, "square_avg": h["alpha"] * state["square_avg"] + (1 - h["alpha"]) * grad * grad}
    variance = kept["square_avg"]
    if h["centered"]:
        kept["grad_avg"] = h["alpha"] * state["grad_avg"] + (1 - h["alpha"]) * grad
        variance = variance - kept["grad_avg"] ** 2
    direction = grad / (variance.sqrt() + h["eps"])
    if h["momentum"]:
        direction = kept["momentum_buffer"] = h["momentum"] * state["momentum_buffer"] + direction
    return latent - h["lr"] * direction, kept


def _decay(latent: Tensor, grad: Tensor, h: Settings) -> Tensor:
    grad = -grad if h["maximize"] else grad
    return grad + h["weight_decay"] * latent if h["weight_decay"] else grad


def _adam(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    first, second = h["betas"]
    kept = {
        "step": state["step"] + 1,
        "exp_avg": first * state["exp_avg"] + (1 - first) * grad,
        "exp_avg_sq": second * state["exp_avg_sq"] + (1 - second) * grad * grad,
    }
    largest = kept["exp_avg_sq"]
    if h["amsgrad"]:
        largest = kept["max_exp_avg_sq"] = torch.maximum(state["max_exp_avg_sq"], largest)
    # The count has a type of its own, torch's default one when it was made; the latent keeps that of its own.
    step = kept["step"].to(latent.dtype)
    spread = largest.sqrt() / _mass(second, step).sqrt() + h["eps"]
    return latent - h["lr"] / _mass(first, step) * kept["exp_avg"] / spread, kept


def _mass(rate: float, step: Tensor) -> Tensor:
    """Return 1 - rate^step, in a form that keeps its digits in float32."""
    return -torch.expm1(step * math.log(rate)) if rate > 0 else torch.ones_like(step)


def _adam_state(h: Settings) -> tuple[str, ...]:
    return ("step", "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if h["amsgrad"] else []))


def _rmsprop_state(h: Settings) -> tuple[str, ...]:
    return (
        "step",
        "square_avg",
        *(["grad_avg"] if h["centered"] else []),
        *(["momentum_buffer"] if h["momentum"] else []),
    )


RULES: Mapping[type[Optimizer], Rule] = MappingProxyType(
    {
        SGD: Rule(sgd, lambda h: ("momentum_buffer",) if h["momentum"] else ()),
        Adam: Rule(adam, _adam_state),
        AdamW: Rule(adamw, _adam_state),
        RMSprop: Rule(rmsprop, _rmsprop_state),
    }
)
"""The rules by the kind of base optimizer."""


def fused_step(
    rule: Rule,
    settings: list[dict[str, Any]],
    states: list[dict[str, Tensor]],
    moments: list[Moment],
    parts: list[Part],
    steps: Tensor,
) -> None:
    """Make one step with the base optimizer's rule as a pure function, so that the compiler sees all of it at once.

    Count the step, too.
    """
    for state, part in zip(states, parts, strict=True):
        method, after = moments[part.moment]
        weight = part.weight.to(part.latent.dtype)
        grad = _average_in_place(part, method)
        start = method.estimator.carry(part.latent, weight)
        slope = method.estimator.gradient(grad, start, weight)
        moved, advanced = rule.advance(start, slope, state, settings[part.group])
        part.latent.copy_(part.keep(part.latent, method.estimator.settle(moved, weight)))
        part.weight.copy_(after.estimator.weight(part.latent, weight))
        for name, value in advanced.items():
            state[name].copy_(part.keep(state[name], value))
    steps.add_(1)


def own_copy(function: Callable[P, T]) -> Callable[P, T]:
    """Return the same function with a code object of its own.

    torch's compiler remembers by code object, and runs a function uncompiled after a few different uses: each object
    needs a copy of its own.
    """
    known = cast("Any", function)
    return cast("Callable[P, T]", FunctionType(known.__code__.replace(), known.__globals__, known.__name__))


def compile_for(function: Callable[..., T], steps: int | Tensor) -> Callable[..., T]:
    """Return `function` compiled for one optimizer, whose count of steps is where its parameters are."""
    # The parameters are independent of each other: on a GPU a few kernels can serve them all. On CPUs torch 2.6 fails.
    on_gpu = isinstance(steps, Tensor) and steps.is_cuda
    return torch.compile(own_copy(function), fullgraph=True, dynamic=False, options={"combo_kernels": on_gpu})


def _average_in_place(part: Part, method: Method) -> Tensor:
    grad = cast("Tensor", part.grad).to(part.latent.dtype)
    if part.average is None or part.mass is None:
        return grad
    average, mass = average_gradient(grad, part.average, part.mass, now(method.averaging))
    part.average.copy_(part.keep(part.average, average))
    part.mass.copy_(part.keep(part.mass, mass))
    return average


# The compiler gives up with an error after eight versions of one function.
_MOST_COMPILATIONS = 4


@dataclass
class _FirstFew:
    """The first few versions of a function: they are compiled, others are not."""

    versions: list[Any] = field(default_factory=list)

    def admit(self, version: Any) -> bool:
        """Return whether a version is one of them."""
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
        """Return the values of schedules at a step and at the next."""
        if not self._schedules.admit(schedules):
            return two_moments(schedules, steps)
        if self._evaluate is None:
            self._evaluate = compile_for(two_moments, steps)
        return self._evaluate(schedules, steps)

    def suits(self, base: Optimizer, groups: list[dict[str, Any]], moving: Sequence[Part]) -> bool:
        """Return whether the base optimizer has made the state that the fused step reads, and the step is worth
        compiling.
        """
        needs = RULES[type(base)].needs
        begun = all(
            base.state.get(each.owner, {}).get(name) is not None
            for each in moving
            for name in needs(groups[each.group])
        )
        return begun and not self._failed and self._worth_compiling(type(base).__name__, groups, moving)

    def step(
        self,
        base: Optimizer,
        groups: list[dict[str, Any]],
        inputs: StepInputs,
        steps: int | Tensor,
    ) -> bool:
        """Make the fused step, which counts itself in `steps`. Return False, and change nothing, if it cannot be
        compiled.
        """
        rule, parts = RULES[type(base)], inputs.in_parts()
        settings = [base_settings(group) for group in groups]
        states = [
            {name: local(base.state[each.owner][name]) for name in rule.needs(settings[each.group])} for each in parts
        ]
        if self.fused is None:
            self.fused = compile_for(fused_step, steps)
        from torch._dynamo.exc import BackendCompilerFailed  # the compiler is loaded by now

        # Backwards: the gradients that were checked last are still in the cache.
        pairs = [_as_vectors(state, part) for state, part in zip(states[::-1], parts[::-1], strict=True)]
        try:
            self.fused(
                rule, settings, [state for state, _ in pairs], inputs.moments, [part for _, part in pairs], steps
            )
        except BackendCompilerFailed as error:
            self._failed = True
            reason = error.inner_exception
            first_line = f"{type(reason).__name__}: {reason}".partition("\n")[0]
            warn_user(
                f"torch {torch.__version__} cannot compile this step of {type(base).__name__}: the optimizer goes on "
                f"uncompiled, with the same results (compile=False is silent). The compiler said: {first_line}"
            )
        return not self._failed

    def _worth_compiling(self, kind_of_base: str, groups: list[dict[str, Any]], moving: Sequence[Part]) -> bool:
        """Return whether this version of the step is one of the first few, which are compiled."""
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


def _as_vectors(state: dict[str, Tensor], part: Part) -> tuple[dict[str, Tensor], Part]:
    """Return the state and the part, where tensors without dimensions are vectors of one element, which share their
    memory.

    On a CPU, torch's compiler takes a float64 tensor without dimensions for a number: what is written there is lost.
    """
    single = not part.weight.dim()  # then all of its tensors get one dimension more

    def vector(tensor: Tensor) -> Tensor:
        return tensor.unsqueeze(0) if single or not tensor.dim() else tensor

    if single:
        part = part._replace(
            weight=vector(part.weight), grad=vector(cast("Tensor", part.grad)), latent=vector(part.latent)
        )
    if part.average is not None and part.mass is not None:
        part = part._replace(average=vector(part.average), mass=vector(part.mass))
    return {name: vector(tensor) for name, tensor in state.items()}, part


def _compiled_in(groups: list[dict[str, Any]]) -> list[Any]:
    """Return the settings of the base that are constants of a compiled step: all but the learning rate, which may
    change.
    """
    return [
        tuple((name, value) for name, value in base_settings(group).items() if isinstance(value, int | float | tuple))
        for group in groups
    ]


def _kinds(groups: list[dict[str, Any]], moving: Sequence[Part]) -> list[Any]:
    """Return all facts about the parameters that move which a compiled step takes for granted."""
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
