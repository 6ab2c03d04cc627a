"""What all nodes of a packed network have in common.

A node computes the value `output` from the values `inputs`. Shapes leave out the batch: a value is a map (channels,
height, width) or flat (features,). Fields that are arrays are tensors of the file, all others stand in its JSON.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adaste.packed.bits import row_bytes, unpack_signs, unused_bits_are_zero

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
        """The shape of the output, given those of the inputs; an error where these do not fit."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Epilogue(Node):
    """What ends in y = scale * x + shift + residual and perhaps a ReLU; the residual is the second input.

    scale, shift  one number per channel; None: 1 and 0.
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

    def _ended(self, result: Shape, inputs: Sequence[Shape]) -> Shape:
        if len(inputs) == 2 and inputs[1] != result:
            raise ValueError(f"the residual must have the shape of the output, {result}, got {inputs[1]}")
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted(Epilogue):
    """A convolution or a linear layer.

    weight  of the kind "binary" uint8 (outputs, bytes of a row), of the kind "float" as torch has it.
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
        """The shape torch has for the weight."""

    @property
    def fan_in(self) -> int:
        """Weights of one output."""
        return math.prod(self.weight_shape[1:])

    def dense(self) -> Array:
        """The weight in torch's shape: int8 +-1 where it is binary, else as it is."""
        return (
            self.weight if self.kind == "float" else unpack_signs(self.weight, self.fan_in).reshape(self.weight_shape)
        )


def check_count(name: str, value: int, least: int = 1) -> None:
    """Check a whole number of the file."""
    if not least <= value <= LARGEST:
        raise ValueError(f"{name} must be {least} to {LARGEST}, got {value}")


def check_window(kernel: Pair, stride: Pair, padding: Pair) -> None:
    """Check what slides over a map."""
    for direction in (0, 1):
        check_count("kernel", kernel[direction])
        check_count("stride", stride[direction])
        check_count("padding", padding[direction], least=0)


def check_floats(name: str, tensor: Array, shape: Shape) -> None:
    """Check a tensor of real numbers."""
    if not np.issubdtype(tensor.dtype, np.floating) or tensor.shape != shape:
        raise ValueError(f"{name} must be float32 {shape}, got {tensor.dtype} {tensor.shape}")
    if not np.isfinite(tensor).all():
        raise ValueError(f"{name} must hold finite numbers, got NaN or infinite ones")


def check_channels(wanted: int, given: int) -> None:
    """Check the channels of an input."""
    if given != wanted:
        raise ValueError(f"the input must have {wanted} channels, got {given}")


def as_map(shape: Shape) -> Shape:
    """`shape`, which must be that of a map."""
    if len(shape) != 3:
        raise ValueError(f"the input must be a map (channels, height, width), got {shape}")
    return shape


def slid(size: Sequence[int], kernel: Pair, stride: Pair, padding: Pair) -> Shape:
    """How many places a window has in each direction."""
    room = [side + 2 * pad - window for side, pad, window in zip(size, padding, kernel, strict=True)]
    if min(room) < 0:
        raise ValueError(f"a kernel of {kernel} does not fit into {tuple(size)} padded by {padding}")
    return tuple(space // step + 1 for space, step in zip(room, stride, strict=True))
