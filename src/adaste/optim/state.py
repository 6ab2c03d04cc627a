"""What a LatentOptimizer keeps per parameter, and what of it belongs to the base optimizer."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adaste.estimators import Estimator
from adaste.estimators.schedules import Schedule
from adaste.optim.sharding import like_shard, local

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


def outside_parameters(state_dict: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What optimizers may keep beside the states of single parameters: among these by other names, and around them."""
    slots = {slot for group in state_dict["param_groups"] for slot in group["params"]}
    among = {name: value for name, value in state_dict["state"].items() if name not in slots}
    around = {name: value for name, value in state_dict.items() if name not in ("state", "param_groups")}
    return among, around


@torch.no_grad()
def first_state(base: Optimizer) -> dict[int, dict[str, Any]]:
    """What a base optimizer will keep of every parameter from its first step on, by slot. The values mean nothing.

    Only a step can tell: a copy makes it.
    """
    twin = object.__new__(type(base))
    twin.__dict__.update(copy.deepcopy(base.__dict__))  # torch's own copies lack all that torch does not know of
    latents = [latent for group in twin.param_groups for latent in group["params"]]
    devices = {latent.device for latent in latents if latent.is_cuda}
    with torch.random.fork_rng(devices):  # states may begin at random
        for latent in latents:
            latent.grad = torch.zeros_like(latent)
        twin.step()
    made: dict[int, dict[str, Any]] = twin.state_dict()["state"]
    return made


def states_in_order(state_dict: dict[str, Any]) -> list[dict[str, Any]]:
    """The states of all parameters of a state dict, which may call them by any names, as torch allows."""
    return [state_dict["state"].get(name, {}) for group in state_dict["param_groups"] for name in group["params"]]


def changed_by(
    hooks: Mapping[int, Callable[[Optimizer, dict[str, Any]], dict[str, Any] | None]],
    optimizer: Optimizer,
    state_dict: dict[str, Any],
) -> dict[str, Any]:
    """A state dict after hooks, each of which may change it or give another one."""
    for hook in hooks.values():
        changed = hook(optimizer, state_dict)
        state_dict = state_dict if changed is None else changed
    return state_dict
