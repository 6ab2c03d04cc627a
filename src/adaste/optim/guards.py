"""Checks of gradients and weights at every step, and of the parts of an optimizer when it is made.

Gradients that are not finite never reach the latents, and are reported without making a step wait. On the CPU a step
that meets one raises before it changes anything. On a CUDA device the step masks the parameter's update on the device
and remembers it there; a copy of that memory travels to the host on its own, and the first step or query that finds it
arrived raises. Replays of a CUDA graph do not look: ask `check_gradients` there now and then.

A step writes all weights anew: others' writes, as those of `model.load_state_dict`, are lost. Torch counts the writes
into every tensor. A step only compares counts, and looks at the weights themselves where these differ; a CUDA graph
that holds a step does not look.
"""

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adaste._util.checks import add_article, require, suggest
from adaste._util.warnings import warn_user
from adaste.estimators import Estimator
from adaste.estimators.base import FIRST, Oriented, OutputAxis
from adaste.estimators.schedules import parts_of
from adaste.optim.parameters import Part
from adaste.optim.state import is_shard


class NonFiniteGradientError(RuntimeError):
    """A gradient held NaN or infinite values; that step left the latents of its parameter as they were.

    Args:
        names: The parameters with such gradients.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(list(names))  # what it is made from, so that it can be sent from one process to another
        self.names = list(names)

    def __str__(self) -> str:
        more = f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
        return (
            f"the gradient of {', '.join(self.names[:5])}{more} held NaN or infinite values: only finite gradients are "
            "allowed; that step left their latents unchanged (look at the loss and the learning rate, or use a "
            "GradScaler)"
        )


class GradientGuard:
    """A watch on the gradients of one optimizer's parameters, each known by a fixed slot."""

    def __init__(self) -> None:
        # The largest |g| that each slot has met on each device; NaN and infinity stay once they are in.
        self._largest: dict[torch.device, Tensor] = {}
        self._arriving: dict[torch.device, tuple[Tensor, torch.cuda.Event]] = {}

    def inspect(self, grads: Sequence[Tensor], slots: Sequence[int], names: Sequence[str]) -> list[Tensor | None]:
        """Return for each gradient its largest |g|, on its device; None where the gradient is known to be finite.

        `names` are those of all slots. Raise NonFiniteGradientError for a gradient on a CPU at once.
        """
        places: dict[torch.device, list[int]] = {}
        for place, grad in enumerate(grads):
            if grad.numel():  # a rank may hold no row of a small parameter, and there is no norm of nothing
                places.setdefault(grad.device, []).append(place)
        on_host = [place for device, found in places.items() if device.type != "cuda" for place in found]
        if not _surely_finite([grads[place] for place in on_host]):
            found_here = [names[slots[place]] for place in on_host if not grads[place].isfinite().all()]
            if found_here:
                raise NonFiniteGradientError(found_here)
        norms: list[Tensor | None] = [None] * len(grads)
        watched = [(device, found) for device, found in places.items() if device.type == "cuda"]
        for device, found in watched:
            largest = torch._foreach_norm([grads[place] for place in found], float("inf"))
            for place, norm in zip(found, largest, strict=True):
                norms[place] = norm
            self._remember(device, torch.stack(largest).float(), [slots[place] for place in found], len(names))
        if watched:
            self._poll(names)
        return norms

    def raise_pending(self, names: Sequence[str]) -> None:
        """Wait for the devices, and raise for gradients that were met on any of them so far."""
        self._raise([largest.tolist() for largest in self._largest.values()], names)

    def forget(self) -> None:
        """Forget all gradients that were met so far."""
        for norms in self._largest.values():
            norms.zero_()
        self._arriving.clear()

    def _remember(self, device: torch.device, norms: Tensor, slots: list[int], count: int) -> None:
        largest = self._largest.get(device)
        if largest is None or len(largest) != count:  # a group may have been added since
            known = [] if largest is None else [largest]
            largest = torch.cat([*known, torch.zeros(count - sum(map(len, known)), device=device)])
            self._largest[device] = largest
        if len(slots) == count:
            torch.maximum(largest, norms, out=largest)
        else:
            for slot, norm in zip(slots, norms.unbind(), strict=True):
                torch.maximum(largest[slot], norm, out=largest[slot])

    def _poll(self, names: Sequence[str]) -> None:
        if torch.cuda.is_current_stream_capturing():
            return
        arrived: list[list[float]] = []
        for device, largest in self._largest.items():
            host, event = self._arriving.get(device, (None, None))
            if event is not None and not event.query():  # type: ignore[no-untyped-call]
                continue
            if host is not None:
                arrived.append(host.tolist())
            if host is None or event is None or len(host) != len(largest):
                host, event = torch.empty(largest.shape, pin_memory=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
            host.copy_(largest, non_blocking=True)
            event.record(torch.cuda.current_stream(device))
            self._arriving[device] = host, event
        self._raise(arrived, names)

    def _raise(self, largest: Iterable[list[float]], names: Sequence[str]) -> None:
        found = [name for norms in largest for name, norm in zip(names, norms, strict=False) if not math.isfinite(norm)]
        if found:
            self.forget()
            raise NonFiniteGradientError(found)


def _surely_finite(grads: Sequence[Tensor]) -> bool:
    """Return whether sums show that all elements are finite: a sum is finite only if its terms are, though it may
    overflow.

    On the CPU torch adds much faster than it looks for the largest element.
    """
    sums = [grad.sum(dtype=torch.promote_types(grad.dtype, torch.float32)).double() for grad in grads]
    return not sums or bool(torch.stack(sums).isfinite().all())


def still_hold(
    parts: Sequence[Part], groups: Sequence[Mapping[str, Any]], state: Mapping[Tensor, Mapping[str, Any]]
) -> bool:
    """Return whether the parts are those that `parts_in` would yield again; those of shards must be made anew."""
    rest = iter(parts)
    for index, group in enumerate(groups):
        for parameter in group["params"]:
            part, own = next(rest, None), state[parameter]
            if (
                part is None
                or part.weight is not parameter
                or part.group != index
                or part.latent is not own["latent"]
                or part.average is not own.get("average")
                or part.mass is not own.get("mass")
            ):
                return False
    return next(rest, None) is None


class WriteTracker:
    """The writes into the weights of one optimizer, which are given as its parameters, always in the same order."""

    def __init__(self) -> None:
        self._known: list[int] = []

    def accept(self, parameters: Iterable[Part]) -> None:
        """Take all writes so far as the optimizer's own."""
        self._known = [each.parameter._version for each in parameters]

    def by_others(self, parameters: Iterable[Part]) -> list[Part]:
        """Return the parameters that were written into since then; those that are new since then are left out."""
        found = [each for each, known in zip(parameters, self._known, strict=False) if each.parameter._version != known]
        # To look at weights is to wait for them, which a capture does not allow.
        on_gpu = any(each.weight.is_cuda for each in found)
        return [] if on_gpu and torch.cuda.is_current_stream_capturing() else found


def warn_of_lost(parameters: Iterable[tuple[Part, Estimator]]) -> None:
    """Warn of weights that others have written and the next step will overwrite."""
    names = [parameter.name for parameter, estimator in parameters if _is_lost(parameter, estimator)]
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        warn_user(
            f"others than the optimizer have changed {names[0]}{more}, as model.load_state_dict does: this is "
            "lost, for the optimizer writes all weights anew from its latents. Load a network before its optimizer is "
            "made. To go back to an earlier state, as that of the best epoch, load both: keep copies of "
            "model.state_dict() and optimizer.state_dict() of the same step"
        )


def check_model(model: nn.Module, parameters: Iterable[Part]) -> None:
    """Raise ValueError if a model holds none of the weights of an optimizer, whose `parameters` are given."""
    held = {id(parameter) for parameter in model.parameters()}
    if not any(id(each.parameter) in held for each in parameters):
        raise ValueError(
            f"this model shares no weight with the optimizer: the {len(held)} parameters of {type(model).__name__} are "
            "others than those it trains, as those of a copy (copy.deepcopy, AveragedModel), or of a network whose "
            "parameters were replaced after the optimizer was made (fully_shard). Give the one it was made for; a copy "
            "can load that one's weights inside of the block"
        )


@torch.no_grad()
def _is_lost(parameter: Part, estimator: Estimator) -> bool:
    """Return whether the next step overwrites the weights it finds by quite other ones; waits for the device."""
    latent = parameter.latent
    weight = parameter.weight.to(latent.dtype)
    own = estimator.weight(latent, weight)
    if not torch.equal(estimator.carry(latent, weight), estimator.carry(latent, own)):
        return False  # the method goes on from the weights it finds
    # Weights that were changed for a while and put back may differ by rounding.
    return bool((weight - own).norm() > torch.finfo(parameter.weight.dtype).eps ** 0.5 * own.norm())


_BASE = (
    "base must make the optimizer of the latents when it is called with parameter groups, as "
    "functools.partial(torch.optim.Adam, lr=0.01) does"
)


def check_base(base: Any) -> None:
    """Raise TypeError if `base` cannot make the base optimizer; it is not called yet."""
    if isinstance(base, Optimizer):
        raise TypeError(
            f"{_BASE}; got {add_article(type(base).__name__)} that is made already, for other parameters than the "
            f"latents: give functools.partial({type(base).__name__}, lr=...)"
        )
    if not callable(base):
        known = (name for name, kind in vars(torch.optim).items() if isinstance(kind, type))
        raise TypeError(f"{_BASE}; got {base!r}{suggest(base, known) if isinstance(base, str) else ''}")
    try:
        inspect.signature(base).bind([])
    except TypeError as error:
        raise TypeError(f"{_BASE}; {base!r} cannot be called so: {error}") from None
    except ValueError:  # a callable that does not tell its signature
        return


def check_made(made: Any, latents: Iterable[Sequence[Tensor]]) -> None:
    """Raise an error if `base` has not made an optimizer of these latents, group by group."""
    if not isinstance(made, Optimizer):
        raise TypeError(f"{_BASE}; it returned {made!r}")
    wanted = [[id(latent) for latent in group] for group in latents]
    if [[id(latent) for latent in group["params"]] for group in made.param_groups] != wanted:
        raise ValueError(
            f"{_BASE}; it made {add_article(type(made).__name__)} of other parameters than those it was given, so the "
            "latents would not be trained: pass on its argument, and not model.parameters()"
        )


def check_group(params: Sequence[Any], estimator: Any, averaging: Any, known: Mapping[Tensor, str]) -> None:
    """Raise an error if a new parameter group is impossible; `known` names the parameters the optimizer has already."""
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
    """Raise ValueError if the output channels of a new group's parameters cannot lie where it says."""
    params, axes = group["params"], group.get("output_axes")
    axes = [FIRST] * len(params) if axes is None else axes
    if len(axes) != len(params) or not all(isinstance(axis, OutputAxis) for axis in axes):
        raise ValueError(
            f"output_axes must be an adaste.OutputAxis for each of the {len(params)} parameters of the group, "
            f"got {axes!r}"
        )
    estimator = group["estimator"]
    measures = any(isinstance(part, Oriented) and not part.is_constant for part in parts_of(estimator))
    for place, (entry, axis) in enumerate(zip(params, axes, strict=True)):
        name, parameter = entry if isinstance(entry, tuple) else (f"parameter {place} of the group", entry)
        if not axis.fits(parameter.shape):
            raise ValueError(f"{name} cannot have its output channels along {axis}: its shape is {parameter.shape}")
        if not (is_shard(parameter) and any(placement.is_shard() for placement in parameter.placements)):
            continue
        whole = "no rank holds all inputs of a channel, from which"
        remedy = "would take its scale. Leave this layer out of fully_shard, or give it an estimator without a scale"
        if estimator.on_parameter(0, 0, axis) != estimator.on_parameter(0, 0):
            raise ValueError(
                f"{name} has its output channels along dimension {axis.dim} and is sharded: {whole} {estimator} "
                f"{remedy}"
            )
        if measures and parameter.dim() < 2:
            raise ValueError(f"{name} is a sharded vector, which is a single channel: {whole} {estimator} {remedy}")


def warn_of_vectors(groups: Sequence[Mapping[str, Any]]) -> None:
    """Warn of groups that look like all parameters of a network."""
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


def check_devices(groups: list[dict[str, Any]]) -> torch.device:
    """Return the one device on which a capturable optimizer keeps its step count."""
    devices: set[torch.device] = {parameter.device for group in groups for parameter in group["params"]}
    if len(devices) != 1:
        raise ValueError(
            f"capturable=True and compile=True need all weights on one device, got {sorted(map(str, devices))}"
        )
    return devices.pop()


def check_not_rounded(rounded: bool, what: str) -> None:
    """Raise RuntimeError if a call, `what`, would change weights that are rounded."""
    if rounded:
        raise RuntimeError(
            f"{what} inside binarized(): the weights are rounded there and those of before will be put back; "
            "leave the block first"
        )
