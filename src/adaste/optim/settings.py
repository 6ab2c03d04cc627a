"""The base optimizer's settings: users and schedulers change those in our groups, and the base's groups follow.

Groups are dictionaries, as torch has them. Ours hold their method, too, and saved ones also the number of steps.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from adaste._util.serial import describe

Group = dict[str, Any]


def base_settings(group: Group) -> Group:
    """The part of a group that belongs to the base optimizer."""
    own = ("params", "param_names", "output_axes", "estimator", "averaging", "steps", "base")
    return {name: value for name, value in group.items() if name not in own}


def base_group(group: Group, latents: Sequence[Tensor]) -> Group:
    """The group of the base optimizer that belongs to one of ours."""
    return {**base_settings(group), "params": list(latents)}


def adopt(group: Group, of_base: Group, *, counts_on_gpu: bool) -> None:
    """Our group shows the base's settings, too; where steps are counted on a GPU, the base counts its own there."""
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
    """What the base itself changes among its settings, as optimizers do that find their rate or count there."""
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
    """A group with the base optimizer's settings of a saved one; a learning rate in a tensor stays in that tensor.

    It keeps its parameters, its method, and how the base computes: what works in one optimizer may not in another.
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
    """A group as it is saved: its parameters by their places, its method as plain data."""
    settings = {name: value for name, value in group.items() if name != "params"}
    method: Group = {name: describe(group[name]) for name in ("estimator", "averaging", "output_axes") if name in group}
    return {**settings, "params": slots, **method, "steps": steps, "base": base}
