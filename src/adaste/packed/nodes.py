"""The operations of a packed network: one frozen dataclass each, checked when made."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from adaste.packed.node import (
    LARGEST,
    Epilogue,
    Node,
    Pair,
    Shape,
    Weighted,
    as_map,
    check_channels,
    check_count,
    check_window,
    slid,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Convolution(Weighted):
    """A convolution of a map, padded with zeros on all sides."""

    op: ClassVar = "convolution"

    out_channels: int
    in_channels: int
    kernel: Pair
    stride: Pair
    padding: Pair
    groups: int

    def __post_init__(self) -> None:
        for name in ("out_channels", "in_channels", "groups"):
            check_count(name, getattr(self, name))
        check_window(self.kernel, self.stride, self.padding)
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
        channels, *size = as_map(inputs[0])
        check_channels(self.in_channels, channels)
        return self._ended((self.out_channels, *slid(size, self.kernel, self.stride, self.padding)), inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Linear(Weighted):
    """A linear layer on a flat value."""

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
        if inputs[0] != (self.in_features,):
            raise ValueError(f"the input must be flat, ({self.in_features},), got {inputs[0]}")
        return self._ended((self.out_features,), inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Affine(Epilogue):
    """A scale and a shift per channel that no layer could take in."""

    op: ClassVar = "affine"

    channels: int

    def __post_init__(self) -> None:
        check_count("channels", self.channels)
        super().__post_init__()

    @property
    def outputs(self) -> int:
        return self.channels

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        check_channels(self.channels, inputs[0][0])
        return self._ended(inputs[0], inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool(Node):
    """A window that slides over a map; it never lies outside altogether."""

    kernel: Pair
    stride: Pair
    padding: Pair

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window(self.kernel, self.stride, self.padding)
        if any(2 * pad > side for pad, side in zip(self.padding, self.kernel, strict=True)):
            raise ValueError(f"padding must be at most half the kernel {self.kernel}, got {self.padding}")

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, *size = as_map(inputs[0])
        return (channels, *slid(size, self.kernel, self.stride, self.padding))


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
        channels, height, width = as_map(inputs[0])
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
    """The channels of all inputs, one after the other."""

    op: ClassVar = "concatenate"
    fewest: ClassVar = 2
    most: ClassVar = LARGEST

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        rest = inputs[0][1:]
        for shape in inputs:
            if shape[1:] != rest:
                raise ValueError(f"what is concatenated must differ in channels only, got {inputs[0]} and {shape}")
        return (sum(shape[0] for shape in inputs), *rest)


OPERATIONS: MappingProxyType[str, type[Node]] = MappingProxyType(
    {kind.op: kind for kind in (Convolution, Linear, Affine, MaxPool, AveragePool, Flatten, Add, Relu, Concatenate)}
)
"""All operations by the name they have in the file."""
