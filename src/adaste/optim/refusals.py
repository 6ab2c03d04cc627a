"""What LatentOptimizer refuses or warns of, each with a message that says what, why, given and allowed."""

import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adaste._util.checks import near, require, with_article
from adaste._util.serial import describe
from adaste._util.warnings import warn_user
from adaste.estimators import Estimator
from adaste.estimators.output_axis import OutputAxis
from adaste.optim.sharding import is_shard, local

_BASE = (
    "base must make the optimizer of the latents when it is called with parameter groups, as "
    "functools.partial(torch.optim.Adam, lr=0.01) does"
)


def check_base(base: Any) -> None:
    """What is to make the base optimizer, before it is called."""
    if isinstance(base, Optimizer):
        raise TypeError(
            f"{_BASE}; got {with_article(type(base).__name__)} that is made already, for other parameters than the "
            f"latents: give functools.partial({type(base).__name__}, lr=...)"
        )
    if not callable(base):
        known = (name for name, kind in vars(torch.optim).items() if isinstance(kind, type))
        raise TypeError(f"{_BASE}; got {base!r}{near(base, known) if isinstance(base, str) else ''}")
    try:
        inspect.signature(base).bind([])
    except TypeError as error:
        raise TypeError(f"{_BASE}; {base!r} cannot be called so: {error}") from None
    except ValueError:  # a callable that does not tell its signature
        return


def check_made(made: Any, latents: Iterable[Sequence[Tensor]]) -> None:
    """What `base` has made of these latents, group by group."""
    if not isinstance(made, Optimizer):
        raise TypeError(f"{_BASE}; it returned {made!r}")
    wanted = [[id(latent) for latent in group] for group in latents]
    if [[id(latent) for latent in group["params"]] for group in made.param_groups] != wanted:
        raise ValueError(
            f"{_BASE}; it made {with_article(type(made).__name__)} of other parameters than those it was given, so the "
            "latents would not be trained: pass on its argument, and not model.parameters()"
        )


def check_group(params: Sequence[Any], estimator: Any, averaging: Any, known: Mapping[Tensor, str]) -> None:
    """A new parameter group; `known` names the parameters the optimizer has already."""
    if not isinstance(estimator, Estimator):
        raise TypeError(f"estimator must be an Estimator such as adaste.AdaSTE(), got {estimator!r}")
    require("averaging", averaging, least=0, below=1, why="the share of the old average that is kept at each step")
    seen = dict(known)
    for place, entry in enumerate(params):
        name, parameter = entry if isinstance(entry, tuple) else (f"parameter {place} of the group", entry)
        if not isinstance(parameter, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(parameter).__name__}")
        if not parameter.dtype.is_floating_point:
            raise TypeError(
                f"{name} is {parameter.dtype}: only real floating-point parameters can be trained through latents"
            )
        if parameter in seen:
            raise ValueError(f"{name} is in the optimizer twice, also as {seen[parameter]}: one latent per weight")
        seen[parameter] = name


def check_output_axes(group: Mapping[str, Any]) -> None:
    """A new group whose parameters may have their output channels elsewhere than along dimension 0."""
    params, axes = group["params"], group.get("output_axes")
    if axes is None:
        return
    if len(axes) != len(params) or not all(isinstance(axis, OutputAxis) for axis in axes):
        raise ValueError(
            f"output_axes must be an adaste.OutputAxis for each of the {len(params)} parameters of the group, "
            f"got {axes!r}"
        )
    for place, (entry, axis) in enumerate(zip(params, axes, strict=True)):
        name, parameter = entry if isinstance(entry, tuple) else (f"parameter {place} of the group", entry)
        if not axis.fits(parameter.shape):
            raise ValueError(f"{name} cannot have its output channels along {axis}: its shape is {parameter.shape}")
        estimator = group["estimator"]
        oriented = estimator.on_parameter(0, 0, axis) != estimator.on_parameter(0, 0)
        if oriented and is_shard(parameter) and any(part.is_shard() for part in parameter.placements):
            raise ValueError(
                f"{name} has its output channels along dimension {axis.dim} and is sharded: no rank holds all inputs "
                f"of a channel, from which {estimator} would take its scale. Leave this layer out of fully_shard, or "
                "give it an estimator without a scale"
            )


def warn_of_vectors(groups: Sequence[Mapping[str, Any]]) -> None:
    """Groups that look like all parameters of a network."""
    for group in groups:
        # Those of binary_weights have names: who took it has chosen, also where everything is to be binary.
        if not group["estimator"].binary or "param_names" in group:
            continue
        vectors = sum(parameter.dim() < 2 for parameter in group["params"])
        if 0 < vectors < len(group["params"]):  # vectors alone are hardly a network's
            warn_user(
                f"{vectors} of {len(group['params'])} parameters that are to be binary have fewer than 2 dimensions, "
                "as biases and norms have: adaste.binary_weights(model) leaves these real; its include='*' takes all, "
                "if that is meant"
            )


def check_state(
    saved_groups: list[dict[str, Any]],
    saved: Sequence[Mapping[str, Any]],
    groups: list[dict[str, Any]],
    states: Sequence[tuple[str, Mapping[str, nn.Parameter | Tensor]]],
    base: str,
) -> None:
    """A state dict to load; `states` are the name and the state of every parameter, in order."""
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
    """Whether `plain` is what `describe` gave of `value`, perhaps before its class gained a field with a default."""
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


def check_devices(groups: list[dict[str, Any]]) -> torch.device:
    """The one device on which a capturable optimizer keeps its step count."""
    devices: set[torch.device] = {parameter.device for group in groups for parameter in group["params"]}
    if len(devices) != 1:
        raise ValueError(
            f"capturable=True and compile=True need all weights on one device, got {sorted(map(str, devices))}"
        )
    return devices.pop()


def check_not_rounded(rounded: bool, what: str) -> None:
    """A call that changes weights."""
    if rounded:
        raise RuntimeError(
            f"{what} inside binarized(): the weights are rounded there and those of before will be put back; "
            "leave the block first"
        )
