"""What a LatentOptimizer keeps per parameter and per group, and what of it belongs to the base optimizer."""

from typing import Any

import torch
from torch import Tensor, nn

from adaste.estimators import Estimator
from adaste.schedules import Schedule
from adaste.shards import like_shard, local

_OF_BASE = "base."


def new_state(weight: Tensor, estimator: Estimator, averaging: float | Schedule) -> dict[str, Tensor]:
    """The state of a new parameter: its latent, and the average of its gradients if one is kept."""
    part = local(weight.detach())
    part = part.to(torch.promote_types(part.dtype, torch.float32))
    state: dict[str, Tensor] = {"latent": nn.Parameter(like_shard(estimator.latent(part), weight))}
    if averaging != 0:
        state["average"] = like_shard(torch.zeros_like(part), weight)
        state["mass"] = torch.zeros((), dtype=part.dtype, device=part.device)
    return state


def fixed_settings(group: dict[str, Any]) -> dict[str, Any]:
    """What a group keeps when a state is loaded: names, method, and whether the base keeps its count on the device."""
    kept = ("param_names", "estimator", "averaging", "capturable")
    return {name: group[name] for name in kept if name in group}


def base_settings(group: dict[str, Any]) -> dict[str, Any]:
    """The part of a group that belongs to the base optimizer."""
    own = ("params", "param_names", "estimator", "averaging", "steps", "base")
    return {name: value for name, value in group.items() if name not in own}


def saved_state(state: dict[str, Tensor], of_base: dict[str, Any]) -> dict[str, Any]:
    """The state of one parameter and the base optimizer's state of its latent, as they are saved."""
    return {
        **{name: value.detach() for name, value in state.items()},
        **{f"{_OF_BASE}{name}": value for name, value in of_base.items() if value is not None},
    }


def base_state(entries: dict[str, Any]) -> dict[str, Any]:
    """The base optimizer's part of one parameter's saved state, copied: training must not write into the saved one."""
    return {
        name.removeprefix(_OF_BASE): value.clone() if isinstance(value, Tensor) else value
        for name, value in entries.items()
        if name.startswith(_OF_BASE)
    }
