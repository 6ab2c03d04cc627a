"""The operations of a packed network: one frozen dataclass each, checked when made.

A node computes the value `output` from the values `inputs`. Shapes leave out the batch. Here are the operations of
version 1, whose values are maps (channels, height, width) or flat (features,); those of version 2 are in
`tensor_nodes.py`. Fields that are arrays are tensors of the file, all others stand in its JSON; a field that has its
default is left out. Weights of +-1 are bits: eight to a byte, the first in the least significant bit, every row in
bytes of its own.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


def row_bytes(count: int) -> int:
    """Return the bytes of a row of `count` weights."""
    return -(-count // 8)


def pack_signs(signs: NDArray[Any]) -> NDArray[np.uint8]:
    """Return rows of +-1 as rows of bits: 0 for -1, 1 for +1, and 0 where no weight is left for the last byte."""
    if signs.ndim != 2 or not np.all(np.abs(signs) == 1):
        raise ValueError(f"only rows of -1 and +1 have one bit each, got an array of shape {signs.shape} with others")
    return np.packbits(signs > 0, axis=1, bitorder="little")


def unpack_signs(rows: NDArray[np.uint8], count: int) -> NDArray[np.int8]:
    """Return the +-1 that `pack_signs` was given, `count` weights a row."""
    bits = np.unpackbits(rows, axis=1, count=count, bitorder="little").view(np.int8)
    return bits * np.int8(2) - np.int8(1)


def unused_bits_are_zero(rows: NDArray[np.uint8], count: int) -> bool:
    """Return whether the bits behind each row's `count` weights are 0, so that equal weights are equal bytes."""
    spare = 8 * rows.shape[1] - count
    return spare == 0 or not np.any(rows[:, -1] >> (8 - spare))


Array = NDArray[Any]
Pair = tuple[int, int]
Shape = tuple[int, ...]

LARGEST = 2**27
"""The most that any whole number may be, and the most numbers that a value may hold for one image."""

KINDS = ("binary", "float")


@dataclass(frozen=True, kw_only=True, eq=False)
class Node(ABC):
    """An operation."""

    op: ClassVar[str]
    fewest: ClassVar[int] = 1
    most: ClassVar[int] = 1
    """How many inputs it may have."""
    later: ClassVar[tuple[str, ...]] = ()
    """Fields that version 1 of the file does not have; they have defaults."""

    inputs: tuple[str, ...]
    output: str

    def __post_init__(self) -> None:
        if not self.fewest <= len(self.inputs) <= self.most:
            allowed = f"{self.fewest}" if self.fewest == self.most else f"{self.fewest} to {self.most}"
            raise ValueError(f"{self.op} takes {allowed} inputs, got {len(self.inputs)}")
        if not self.output:
            raise ValueError("the name of its output must not be empty")

    @abstractmethod
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return the shape of the output, given those of the inputs. Raise ValueError if these do not fit."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Epilogue(Node):
    """A node that ends in y = scale * x + shift + residual and perhaps a ReLU; the residual is the second input.

    Args:
        scale: A number per channel; None for 1.
        shift: A number per channel; None for 0.
        relu: Whether a ReLU is the end.
    """

    most: ClassVar = 2

    scale: Array | None = None
    shift: Array | None = None
    relu: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("scale", "shift"):
            tensor = getattr(self, name)
            if tensor is not None:
                check_floats(name, tensor, (self.outputs,))

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Channels or features of the output."""

    def _check_residual(self, result: Shape, inputs: Sequence[Shape]) -> Shape:
        if len(inputs) == 2 and inputs[1] != result:
            raise ValueError(f"the residual must have the shape of the output, {result}, got {inputs[1]}")
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted(Epilogue):
    """A convolution or a linear layer.

    Args:
        weight: For the kind "binary" uint8 (outputs, bytes of a row), for the kind "float" as torch has it.
        kind: "binary" or "float".
    """

    weight: Array
    kind: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind[:50]!r}")
        if self.kind == "float":
            check_floats("weight", self.weight, self.weight_shape)
            return
        wanted = (self.outputs, row_bytes(self.fan_in))
        if self.weight.dtype != np.uint8 or self.weight.shape != wanted:
            raise ValueError(f"weight must be uint8 {wanted}, got {self.weight.dtype} {self.weight.shape}")
        if not unused_bits_are_zero(self.weight, self.fan_in):
            raise ValueError(f"bits of the weight behind the last of {self.fan_in} a row are set: they must be 0")

    @property
    @abstractmethod
    def weight_shape(self) -> Shape:
        """The shape that torch has for the weight."""

    @property
    def fan_in(self) -> int:
        """Weights of one output."""
        return math.prod(self.weight_shape[1:])

    def dense(self) -> Array:
        """Return the weight in torch's shape: int8 +-1 if it is binary, else as it is."""
        return (
            self.weight if self.kind == "float" else unpack_signs(self.weight, self.fan_in).reshape(self.weight_shape)
        )


def check_count(name: str, value: int, least: int = 1) -> None:
    """Raise ValueError unless a whole number of the file is within its limits."""
    if not least <= value <= LARGEST:
        raise ValueError(f"{name} must be {least} to {LARGEST}, got {value}")


def check_window(kernel: Pair, stride: Pair, padding: Pair) -> None:
    """Raise ValueError unless a window can slide over a map."""
    for direction in (0, 1):
        check_count("kernel", kernel[direction])
        check_count("stride", stride[direction])
        check_count("padding", padding[direction], least=0)


def check_floats(name: str, tensor: Array, shape: Shape) -> None:
    """Raise ValueError unless a tensor has this shape and finite real numbers."""
    if not np.issubdtype(tensor.dtype, np.floating) or tensor.shape != shape:
        raise ValueError(f"{name} must be float32 {shape}, got {tensor.dtype} {tensor.shape}")
    if not np.isfinite(tensor).all():
        raise ValueError(f"{name} must hold finite numbers, got NaN or infinite ones")


def check_channels(wanted: int, given: int) -> None:
    """Raise ValueError unless an input has the channels that are wanted."""
    if given != wanted:
        raise ValueError(f"the input must have {wanted} channels, got {given}")


def require_map(shape: Shape) -> Shape:
    """Return `shape`. Raise ValueError unless it is that of a map."""
    if len(shape) != 3:
        raise ValueError(f"the input must be a map (channels, height, width), got {shape}")
    return shape


def count_windows(size: Sequence[int], kernel: Pair, stride: Pair, padding: Pair, *, ceil: bool = False) -> Shape:
    """Return the number of positions of a window in each direction.

    With `ceil` a last window may reach beyond the padding if it begins inside of it, as in torch.
    """
    room = [side + 2 * pad - window for side, pad, window in zip(size, padding, kernel, strict=True)]
    if min(room) < 0:
        raise ValueError(f"a kernel of {kernel} does not fit into {tuple(size)} padded by {padding}")
    if not ceil:
        return tuple(space // step + 1 for space, step in zip(room, stride, strict=True))
    return tuple(
        min(-(-space // step), (side + pad - 1) // step) + 1
        for space, step, side, pad in zip(room, stride, size, padding, strict=True)
    )


def spread_kernel(kernel: Pair, dilation: Pair) -> Pair:
    """Return the sides of a kernel whose weights are `dilation` pixels apart."""
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Convolution(Weighted):
    """A convolution of a map, padded with zeros on all sides."""

    op: ClassVar = "convolution"
    later: ClassVar = ("dilation",)

    out_channels: int
    in_channels: int
    kernel: Pair
    stride: Pair
    padding: Pair
    groups: int
    dilation: Pair = (1, 1)

    def __post_init__(self) -> None:
        for name in ("out_channels", "in_channels", "groups"):
            check_count(name, getattr(self, name))
        check_window(self.kernel, self.stride, self.padding)
        for side in self.dilation:
            check_count("dilation", side)
        for name in ("out_channels", "in_channels"):
            if getattr(self, name) % self.groups:
                raise ValueError(f"{name} must be a multiple of groups = {self.groups}, got {getattr(self, name)}")
        super().__post_init__()

    @property
    def outputs(self) -> int:
        return self.out_channels

    @property
    def weight_shape(self) -> Shape:
        return (self.out_channels, self.in_channels // self.groups, *self.kernel)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, *size = require_map(inputs[0])
        check_channels(self.in_channels, channels)
        kernel = spread_kernel(self.kernel, self.dilation)
        return self._check_residual(
            (self.out_channels, *count_windows(size, kernel, self.stride, self.padding)), inputs
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Linear(Weighted):
    """A linear layer on the last axis of a value; in version 1 that is flat."""

    op: ClassVar = "linear"

    out_features: int
    in_features: int

    def __post_init__(self) -> None:
        for name in ("out_features", "in_features"):
            check_count(name, getattr(self, name))
        super().__post_init__()

    @property
    def outputs(self) -> int:
        return self.out_features

    @property
    def weight_shape(self) -> Shape:
        return (self.out_features, self.in_features)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if not inputs[0] or inputs[0][-1] != self.in_features:
            raise ValueError(f"the input must have {self.in_features} features, got {inputs[0]}")
        return self._check_residual((*inputs[0][:-1], self.out_features), inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Affine(Epilogue):
    """A scale and a shift per channel, the first axis of a value, that no layer could take in."""

    op: ClassVar = "affine"

    channels: int

    def __post_init__(self) -> None:
        check_count("channels", self.channels)
        super().__post_init__()

    @property
    def outputs(self) -> int:
        return self.channels

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if not inputs[0]:
            raise ValueError("the input must have channels, it is a single number")
        check_channels(self.channels, inputs[0][0])
        return self._check_residual(inputs[0], inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool(Node):
    """A window that slides over a map; it never lies outside altogether."""

    later: ClassVar = ("ceil",)

    kernel: Pair
    stride: Pair
    padding: Pair
    ceil: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window(self.kernel, self.stride, self.padding)
        if any(2 * pad > side for pad, side in zip(self.padding, self.kernel, strict=True)):
            raise ValueError(f"padding must be at most half the kernel {self.kernel}, got {self.padding}")

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, *size = require_map(inputs[0])
        return (channels, *count_windows(size, self.kernel, self.stride, self.padding, ceil=self.ceil))


@dataclass(frozen=True, kw_only=True, eq=False)
class MaxPool(Pool):
    """The largest number in every window."""

    op: ClassVar = "max_pool"


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragePool(Pool):
    """The mean of every window, in which padding counts as zeros or does not count."""

    op: ClassVar = "average_pool"

    count_padding: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Flatten(Node):
    """A map as a flat value, channel by channel and row by row."""

    op: ClassVar = "flatten"

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, height, width = require_map(inputs[0])
        return (channels * height * width,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Add(Node):
    """The sum of two values of one shape, and perhaps a ReLU."""

    op: ClassVar = "add"
    fewest: ClassVar = 2
    most: ClassVar = 2

    relu: bool

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if inputs[0] != inputs[1]:
            raise ValueError(f"the inputs of a sum must have one shape, got {inputs[0]} and {inputs[1]}")
        return inputs[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Relu(Node):
    """max(x, 0)."""

    op: ClassVar = "relu"

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return inputs[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Concatenate(Node):
    """All inputs, one after the other along an axis; in version 1 the channels."""

    op: ClassVar = "concatenate"
    fewest: ClassVar = 2
    most: ClassVar = LARGEST
    later: ClassVar = ("axis",)

    axis: int = 0

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if not 0 <= self.axis < len(inputs[0]):
            raise ValueError(f"axis must be one of {inputs[0]}, got {self.axis}")
        before, after = inputs[0][: self.axis], inputs[0][self.axis + 1 :]
        for shape in inputs:
            if (shape[: self.axis], shape[self.axis + 1 :]) != (before, after) or len(shape) != len(inputs[0]):
                along = "channels" if self.axis == 0 else f"axis {self.axis}"
                raise ValueError(f"what is concatenated must differ in {along} only, got {inputs[0]} and {shape}")
        return (*before, sum(shape[self.axis] for shape in inputs), *after)


OPERATIONS: MappingProxyType[str, type[Node]] = MappingProxyType(
    {kind.op: kind for kind in (Convolution, Linear, Affine, MaxPool, AveragePool, Flatten, Add, Relu, Concatenate)}
)
"""The operations of version 1 by the name they have in the file."""
