"""One optimizer step without a compiler, for any base optimizer, and for many parameters at once.

It computes, to the bit, what the definition in `adaste.estimators.base` says for one parameter after the other.
Functions that are element-wise need not know parameters: they are called for blocks of elements. On a CPU these are so
small that all that is computed from them stays in its cache; on a GPU they are so large that few kernels are launched.
Everything here is called where no gradients are recorded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from operator import is_not
from typing import Any, NamedTuple, cast
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from adaste.estimators import Estimator
from adaste.estimators.base import FIRST, OutputAxis, Piece
from adaste.estimators.schedules import Scalar, Schedule, Scheduled, at_step, now, schedules_in
from adaste.optim.state import first_element, is_shard, local, shard_like

SMALL = 2**17
"""Elements of a block on a CPU: what is computed from them stays in the cache of one core."""

LARGE = 2**24
"""Elements of a block of several parameters on a GPU: few launches, and temporary memory that is small enough."""

_ROWS = torch.contiguous_format
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}

TwoMoments = Callable[[list[Schedule], int | Tensor], tuple[list[Scalar], list[Scalar]]]


@dataclass(frozen=True)
class Method:
    """The way in which the weights of one group are trained."""

    estimator: Estimator
    averaging: Scheduled

    @cached_property
    def is_constant(self) -> bool:
        """Whether nothing in it depends on the step."""
        return at_step(self, 0) is self


class Moment(NamedTuple):
    """A method at one step, and at the next, whose forward pass will see the weights."""

    now: Method
    after: Method


class Part(NamedTuple):
    """One parameter with all that belongs to it; tensors are the shards of this rank and are changed in place."""

    slot: int
    name: str
    group: int
    parameter: nn.Parameter
    """The network's."""
    owner: nn.Parameter
    """The base optimizer's, whose shard `latent` is."""
    sharded: bool
    """Whether they are DTensors."""
    axis: OutputAxis
    weight: Tensor
    latent: Tensor
    average: Tensor | None
    mass: Tensor | None
    grad: Tensor | None = None
    """dl/dw, where the parameter moves in this step; dense, also where the network's is sparse."""
    norm: Tensor | None = None
    """On a GPU: the largest |g|, to tell whether the gradient is finite. None where that is known."""
    moment: int = 0
    """The place of its method among the moments of the step."""

    @property
    def moves(self) -> bool:
        return self.parameter.grad is not None

    @property
    def latent_now(self) -> Tensor:
        """The shard of `owner`, wherever the base optimizer has put it."""
        return local(self.owner) if self.sharded else self.owner

    def specialise(self, estimator: Estimator) -> Estimator:
        """Return the estimator with the random numbers and the output channels of this parameter."""
        return estimator.on_parameter(self.slot, first_element(self.parameter), self.axis)

    def keep(self, old: Tensor | float, new: Tensor) -> Tensor:
        """Return `new`, but `old` where the gradient of this parameter is not finite."""
        return new if self.norm is None else torch.where(self.norm.isfinite(), new, old)

    @property
    def is_vector(self) -> bool:
        """Whether all its tensors have their elements in the same order and without gaps, one for each weight."""
        weight, latent, average = self.weight, self.latent, self.average
        dense = weight.is_contiguous() or weight.is_contiguous(memory_format=_CHANNELS_LAST.get(weight.dim(), _ROWS))
        return (
            dense
            and (latent.shape, latent.stride()) == (weight.shape, weight.stride())
            and (average is None or average.stride() == weight.stride())
        )

    @property
    def layout(self) -> tuple[Any, ...]:
        """The facts that a block of several parts takes for granted until the next step."""
        weight, latent, average = self.weight, self.latent, self.average
        return (
            (self.slot, self.group, self.norm is None, weight.data_ptr(), weight.stride(), weight.shape, weight.dtype),
            (weight.device, latent.data_ptr(), latent.stride(), latent.dtype, average is None or average.data_ptr()),
        )

    def in_step(self, grad: Tensor, norm: Tensor | None, moment: int) -> "Part":
        """Return the part with its gradient and the place of its method among the moments of the step."""
        return Part(*self[:11], grad, norm, moment)

    def as_vector(self) -> "Part":
        """Return the same part with tensors of one dimension, which share memory with its own; without a gradient."""
        return self._replace(
            weight=_vector(self.weight),
            latent=_vector(self.latent),
            average=None if self.average is None else _vector(self.average),
            grad=None,
            norm=None,
        )

    def export(self, estimator: Estimator) -> Tensor:
        """Return the weights of this parameter as they would be exported."""
        return estimator.binarize(self.latent, self.weight.to(self.latent.dtype)).to(self.weight.dtype)

    def write_weight(self, estimator: Estimator, *, unless_close: bool = False) -> None:
        """Give the network weight(theta, w); a weight that agrees up to rounding may be left alone, to the last bit."""
        new = estimator.weight(self.latent, self.weight.to(self.latent.dtype)).to(self.weight.dtype)
        if not (unless_close and torch.allclose(self.weight, new, rtol=8 * torch.finfo(new.dtype).eps, atol=0)):
            self.weight.copy_(new)


def parts_in(groups: Sequence[Mapping[str, Any]], state: Mapping[Tensor, dict[str, Any]]) -> Iterator[Part]:
    """Yield all parameters of an optimizer's groups, in order."""
    slot = 0
    for index, group in enumerate(groups):
        names = group.get("param_names") or [f"parameter {i} of group {index}" for i in range(len(group["params"]))]
        for name, parameter, axis in zip(names, group["params"], output_axes(group), strict=True):
            own = state[parameter]
            average = local(own["average"]) if "average" in own else None
            yield Part(
                slot=slot,
                name=name,
                group=index,
                parameter=parameter,
                owner=own["latent"],
                sharded=is_shard(parameter),
                axis=axis,
                weight=local(parameter),
                latent=local(own["latent"]),
                average=average,
                mass=own.get("mass"),
            )
            slot += 1


def still_hold(
    parts: Sequence[Part], groups: Sequence[Mapping[str, Any]], state: Mapping[Tensor, dict[str, Any]]
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


def output_axes(group: Mapping[str, Any]) -> Sequence[OutputAxis]:
    """Return where each parameter of a group has its output channels."""
    return group.get("output_axes") or [FIRST] * len(group["params"])


def dense_grad(part: Part) -> Tensor:
    """Return the gradient of a part that moves; those of embeddings may be sparse."""
    grad = cast("Tensor", part.parameter.grad)
    grad = local(grad) if part.sharded else grad
    return grad.to_dense() if grad.is_sparse else grad


def assign_moments(
    parts: Sequence[Part], grads: Sequence[Tensor], norms: Sequence[Tensor | None], groups: Sequence[Moment]
) -> tuple[list[Moment], list[Part]]:
    """Return moments, and parts that know theirs, their gradients and the norms of these.

    A part has the moment of its group, one for each other place of output channels in it, or one's own if its method
    draws random numbers.
    """
    moments, placed = list(groups), []
    draws = [moment.now.estimator.draws for moment in groups]
    shared = {(place, FIRST): place for place, draw in enumerate(draws) if not draw}
    for part, grad, norm in zip(parts, grads, norms, strict=True):
        place = shared.get((part.group, part.axis))
        if place is None:
            place = len(moments)
            moments.append(
                Moment(*(replace(each, estimator=part.specialise(each.estimator)) for each in groups[part.group]))
            )
            if not draws[part.group]:
                shared[part.group, part.axis] = place
        placed.append(part.in_step(grad, norm, place))
    return moments, placed


def two_moments(schedules: list[Schedule], step: int | Tensor) -> tuple[list[Scalar], list[Scalar]]:
    """Return the values of schedules at a step and at the next."""
    return [schedule.at(step) for schedule in schedules], [schedule.at(step + 1) for schedule in schedules]


def moments_at(methods: list[Method], step: int | Tensor, evaluate: TwoMoments) -> list[Moment]:
    """Return each method at a step and at the next; `evaluate` is `two_moments`, compiled or not."""
    if all(method.is_constant for method in methods):
        return [Moment(method, method) for method in methods]
    schedules = [schedule for method in methods for schedule in schedules_in(method)]
    at_once, after = (iter(values) for values in (evaluate if schedules else two_moments)(schedules, step))
    following = step + 1
    return [Moment(at_step(method, step, at_once), at_step(method, following, after)) for method in methods]


def average_gradient(grad: Tensor, average: Tensor, mass: Tensor, rate: Scalar) -> tuple[Tensor, Tensor]:
    """Return the exponential average of the gradient and its mass, free of bias at every step, also where the rate
    changes.

        mass    <- rate mass + (1 - rate)
        average <- average + (g - average) (1 - rate) / mass
    """
    mass = advance_mass(mass, rate)
    return average + (grad - average) * ((1 - rate) / mass), mass


def advance_mass(mass: Tensor, rate: Scalar) -> Tensor:
    """Return the mass of an average after one more gradient."""
    return rate * mass + (1 - rate)


@dataclass
class Arrangement:
    """The parts of a step in blocks. It serves all steps whose parts have the same layout."""

    layout: list[tuple[Any, ...]]
    alone: list[int]
    """The places of parts that are blocks of their own."""
    together: list["Together"]
    memory: list[Tensor]
    """The latents' own, for each part."""


@dataclass
class Together:
    """The parts of one block: their places in the step, and all that can be known before it."""

    places: list[int]
    vectors: list[Part]
    pieces: list[Piece]
    estimators: tuple[Estimator, ...] = ()
    """Those of the last step, now and after, and the same for the pieces."""
    on_pieces: tuple[Estimator, ...] = ()

    def specialise(self, moment: Moment) -> Moment:
        """Return the moment with its methods for these pieces."""
        estimators = moment.now.estimator, moment.after.estimator
        if not self.estimators or any(map(is_not, estimators, self.estimators)):
            self.estimators = estimators
            self.on_pieces = tuple(each.on_pieces(self.pieces) for each in estimators)
        return Moment(*(Method(own, each.averaging) for own, each in zip(self.on_pieces, moment, strict=True)))

    def in_step(self, parts: Sequence[Part]) -> list[Part]:
        """Return the vectors with the gradients of these parts."""
        own = [parts[place] for place in self.places]
        return [
            vector.in_step(_vector(_grad_like(part)), part.norm, part.moment)
            for vector, part in zip(self.vectors, own, strict=True)
        ]


class EagerStep:
    """The step of one optimizer, and the memory it keeps for the next."""

    def __init__(self) -> None:
        # Gradients of latents that are made block by block: on a CPU fresh memory costs as much as all the rest.
        # Each is used again only after the base has let go of what it was given.
        self._slopes: dict[int, tuple[Tensor, ReferenceType[Tensor]]] = {}
        # On a GPU, to find out again what lies where would take longer than the kernels.
        self._arrangement: Arrangement | None = None

    def step(self, base: Optimizer, moments: Sequence[Moment], parts: Sequence[Part]) -> None:
        """Make one step of parts that all have a gradient."""
        _advance_masses(moments, parts)
        arrangement = self._arrange(moments, parts)
        blocks = list(self._blocks(arrangement, moments, parts))
        for block in blocks:
            block.begin()
        base.step()
        base.zero_grad()
        for part, own in zip(parts, arrangement.memory, strict=True):
            _keep_memory(part, own)
        for block in blocks:
            block.end()

    def _arrange(self, moments: Sequence[Moment], parts: Sequence[Part]) -> Arrangement:
        """Return which parts form a block together: as in the last step, if nothing has moved since."""
        in_blocks = {group for group in {part.group for part in parts} if moments[group].now.estimator.takes_blocks}
        layout = [(part.group in in_blocks, *part.layout) for part in parts]
        if self._arrangement is not None and self._arrangement.layout == layout:
            return self._arrangement
        alone: list[int] = []
        alike: dict[Any, list[int]] = {}
        for place, part in enumerate(parts):
            if part.group in in_blocks and part.is_vector:
                like = part.latent
                kind = part.group, like.device, like.dtype, part.weight.dtype, part.average is None, part.norm is None
                alike.setdefault(kind, []).append(place)
            else:
                alone.append(place)
        together = []
        for same in alike.values():
            most = SMALL if parts[same[0]].latent.device.type == "cpu" else LARGE
            for places in _pack(same, [part.latent.numel() for part in parts], most):
                some = [parts[place] for place in places]
                pieces = [Piece(part.weight.shape, part.axis, part.weight.numel()) for part in some]
                together.append(Together(places, [part.as_vector() for part in some], pieces))
        self._arrangement = Arrangement(layout, alone, together, [part.latent.detach() for part in parts])
        return self._arrangement

    def _blocks(self, arrangement: Arrangement, moments: Sequence[Moment], parts: Sequence[Part]) -> Iterator["Block"]:
        """Yield blocks that together hold all elements: each of many parts, of one, or of a piece of one."""
        for place in arrangement.alone:
            yield Block(moments[parts[place].moment], [parts[place]])
        for some in arrangement.together:
            vectors = some.in_step(parts)
            moment = some.specialise(moments[vectors[0].group])
            if vectors[0].latent.device.type == "cpu" and vectors[0].latent.numel() > SMALL:
                yield from self._divide(moment, vectors[0])
            else:
                yield Block(moment, vectors)

    def _divide(self, moment: Moment, part: Part) -> Iterator["Block"]:
        """Yield blocks that are pieces of one part, which get their places in the gradient of its latent."""
        grad = cast("Tensor", part.grad)
        tensors = part.weight, part.latent, grad, part.average
        split = [repeat(None) if each is None else torch.split(each, SMALL) for each in tensors]
        leaves_gradients = type(moment.now.estimator).gradient is Estimator.gradient
        if leaves_gradients and part.average is part.norm is None and grad.dtype == part.latent.dtype:
            slope, slopes = grad, split[2]
        else:
            slope = self._memory_for(part)
            slopes = torch.split(slope, SMALL)
        _give([part], slope.view(-1))
        if slope is not grad:
            self._slopes[part.slot] = slope, ref(cast("Tensor", part.owner.grad))
        for weight, latent, gradient, average, own in zip(*split, slopes, strict=False):
            piece = part._replace(weight=weight, latent=latent, grad=gradient, average=average)
            yield Block(moment, [piece], own)

    def _memory_for(self, part: Part) -> Tensor:
        """Return memory for the gradient of a latent: that of the last step if it fits and nobody holds it."""
        slope, given = self._slopes.get(part.slot, (None, None))
        if slope is not None and given is not None and given() is None:
            like = part.latent
            if (slope.shape, slope.dtype, slope.device) == (like.shape, like.dtype, like.device):
                return slope
        return torch.empty_like(part.latent)


class Block:
    """Elements of parameters for which one call of each function of their method serves.

    A block of several parts gathers their elements in vectors; that of a single one works on its tensors as they are.
    """

    def __init__(self, moment: Moment, parts: Sequence[Part], slope: Tensor | None = None) -> None:
        self._moment, self._parts = moment, parts
        self._slope = slope
        # Where a GPU may have met a gradient that is not finite: which are finite, and the latents of before.
        self._finite: Tensor | None = None
        self._before: Tensor | None = None

    def begin(self) -> None:
        """Give the base optimizer the latents that the step starts from, and their gradients."""
        method = self._moment.now
        latent, weight = self._latent(), self._weight()
        grad = _read([cast("Tensor", part.grad) for part in self._parts]).to(latent.dtype)
        if self._parts[0].norm is not None:
            self._finite = self._expand([cast("Tensor", part.norm) for part in self._parts], torch.isfinite)
            self._before = latent.clone() if len(self._parts) == 1 else latent
        if self._parts[0].average is not None:
            grad = self._average(grad, now(method.averaging))
        start = method.estimator.carry(latent, weight)
        if start is not latent:
            _write([part.latent for part in self._parts], start)
        # Here and not in backward: the slope is not linear, it must see the gradient of the whole batch.
        slope = method.estimator.gradient(grad, start, weight)
        slope = self._keep(0.0, slope)
        if self._slope is None:
            _give(self._parts, slope)
        elif slope is not self._slope:
            self._slope.copy_(slope)

    def end(self) -> None:
        """Write the latents and weights that the step ends with."""
        latent, weight = self._latent(), self._weight()
        settled = self._moment.now.estimator.settle(latent, weight)
        if self._before is not None:
            settled = self._keep(self._before, settled)
        if settled is not latent:
            _write([part.latent for part in self._parts], settled)
        _write([part.weight for part in self._parts], self._moment.after.estimator.weight(settled, weight))

    def _latent(self) -> Tensor:
        return _read([part.latent for part in self._parts])

    def _weight(self) -> Tensor:
        return _read([part.weight for part in self._parts]).to(self._parts[0].latent.dtype)

    def _average(self, grad: Tensor, rate: Scalar) -> Tensor:
        averages = [cast("Tensor", part.average) for part in self._parts]
        old = _read(averages)
        masses = [cast("Tensor", part.mass) for part in self._parts]
        new = old + (grad - old) * self._expand(masses, lambda mass: (1 - rate) / mass)
        _write(averages, self._keep(old, new))
        return new

    def _keep(self, old: Tensor | float, new: Tensor) -> Tensor:
        """Return `new`, but `old` in parameters whose gradient is not finite."""
        return new if self._finite is None else torch.where(self._finite, new, old)

    def _expand(self, numbers: Sequence[Tensor], function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a function of numbers that belong to the parts, so that it broadcasts to their elements."""
        if len(numbers) == 1:
            return function(numbers[0])
        counts = [part.latent.numel() for part in self._parts]
        # Not copied from the host, which would wait for the device and cannot be captured in a CUDA graph.
        repeats = torch.ones(len(counts), dtype=torch.int64, device=numbers[0].device)
        torch._foreach_mul_(repeats.unbind(), counts)
        return function(torch.stack(list(numbers))).repeat_interleave(repeats, output_size=sum(counts))


def _keep_memory(part: Part, own: Tensor) -> None:
    """Move a latent back into its own memory, which the blocks know, from where a base put it by `p.data = ...`."""
    now_at = part.latent_now
    if now_at.data_ptr() != own.data_ptr() or now_at.stride() != own.stride():
        own.copy_(now_at)
        part.owner.data = shard_like(own, part.owner)


def _give(parts: Sequence[Part], slopes: Tensor) -> None:
    """Give the base optimizer the gradients of latents: that of one in its shape, or those of several in one vector."""
    likes = [part.latent_now for part in parts]
    if slopes.shape != likes[0].shape:
        slopes = slopes.contiguous()
    offset = slopes.storage_offset()
    for part, like in zip(parts, likes, strict=True):
        slope = slopes if slopes.shape == like.shape else slopes.as_strided(like.shape, like.stride(), offset)
        if slope.stride() != like.stride():  # the base makes its memory like the gradient
            slope = torch.empty_like(like, dtype=slope.dtype).copy_(slope)
        part.owner.grad = shard_like(slope, part.owner) if part.sharded else slope
        offset += like.numel()


def _advance_masses(moments: Sequence[Moment], parts: Sequence[Part]) -> None:
    """Advance the masses of all averages: those of a group at once, for each is a single number."""
    alike: dict[Any, list[Part]] = {}
    for part in parts:
        if part.mass is not None:
            alike.setdefault((part.group, part.mass.device, part.mass.dtype, part.norm is None), []).append(part)
    for same in alike.values():
        masses = [cast("Tensor", part.mass) for part in same]
        old = torch.stack(masses)
        new = advance_mass(old, now(moments[same[0].group].now.averaging))
        if same[0].norm is not None:
            norms = torch.stack([cast("Tensor", part.norm) for part in same])
            new = torch.where(norms.isfinite(), new, old)
        torch._foreach_copy_(masses, new.unbind())


def _pack(places: Iterable[int], counts: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield places in order, as many at a time as have `most` elements together, or a single one with more."""
    some: list[int] = []
    count = 0
    for place in places:
        if some and count + counts[place] > most:
            yield some
            some, count = [], 0
        some.append(place)
        count += counts[place]
    yield some


def _grad_like(part: Part) -> Tensor:
    """Return the gradient with its elements in the order of the weights."""
    grad = cast("Tensor", part.grad)
    return (
        grad if grad.stride() == part.weight.stride() else torch.empty_like(part.weight, dtype=grad.dtype).copy_(grad)
    )


def _vector(tensor: Tensor) -> Tensor:
    """Return all elements of a tensor without gaps, in the order in which they lie in memory."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _read(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _write(tensors: Sequence[Tensor], values: Tensor) -> None:
    if len(tensors) == 1:
        tensors[0].copy_(values)
    else:
        torch._foreach_copy_(list(tensors), _split(values.to(tensors[0].dtype), tensors))


def _split(values: Tensor, like: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]:
    if len(like) == 1:
        return [values]
    return torch.split(values, [tensor.numel() for tensor in like])
