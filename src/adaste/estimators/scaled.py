"""Binary weights with a magnitude: +-a instead of +-1, for any estimator."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from adaste._util.checks import require_count, require_kind
from adaste.estimators.base import FIRST, Estimator, Oriented, OutputAxis, Piece
from adaste.estimators.schedules import Scalar


@dataclass(frozen=True)
class Scale(Oriented):
    """The magnitude of binary weights.

    `of` sees latents (outputs, inputs of one, ...), as linear and convolution layers have them. `along` returns a scale
    that brings the latents of other layers into this layout first, and the magnitude back into theirs.
    """

    @abstractmethod
    def of(self, position: Tensor) -> Scalar:
        """Return the magnitude for latents.

        Args:
            position: Latents with one number per weight.

        Returns:
            A number, or a tensor that broadcasts to the shape of the latents.
        """

    def along(self, axis: OutputAxis) -> "Scale":
        return self if axis == FIRST else _Along(self, axis)

    @property
    def is_constant(self) -> bool:
        return False

    def on_pieces(self, pieces: Sequence[Piece]) -> "Scale":
        # The shape is all that a constant scale asks of latents: these have no memory.
        latents = [torch.empty(piece.shape, device="meta") for piece in pieces]
        sizes = [float(self.along(piece.axis).of(latent)) for piece, latent in zip(pieces, latents, strict=True)]
        return _OnPieces(tuple(sizes), tuple(piece.numel for piece in pieces))


@dataclass(frozen=True)
class Unit(Scale):
    """The scale 1: weights are +-1."""

    def of(self, position: Tensor) -> float:
        return 1.0

    def along(self, axis: OutputAxis) -> Self:
        return self

    @property
    def is_constant(self) -> bool:
        return type(self) is Unit  # a subclass may measure latents

    def on_pieces(self, pieces: Sequence[Piece]) -> Self:
        return self


@dataclass(frozen=True)
class FanIn(Scale):
    """The scale `sqrt(2 / fan_in)`, a constant per layer.

    Activations keep their variance through a ReLU network. fan_in counts the weights of one output channel. In a
    transposed convolution of stride s, 1 / s^2 of them meet in one pixel.
    """

    def of(self, position: Tensor) -> float:
        return math.sqrt(2 / max(1, math.prod(position.shape[1:])))

    @property
    def is_constant(self) -> bool:
        return type(self) is FanIn  # a subclass may measure latents


@dataclass(frozen=True)
class ChannelMean(Scale):
    """The scale `mean |theta|` over each output channel.

    It is the mean over the whole of a one-dimensional parameter, and 1 where the mean is 0.
    """

    def of(self, position: Tensor) -> Tensor:
        dims = list(range(1, position.ndim)) or [0]
        # torch's compiler for CPUs fails on a mean of tensors that the compiled code also writes into, as a step does.
        apart = torch.compiler.is_compiling() and position.device.type == "cpu"
        mean = (_mean_size_apart if apart else _mean_size)(position, dims)
        return torch.where(mean > 0, mean, 1.0)


def _mean_size(values: Tensor, dims: list[int]) -> Tensor:
    return values.abs().mean(dim=dims, keepdim=True)


_mean_size_apart = torch.library.custom_op("adaste::mean_size", _mean_size, mutates_args=())
"""The same for code that is compiled: it calls this function as it is and fuses it with nothing."""
_mean_size_apart.register_fake(_mean_size)


@dataclass(frozen=True)
class GroupMean(Scale):
    """The scale `mean |theta|` over each group of consecutive inputs of an output channel.

    The last group of a channel may be shorter; a `size` of at least the inputs gives one scale per channel. A
    one-dimensional parameter counts as one channel. The scale is 1 where the mean is 0. Groups lie inside of one output
    channel, so none crosses the shards of FSDP2.

    Args:
        size: The number of inputs in a group: 128 in the type Q1_0 of GGUF files.
        half_precision: Round the scale to float16, as files store it, so that what is trained is what is exported.

    Raises:
        ValueError: If `size` is no positive whole number.
    """

    size: int = 128
    half_precision: bool = False

    def __post_init__(self) -> None:
        require_count("size", self.size, least=1)

    def of(self, position: Tensor) -> Tensor:
        # Compilers take a rounding to float16 for a detour and leave it out, and lose the last group where it is short.
        sizes = (_group_sizes_apart if torch.compiler.is_compiling() else _group_sizes)(
            position, self.size, self.half_precision
        )
        # In the memory order of the weights: so are the slopes then, and the memory that a base optimizer makes like
        # them.
        return torch.empty_like(position).copy_(sizes)


def _group_sizes(values: Tensor, size: int, half_precision: bool) -> Tensor:
    # No -1 among the sizes: a shard may have no outputs, and nothing can be inferred from no elements.
    rows = values.abs().flatten(1) if values.ndim > 1 else values.abs().reshape(1, values.numel())
    inputs = rows.shape[1]
    whole = inputs // size * size
    means = rows[:, :whole].reshape(len(rows), whole // size, size).mean(2) if whole else rows[:, :0]
    if whole < inputs:
        means = torch.cat((means, rows[:, whole:].mean(1, keepdim=True)), 1)
    sizes = torch.where(means > 0, means, 1.0)
    if half_precision:
        smallest, largest = 2.0**-24, torch.finfo(torch.float16).max
        sizes = sizes.clamp(smallest, largest).half().to(values.dtype)
    # Contiguous whatever the memory order of the weights: a compiler may change theirs and must know the result's.
    return sizes.repeat_interleave(size, 1)[:, :inputs].reshape(values.shape).contiguous()


_group_sizes_apart = torch.library.custom_op("adaste::group_sizes", _group_sizes, mutates_args=())
_group_sizes_apart.register_fake(lambda values, size, half_precision: values.new_empty(values.shape))


@dataclass(frozen=True)
class _Along(Scale):
    """A scale of weights that have their output channels elsewhere than along dimension 0."""

    scale: Scale
    axis: OutputAxis

    def of(self, position: Tensor) -> Scalar:
        size = self.scale.of(self.axis.outputs_first(position))
        return self.axis.as_in(position, size) if isinstance(size, Tensor) and size.ndim else size

    def along(self, axis: OutputAxis) -> Scale:
        return self.scale.along(axis)


@dataclass(frozen=True)
class _OnPieces(Scale):
    """The constant scales of several parameters whose latents are one vector."""

    sizes: tuple[float, ...]
    counts: tuple[int, ...]

    def of(self, position: Tensor) -> Scalar:
        if len(set(self.sizes)) == 1:
            return self.sizes[0]
        expanded = torch.ones_like(position)
        torch._foreach_mul_(expanded.split(self.counts), self.sizes)  # type: ignore[no-untyped-call]
        return expanded


@dataclass(frozen=True)
class Scaled(Estimator):
    """Another method with scaled weights: `w = a s(theta)`.

    The inner method sees the unscaled weight w / a and, by the chain rule, the gradient a g.

    A scale that depends on theta is held constant in the derivative, and taken from the theta of that moment, measured
    as the inner method says (`Estimator.extent`): between steps and inside of one the scale is the same.

    Args:
        estimator: The inner method.
        scale: The scale a: `Unit`, `FanIn`, `ChannelMean` or `GroupMean`.

    Raises:
        ValueError: If `estimator` is no method of binary weights or `scale` is no scale.
    """

    elementwise: ClassVar[bool] = True

    estimator: Estimator
    scale: Scale = FanIn()

    def __post_init__(self) -> None:
        require_kind("estimator", self.estimator, Estimator)
        require_kind("scale", self.scale, Scale)
        if not self.estimator.binary:
            raise ValueError(f"a scale needs binary weights, got {self.estimator}")

    def latent(self, weight: Tensor) -> Tensor:
        return self.estimator.latent(weight)

    def carry(self, latent: Tensor, weight: Tensor) -> Tensor:
        if type(self.estimator).carry is Estimator.carry:
            return latent  # measures no scale in vain
        return self.estimator.carry(latent, _unscale(weight, self._scale(latent)))

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        scale = self._scale(latent, carried=True)
        return self.estimator.gradient(scale * grad, latent, _unscale(weight, scale))

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        if type(self.estimator).settle is Estimator.settle:
            return latent
        return self.estimator.settle(latent, _unscale(weight, self._scale(latent, carried=True)))

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        scale = self._scale(latent)
        return scale * self.estimator.weight(latent, _unscale(previous, scale))

    def position(self, latent: Tensor) -> Tensor:
        return self.estimator.position(latent)

    def extent(self, latent: Tensor, *, carried: bool = False) -> Tensor:
        return self.estimator.extent(latent, carried=carried)

    def magnitude(self, latent: Tensor) -> Scalar:
        return self._scale(latent) * self.estimator.magnitude(latent)

    def binarize(self, latent: Tensor, weight: Tensor) -> Tensor:
        return self._scale(latent) * self.estimator.binarize(latent, weight)

    def _scale(self, latent: Tensor, *, carried: bool = False) -> Scalar:
        return self.scale.of(self.extent(latent, carried=carried))


def _unscale(weight: Tensor, scale: Scalar) -> Tensor:
    # By a tensor always: CUDA divides by a number as it multiplies by its reciprocal, which rounds otherwise.
    return weight / (scale if isinstance(scale, Tensor) else weight.new_full((), scale))
