"""The update rules of the usual base optimizers as pure functions of tensors, for the fused step.

torch does not let its compiler trace through `Optimizer.step`, so they stand here again. They work on the base
optimizer's own state: a checkpoint does not know which of the two made it, and a first step, which creates that state,
is always made by the base optimizer itself. h stands for the hyper-parameters of a group.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

State = dict[str, Tensor]
Settings = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """A base optimizer's update: (latent, gradient, state, hyper-parameters) -> (latent, state)."""

    advance: Callable[[Tensor, Tensor, State, Settings], tuple[Tensor, State]]
    needs: Callable[[Settings], tuple[str, ...]]
    """The names of the state it reads, given the hyper-parameters."""


def sgd(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    """torch.optim.SGD after its first step: buf <- m buf + (1 - dampening) d, theta <- theta - lr buf."""
    grad = _decayed(latent, grad, h)
    if not h["momentum"]:
        return latent - h["lr"] * grad, {}
    buffer = h["momentum"] * state["momentum_buffer"] + (1 - h["dampening"]) * grad
    direction = grad + h["momentum"] * buffer if h["nesterov"] else buffer
    return latent - h["lr"] * direction, {"momentum_buffer": buffer}


def adam(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    """torch.optim.Adam: theta <- theta - lr m_hat / (sqrt(v_hat) + eps)."""
    if h.get("decoupled_weight_decay"):
        return adamw(latent, grad, state, h)
    return _adam(latent, _decayed(latent, grad, h), state, h)


def adamw(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    """torch.optim.AdamW: the decay acts on theta itself."""
    grad = -grad if h["maximize"] else grad
    return _adam(latent * (1 - h["lr"] * h["weight_decay"]), grad, state, h)


def rmsprop(latent: Tensor, grad: Tensor, state: State, h: Settings) -> tuple[Tensor, State]:
    """torch.optim.RMSprop: theta <- theta - lr d / (sqrt(v) + eps)."""
    grad = _decayed(latent, grad, h)
    kept = {"step": state["step"] + 1, "square_avg": h["alpha"] * state["square_avg"] + (1 - h["alpha"]) * grad * grad}
    variance = kept["square_avg"]
    if h["centered"]:
        kept["grad_avg"] = h["alpha"] * state["grad_avg"] + (1 - h["alpha"]) * grad
        variance = variance - kept["grad_avg"] ** 2
    direction = grad / (variance.sqrt() + h["eps"])
    if h["momentum"]:
        direction = kept["momentum_buffer"] = h["momentum"] * state["momentum_buffer"] + direction
    return latent - h["lr"] * direction, kept


def _decayed(latent: Tensor, grad: Tensor, h: Settings) -> Tensor:
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
    """1 - rate^step, in a form that keeps its digits in float32."""
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
