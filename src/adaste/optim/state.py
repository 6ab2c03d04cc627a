"""The state of an optimizer, and its saved form: settings of groups, states of parameters, and both in shards.

Users and schedulers change the base's settings in our groups, and the base's groups follow. Groups are dictionaries, as
torch has them. Ours hold their method, too, and saved ones also the number of steps.
"""

import copy
import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adaste._util.serial import describe
from adaste.estimators import Estimator
from adaste.estimators.schedules import Schedule


def is_shard(tensor: Tensor) -> bool:
    """Return whether `tensor` is a DTensor."""
    # No DTensor exists before its module is imported; importing it here would slow down every start.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that this rank holds; it shares memory with the tensor."""
    return tensor.to_local() if is_shard(tensor) else tensor  # type: ignore[attr-defined]


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor, gathered from the ranks that hold it (they must all ask for it)."""
    return tensor.full_tensor() if is_shard(tensor) else tensor  # type: ignore[attr-defined]


def forget_gathered(model: nn.Module | None) -> None:
    """Make FSDP2 gather the parameters anew: after a forward pass without backward it keeps the old ones."""
    module = sys.modules.get("torch.distributed.fsdp")
    if model is not None and module is not None:
        for part in model.modules():
            if isinstance(part, module.FSDPModule):
                part.reshard()


def shard_like(part: Tensor, whole: Tensor) -> Tensor:
    """Return `part` as a tensor distributed like `whole` (`part` may have further trailing dimensions)."""
    if not is_shard(whole):
        return part
    from torch.distributed.tensor import DTensor

    shape = torch.Size((*whole.shape, *part.shape[whole.ndim :]))
    stride = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return DTensor.from_local(
        part,
        whole.device_mesh,  # type: ignore[attr-defined]
        whole.placements,  # type: ignore[attr-defined]
        run_check=False,
        shape=shape,
        stride=stride,
    )


def first_element(tensor: Tensor) -> int:
    """Return the index, inside the whole, of the first element that this rank holds."""
    if not is_shard(tensor):
        return 0
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    placements = tensor.placements  # type: ignore[attr-defined]
    if any(isinstance(placement, Shard) and placement.dim != 0 for placement in placements):
        raise ValueError(
            f"binary weights may be sharded along dimension 0 only (as fully_shard does: output channels stay whole), "
            f"got {placements}"
        )
    mesh = tensor.device_mesh  # type: ignore[attr-defined]
    _, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
    return offset[0] * math.prod(tensor.shape[1:]) if offset else 0


Group = dict[str, Any]


def base_settings(group: Group) -> Group:
    """Return the part of a group that belongs to the base optimizer."""
    own = ("params", "param_names", "output_axes", "estimator", "averaging", "steps", "base")
    return {name: value for name, value in group.items() if name not in own}


def base_group(group: Group, latents: Sequence[Tensor]) -> Group:
    """Return the group of the base optimizer that belongs to one of ours."""
    return {**base_settings(group), "params": list(latents)}


def adopt(group: Group, of_base: Group, *, counts_on_gpu: bool) -> None:
    """Show the base's settings in our group, too; where steps are counted on a GPU, the base counts its own there."""
    for name, value in of_base.items():
        group.setdefault(name, value)
    if counts_on_gpu and "capturable" in group:
        group["capturable"] = True


def mirror(groups: Sequence[Group], of_base: Sequence[Group], *, compiled: bool) -> None:
    """Give the base our settings, before it does anything."""
    for group, base in zip(groups, of_base, strict=True):
        base.update(base_settings(group))
        if compiled:
            # Compiled, only a first step reaches the base, and not every base takes a rate in a tensor.
            base["lr"] = float(group["lr"])


def show_changes(groups: Sequence[Group], of_base: Sequence[Group]) -> None:
    """Show settings that the base itself has changed, as optimizers do that find their rate or count there."""
    for group, base in zip(groups, of_base, strict=True):
        group.update(base_settings(base))


def keep_rates(groups: Sequence[Group], own: dict[int, Tensor], device: torch.device) -> None:
    """Put learning rates that are numbers into tensors, that of each group always into the same one of its `own`.

    A user may put a number there at any time. The tensor of before is not given up: a CUDA graph may read it.
    """
    for place, group in enumerate(groups):
        if "lr" in group and not isinstance(group["lr"], Tensor):  # a few optimizers have none
            rate = own.setdefault(place, torch.zeros((), dtype=torch.float32, device=device))
            # Copied from the host, which no graph can hold: one that filled it in would undo all later changes.
            group["lr"] = rate.copy_(torch.tensor(group["lr"]))


def loaded_group(saved: Group, own: Group) -> Group:
    """Return a group with the base optimizer's settings of a saved one; a learning rate in a tensor stays in that
    tensor.

    The group keeps its parameters, its method, and how the base computes: what works in one optimizer may not in
    another.
    """
    fixed = ("params", "param_names", "output_axes", "estimator", "averaging", "capturable", "foreach", "fused")
    kept: Group = {name: value for name, value in own.items() if name in fixed}
    rate = own.get("lr")
    if isinstance(rate, Tensor):
        kept["lr"] = rate.fill_(float(saved["lr"]))
    elif rate is not None:
        kept["lr"] = float(saved["lr"])
    return {**copy.deepcopy(base_settings(saved)), **kept}


def saved_group(group: Group, slots: list[int], steps: int, base: str) -> Group:
    """Return a group as it is saved: its parameters by their places, its method as plain data."""
    settings = {name: value for name, value in group.items() if name != "params"}
    method: Group = {name: describe(group[name]) for name in ("estimator", "averaging", "output_axes") if name in group}
    return {**settings, "params": slots, **method, "steps": steps, "base": base}


_OF_BASE = "base."


def new_state(weight: Tensor, estimator: Estimator, averaging: float | Schedule) -> dict[str, Tensor]:
    """Return the state of a new parameter: its latent, and the average of its gradients if one is kept."""
    part = local(weight.detach())
    part = part.to(torch.promote_types(part.dtype, torch.float32))
    state: dict[str, Tensor] = {"latent": nn.Parameter(shard_like(estimator.latent(part), weight))}
    if averaging != 0:
        state["average"] = shard_like(torch.zeros_like(part), weight)
        state["mass"] = torch.zeros((), dtype=part.dtype, device=part.device)
    return state


def saved_state(state: dict[str, Tensor], of_base: dict[str, Any]) -> dict[str, Any]:
    """Return the state of one parameter and the base optimizer's state of its latent, as they are saved."""
    return {
        **{name: value.detach() for name, value in state.items()},
        **{f"{_OF_BASE}{name}": value for name, value in of_base.items() if value is not None},
    }


def base_state(entries: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the base optimizer's part of one parameter's saved state: training must not write into the saved
    one.
    """
    return {
        name.removeprefix(_OF_BASE): value.clone() if isinstance(value, Tensor) else value
        for name, value in entries.items()
        if name.startswith(_OF_BASE)
    }


def outside_parameters(state_dict: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what optimizers may keep beside the states of parameters: among these by other names, and around them."""
    slots = {slot for group in state_dict["param_groups"] for slot in group["params"]}
    among = {name: value for name, value in state_dict["state"].items() if name not in slots}
    around = {name: value for name, value in state_dict.items() if name not in ("state", "param_groups")}
    return among, around


@torch.no_grad()
def first_state(base: Optimizer) -> dict[int, dict[str, Any]]:
    """Return a base optimizer's state of every parameter as from its first step on, by slot. The values mean nothing.

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
    """Return the states of all parameters of a state dict, which may call them by any names, as torch allows."""
    return [state_dict["state"].get(name, {}) for group in state_dict["param_groups"] for name in group["params"]]


def apply_hooks(
    hooks: Mapping[int, Callable[[Optimizer, dict[str, Any]], dict[str, Any] | None]],
    optimizer: Optimizer,
    state_dict: dict[str, Any],
) -> dict[str, Any]:
    """Return a state dict after hooks, each of which may change it or give another one."""
    for hook in hooks.values():
        changed = hook(optimizer, state_dict)
        state_dict = state_dict if changed is None else changed
    return state_dict


def check_state(
    saved_groups: list[dict[str, Any]],
    saved: Sequence[Mapping[str, Any]],
    groups: list[dict[str, Any]],
    states: Sequence[tuple[str, Mapping[str, nn.Parameter | Tensor]]],
    base: str,
) -> None:
    """Raise ValueError if a state dict is not that of such an optimizer.

    `states` are the name and the state of every parameter, in order.
    """
    if any("estimator" not in group or "steps" not in group for group in saved_groups):
        raise ValueError(
            "this is not the state dict of a LatentOptimizer: its groups must name an estimator and steps "
            "(torch's option flatten_optimizer_state_dict loses them)"
        )
    if len(saved_groups) != len(groups):
        raise ValueError(f"the state dict has {len(saved_groups)} parameter groups, this optimizer has {len(groups)}")
    for index, (theirs, ours) in enumerate(zip(saved_groups, groups, strict=True)):
        if len(theirs["params"]) != len(ours["params"]):
            raise ValueError(
                f"group {index} of the state dict has {len(theirs['params'])} parameters, "
                f"this optimizer's has {len(ours['params'])}"
            )
        method = {name: ours.get(name) for name in ("estimator", "averaging", "output_axes")}
        for setting, wanted in {"base": base, **method}.items():
            given = theirs.get(setting)
            if not _describes(given, wanted):
                raise ValueError(
                    f"group {index} of the state dict was trained with {setting} {given}, this optimizer's uses "
                    f"{describe(wanted)}: their latents do not mean the same"
                )
    for slot, (name, state) in enumerate(states):
        for entry, tensor in state.items():
            given = saved[slot].get(entry)
            if not isinstance(given, Tensor):
                raise ValueError(f"the state dict lacks the {entry} of {name}, which this optimizer needs")
            if given.shape != tensor.shape or local(given).shape != local(tensor).shape:
                raise ValueError(
                    f"the state dict's {entry} of {name} has shape {tuple(given.shape)} (of that on this rank "
                    f"{tuple(local(given).shape)}), this optimizer needs {tuple(tensor.shape)} "
                    f"({tuple(local(tensor).shape)})"
                )


def _describes(plain: Any, value: Any) -> bool:
    """Return whether `plain` is what `describe` gave of `value`, perhaps before its class gained a field with a
    default.
    """
    if not dataclasses.is_dataclass(value) or not isinstance(plain, dict):
        return bool(plain == describe(value))
    fields = {field.name: field.default for field in dataclasses.fields(value)}
    return (
        plain.get("kind") == type(value).__name__
        and plain.keys() <= {"kind", *fields}
        and all(
            _describes(plain[name], getattr(value, name)) if name in plain else getattr(value, name) == default
            for name, default in fields.items()
        )
    )
