"""One optimizer step without a compiler, for any base optimizer, and for many parameters at once.

It computes, to the bit, what the definition in `adaste.estimators.base` says for one parameter after the other.
Functions that are element-wise need not know parameters: they are called for blocks of elements. On a CPU these are so
small that all that is computed from them stays in its cache; on a GPU they are so large that few kernels are launched.
There Python takes longer than the kernels, so a step keeps what it knows about its parameters until a tensor moves, and
has few loops over parameters: `map` over functions of torch runs no Python code for each.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.optim import Optimizer

from adaste.estimators import Estimator
from adaste.estimators.base import Piece
from adaste.estimators.schedules import Scalar, now
from adaste.optim.parameters import Method, Moment, Part, StepInputs
from adaste.optim.state import local, shard_like

SMALL = 2**17
"""Elements of a block on a CPU: what is computed from them stays in the cache of one core."""

LARGE = 2**24
"""Elements of a block of several parameters on a GPU: few launches, and temporary memory that is small enough."""


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


class EagerStep:
    """The step of one optimizer, and what it keeps for the next."""

    def __init__(self) -> None:
        self._arrangement: Arrangement | None = None
        self._slopes: dict[int, LentMemory] = {}

    def step(self, base: Optimizer, inputs: StepInputs) -> None:
        """Make one step of parameters that all have a gradient."""
        _advance_masses(inputs)
        arrangement = self._arrange(inputs)
        try:
            begun = [each for share in arrangement.shares for each in share.begin(inputs)]
            base.step()
        finally:
            for part in inputs.parts:
                part.owner.grad = None
        arrangement.put_back(inputs.parts)
        for block, moment, masked in begun:
            block.end(moment, masked)

    def _arrange(self, inputs: StepInputs) -> "Arrangement":
        on_gpu = bool(inputs.parts) and inputs.parts[0].latent.is_cuda
        if on_gpu and torch.cuda.is_current_stream_capturing():
            # Not the one that is kept: its memory may be given up, and a CUDA graph would still write there.
            return Arrangement(inputs, {})
        if self._arrangement is None or not self._arrangement.holds(inputs):
            self._arrangement = Arrangement(inputs, self._slopes)
        return self._arrangement


class Arrangement:
    """The parameters of a step in blocks. It serves all steps of the same parameters whose tensors have not moved."""

    def __init__(self, inputs: StepInputs, slopes: "dict[int, LentMemory]") -> None:
        self._key = _key(inputs)
        tensors = _tensors(inputs.parts)
        self._kinds = [*map(_KIND, tensors)]
        self._memory = [*map(Tensor.detach, tensors)]
        self.shares: list[Whole | Divided] = []
        alike: dict[Any, list[int]] = {}
        for place, (part, norm) in enumerate(zip(inputs.parts, inputs.norms, strict=True)):
            if inputs.methods[part.group].estimator.takes_blocks and part.is_vector:
                like = part.latent
                kind = part.group, like.device, like.dtype, part.weight.dtype, part.average is None, norm is None
                alike.setdefault(kind, []).append(place)
            else:
                self.shares.append(Whole([place], [part]))
        for same in alike.values():
            on_cpu = inputs.parts[same[0]].latent.device.type == "cpu"
            for places in _pack(same, [part.latent.numel() for part in inputs.parts], SMALL if on_cpu else LARGE):
                parts = [inputs.parts[place] for place in places]
                if on_cpu and parts[0].latent.numel() > SMALL:
                    self.shares.append(Divided(places[0], parts[0], slopes.setdefault(parts[0].slot, LentMemory())))
                else:
                    self.shares.append(Whole(places, parts, as_vectors=True))

    def holds(self, inputs: StepInputs) -> bool:
        """Return whether the parameters are the same and all their tensors lie where they did."""
        if self._key != _key(inputs):
            return False
        tensors = _tensors(inputs.parts)
        return self._kinds == [*map(_KIND, tensors)] and all(map(Tensor.is_set_to, tensors, self._memory))

    def put_back(self, parts: Sequence[Part]) -> None:
        """Move latents back into their own memory, which the blocks know, from where a base put it (`p.data = ...`)."""
        latents = [local(part.owner) if part.sharded else part.owner for part in parts]
        memory = self._memory[len(parts) : 2 * len(parts)]
        if not all(map(Tensor.is_set_to, latents, memory)):
            for part, latent, own in zip(parts, latents, memory, strict=True):
                if not latent.is_set_to(own):
                    own.copy_(latent)
                    part.owner.data = shard_like(own, part.owner)


_KIND = attrgetter("dtype", "device")


def _key(inputs: StepInputs) -> tuple[Any, ...]:
    """Return the facts, but for memory, that an arrangement depends on."""
    return (
        [method.estimator.takes_blocks for method in inputs.methods],
        [(part.slot, part.group) for part in inputs.parts],
        [norm is None for norm in inputs.norms],
    )


def _tensors(parts: Sequence[Part]) -> list[Tensor]:
    """Return weights, latents and averages."""
    averages = [part.average for part in parts if part.average is not None]
    return [*(part.weight for part in parts), *(part.latent for part in parts), *averages]


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


class Masked(NamedTuple):
    """On a GPU, which may have met a gradient that is not finite: which elements step, and the latents of before."""

    finite: Tensor
    before: Tensor

    def keep(self, old: Tensor | float, new: Tensor) -> Tensor:
        """Return `new`, but `old` in parameters whose gradient is not finite."""
        return torch.where(self.finite, new, old)


class Begun(NamedTuple):
    """A block whose step has begun, and what its end needs to know."""

    block: "Block"
    moment: Moment
    masked: Masked | None


class Block:
    """Elements of parameters for which one call of each function of their method serves.

    A block of several parameters gathers their elements in vectors; that of a single one, or of a piece of it, works on
    its tensors as they are.
    """

    def __init__(self, weights: Sequence[Tensor], latents: Sequence[Tensor], averages: Sequence[Tensor]) -> None:
        self._weights, self._latents, self._averages = weights, latents, averages
        self._counts = [latent.numel() for latent in latents]
        self._finite = PerParameter(latents, torch.bool)
        self._fractions = PerParameter(latents, latents[0].dtype)

    def begin(
        self, moment: Moment, grad: Tensor, masses: Sequence[Tensor], norms: Sequence[Tensor]
    ) -> tuple[Tensor, Begun]:
        """Write the latents that the step starts from, and return what the base optimizer sees as their gradient.

        `masses` are those of the averages, where these are kept, and `norms` those that `Part.norm` describes.
        """
        method = moment.now
        latent, weight = _read(self._latents), self._read_weight()
        grad = grad.to(latent.dtype)
        masked = None
        if norms:  # all norms are at least 0, or NaN
            finite = self._finite.expand(_stack(norms) < math.inf)
            masked = Masked(finite, latent.clone() if len(self._latents) == 1 else latent)
        if self._averages:
            grad = self._average(grad, masses, now(method.averaging), masked)
        start = method.estimator.carry(latent, weight)
        if start is not latent:
            self._write(self._latents, start)
        # Here and not in backward: the slope is not linear, it must see the gradient of the whole batch.
        slope = method.estimator.gradient(grad, start, weight)
        return slope if masked is None else masked.keep(0.0, slope), Begun(self, moment, masked)

    def end(self, moment: Moment, masked: Masked | None) -> None:
        """Write the latents and weights that the step ends with."""
        latent, weight = _read(self._latents), self._read_weight()
        settled = moment.now.estimator.settle(latent, weight)
        if masked is not None:
            settled = masked.keep(masked.before, settled)
        if settled is not latent:
            self._write(self._latents, settled)
        self._write(self._weights, moment.after.estimator.weight(settled, weight))

    def _read_weight(self) -> Tensor:
        return _read(self._weights).to(self._latents[0].dtype)

    def _write(self, tensors: Sequence[Tensor], values: Tensor) -> None:
        if len(tensors) == 1:
            tensors[0].copy_(values)
        else:
            torch._foreach_copy_(list(tensors), values.to(tensors[0].dtype).split_with_sizes(self._counts))

    def _average(self, grad: Tensor, masses: Sequence[Tensor], rate: Scalar, masked: Masked | None) -> Tensor:
        old = _read(self._averages)
        new = old + (grad - old) * self._fractions.expand((1 - rate) / _stack(masses))
        self._write(self._averages, new if masked is None else masked.keep(old, new))
        return new


class PerParameter:
    """Memory for one number of each parameter of a block, with views in the shapes of their vectors."""

    def __init__(self, vectors: Sequence[Tensor], dtype: torch.dtype) -> None:
        self._views: list[Tensor] = []
        if len(vectors) > 1:
            self._numbers = torch.empty(len(vectors), dtype=dtype, device=vectors[0].device)
            self._views = [*map(Tensor.expand_as, self._numbers.unbind(), vectors)]

    def expand(self, numbers: Tensor) -> Tensor:
        """Return numbers so that they broadcast to the elements; a single parameter's has no dimension."""
        if not self._views:
            return numbers
        self._numbers.copy_(numbers)
        return torch.cat(self._views)


class Whole:
    """Parameters whose step is one block: several or one as vectors, or a single one in its shape."""

    def __init__(self, places: Sequence[int], parts: Sequence[Part], *, as_vectors: bool = False) -> None:
        self._places = places
        """Those of the parameters in the inputs of a step."""
        self._method = OnVectors(parts) if as_vectors else None
        self._in_rows = len(parts) > 1 and all(part.weight.is_contiguous() for part in parts)
        latents = [part.latent for part in parts]
        self._shapes, self._strides = [*map(Tensor.size, latents)], [*map(Tensor.stride, latents)]
        self._starts = [0, *accumulate(latent.numel() for latent in latents)][:-1]
        form = _vector if as_vectors else Tensor.detach
        averages = [part.average for part in parts if part.average is not None]
        self._block = Block([form(part.weight) for part in parts], [*map(form, latents)], [*map(form, averages)])

    def begin(self, inputs: StepInputs) -> Iterable[Begun]:
        """Give the base optimizer the gradients of the latents."""
        parts = [inputs.parts[place] for place in self._places]
        grads = [inputs.grads[place] for place in self._places]
        norms = [norm for place in self._places if (norm := inputs.norms[place]) is not None]
        masses = [part.mass for part in parts if part.mass is not None]
        if self._method is None:
            moment, grad = inputs.moments[inputs.places[self._places[0]]], grads[0]
        else:
            moment, grad = self._method.at(inputs.moments), self._gather(grads, parts)
        slope, begun = self._block.begin(moment, grad, masses, norms)
        for part, own in zip(parts, self._divide(slope, parts), strict=True):
            part.owner.grad = shard_like(own, part.owner) if part.sharded else own
        return [begun]

    def _gather(self, grads: Sequence[Tensor], parts: Sequence[Part]) -> Tensor:
        """Return gradients as one vector with its elements in the order of the weights."""
        if self._in_rows:
            return torch._C._nn.flatten_dense_tensors(list(grads))
        return _read([_vector(_in_order(grad, part.weight)) for grad, part in zip(grads, parts, strict=True)])

    def _divide(self, slope: Tensor, parts: Sequence[Part]) -> Iterable[Tensor]:
        """Return the gradients of latents in their shapes, and in their order: the base makes its memory like them."""
        if self._method is None:
            return [_in_order(slope, parts[0].latent)]
        slope = slope.contiguous()
        offset = slope.storage_offset()
        starts = [start + offset for start in self._starts] if offset else self._starts
        return map(slope.as_strided, self._shapes, self._strides, starts)


class Divided:
    """A large parameter on a CPU: each block is a piece of it, and gets its place in the gradient of its latent."""

    def __init__(self, place: int, part: Part, slopes: "LentMemory") -> None:
        self._place, self._slopes = place, slopes
        self._method = OnVectors([part])
        tensors = part.weight, part.latent, part.average
        split = [repeat(()) if each is None else zip(torch.split(_vector(each), SMALL)) for each in tensors]
        self._blocks = [Block(*pieces) for pieces in zip(*split, strict=False)]

    def begin(self, inputs: StepInputs) -> Iterator[Begun]:
        """Give the base optimizer the gradient of the latent, and make the blocks write theirs into it."""
        part, norm = inputs.parts[self._place], inputs.norms[self._place]
        moment = self._method.at(inputs.moments)
        grad = _vector(_in_order(inputs.grads[self._place], part.weight))
        norms = [] if norm is None else [norm]
        masses = [] if part.mass is None else [part.mass]
        leaves_gradients = type(moment.now.estimator).gradient is Estimator.gradient
        takes_grad = leaves_gradients and part.average is norm is None and grad.dtype == part.latent.dtype
        slopes = grad if takes_grad else self._slopes.get(part.latent)
        slope = slopes.as_strided(part.latent.shape, part.latent.stride())
        part.owner.grad = shard_like(slope, part.owner)
        for block, piece, own in zip(self._blocks, torch.split(grad, SMALL), torch.split(slopes, SMALL), strict=True):
            slope, begun = block.begin(moment, piece, masses, norms)
            if not takes_grad:
                own.copy_(slope)
            yield begun
        if not takes_grad:
            self._slopes.lend(slopes, part.owner.grad)


class LentMemory:
    """Memory for the gradient of one latent on a CPU, where fresh memory costs as much as all the rest.

    It is used again only after the base has let go of what it was given.
    """

    def __init__(self) -> None:
        self._memory: Tensor | None = None
        self._given: ReferenceType[Tensor] | None = None

    def get(self, like: Tensor) -> Tensor:
        """Return memory as a vector: that of the last step if it fits and nobody holds it."""
        memory = self._memory
        free = memory is not None and self._given is not None and self._given() is None
        if memory is None or not free or (memory.numel(), memory.dtype) != (like.numel(), like.dtype):
            return torch.empty(like.numel(), dtype=like.dtype)
        return memory

    def lend(self, memory: Tensor, given: Tensor) -> None:
        """Remember which tensor the base was given over this memory."""
        self._memory, self._given = memory, ref(given)


class OnVectors:
    """The method of a group for a vector of parameters, kept as long as it stays the same."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._group = parts[0].group
        self._pieces = [Piece(part.weight.shape, part.axis, part.weight.numel()) for part in parts]
        self._estimators: tuple[Estimator, ...] = ()
        self._on_pieces: tuple[Estimator, ...] = ()

    def at(self, moments: Sequence[Moment]) -> Moment:
        """Return the moment of the group with its method for these parameters."""
        moment = moments[self._group]
        estimators = moment.now.estimator, moment.after.estimator
        if not self._estimators or not all(map(is_, estimators, self._estimators)):
            self._estimators = estimators
            self._on_pieces = tuple(each.on_pieces(self._pieces) for each in estimators)
        return Moment(*(Method(own, each.averaging) for own, each in zip(self._on_pieces, moment, strict=True)))


def _advance_masses(inputs: StepInputs) -> None:
    """Advance the masses of all averages: those of a group at once, for each is a single number."""
    alike: dict[Any, list[tuple[Tensor, Tensor | None]]] = {}
    for part, norm in zip(inputs.parts, inputs.norms, strict=True):
        if part.mass is not None:
            kind = part.group, part.mass.device, part.mass.dtype, norm is None
            alike.setdefault(kind, []).append((part.mass, norm))
    for (group, *_), same in alike.items():
        masses, norms = zip(*same, strict=True)
        old = torch.stack(masses)
        new = advance_mass(old, now(inputs.moments[group].now.averaging))
        if norms[0] is not None:
            new = torch.where(torch.stack(norms) < math.inf, new, old)
        torch._foreach_copy_(list(masses), new.unbind())


def _in_order(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a tensor with its elements in the order in which those of another lie in memory."""
    return tensor if tensor.stride() == like.stride() else torch.empty_like(like, dtype=tensor.dtype).copy_(tensor)


def _vector(tensor: Tensor) -> Tensor:
    """Return all elements of a tensor without gaps, in the order in which they lie in memory."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _read(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _stack(numbers: Sequence[Tensor]) -> Tensor:
    return numbers[0] if len(numbers) == 1 else torch.stack(list(numbers))
