"""The operations that version 2 of the file adds: of values of any shape, as transformers and segmenters need them.

Axes count from 0 without the batch. One node is a family of operations: elementwise functions, combinations of two
values, reductions; the name of the function is a field.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from adaste.packed.nodes import LARGEST, OPERATIONS, Array, Node, Pair, Shape, check_count, check_floats, require_map

MOST_AXES = 7
"""Axes of a value."""

LOWEST = -3e38
"""What stands for minus infinity in masks: files hold finite numbers."""

Sizes = tuple[int, ...]
Steps = tuple[float, float]

FUNCTIONS = (
    *("abs", "elu", "erf", "exp", "gelu", "gelu_tanh", "hardsigmoid", "hardswish", "leaky_relu", "log", "mish"),
    *("reciprocal", "rsqrt", "sigmoid", "silu", "softplus", "sqrt", "tanh"),
)
PARAMETRIC = ("elu", "leaky_relu")
"""Functions with a parameter: elu(x) = parameter (exp(x) - 1) and leaky_relu(x) = parameter x for x < 0."""

COMBINATIONS = ("add", "divide", "equal", "less", "maximum", "minimum", "multiply", "subtract")
"""Of which equal and less give 1 where they hold, and 0 elsewhere."""
REDUCTIONS = ("max", "mean", "min", "sum")
PADDINGS = ("constant", "edge", "reflect", "wrap")


def check_name(what: str, given: str, allowed: Sequence[str]) -> None:
    """Raise ValueError unless a name is one of those allowed."""
    if given not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(allowed)}, got {given[:50]!r}")


def check_axis(axis: int, shape: Shape) -> None:
    """Raise ValueError unless a shape has this axis."""
    if not 0 <= axis < len(shape):
        raise ValueError(f"axis must be one of the {len(shape)} of {shape}, got {axis}")


def check_epsilon(epsilon: float) -> None:
    """Raise ValueError unless a norm may divide by the root of a variance and this."""
    if not 0 <= epsilon <= LARGEST:
        raise ValueError(f"epsilon must be from 0 to {LARGEST}, got {epsilon}")


def broadcast(first: Shape, second: Shape) -> Shape:
    """Return the shape of a combination: sides of 1 are repeated, and shapes are aligned at their ends."""
    rank = max(len(first), len(second))
    sides = []
    for a, b in zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True):
        if a != b and 1 not in (a, b):
            raise ValueError(f"the shapes {first} and {second} do not fit each other")
        sides.append(max(a, b))
    return tuple(sides)


@dataclass(frozen=True, kw_only=True, eq=False)
class Literal(Node):
    """A value that the file holds, the same for every input.

    Args:
        sides: Its shape.
        value: Its numbers in one row, the last axis fastest.
    """

    op: ClassVar = "constant"
    fewest: ClassVar = 0
    most: ClassVar = 0

    sides: Sizes
    value: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in self.sides:
            check_count("a side", side)
        check_floats("value", self.value, (math.prod(self.sides),))

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return self.sides


@dataclass(frozen=True, kw_only=True, eq=False)
class Function(Node):
    """A function of every number."""

    op: ClassVar = "function"

    function: str
    parameter: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("function", self.function, FUNCTIONS)
        if (self.parameter is not None) != (self.function in PARAMETRIC):
            raise ValueError(f"{', '.join(PARAMETRIC)} have a parameter, other functions none: {self.function}")

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return inputs[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Combine(Node):
    """A sum, a product and the like of two values; sides of 1 are repeated, shapes are aligned at their ends."""

    op: ClassVar = "combine"
    fewest: ClassVar = 2
    most: ClassVar = 2

    function: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("function", self.function, COMBINATIONS)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return broadcast(inputs[0], inputs[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduce(Node):
    """The mean, the sum or an extreme over axes, which go, or with `keep` stay with one number."""

    op: ClassVar = "reduce"

    function: str
    axes: Sizes
    keep: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("function", self.function, REDUCTIONS)
        if not self.axes or len(set(self.axes)) < len(self.axes):
            raise ValueError(f"axes must be different, and one at least, got {self.axes}")

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        for axis in self.axes:
            check_axis(axis, inputs[0])
        sides = [1 if axis in self.axes else side for axis, side in enumerate(inputs[0])]
        return tuple(side for axis, side in enumerate(sides) if self.keep or axis not in self.axes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Norm(Node):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, of parts of a value.

    Without `center` the mean is 0, and the variance that of RMSNorm.
    """

    epsilon: float
    scale: Array | None = None
    shift: Array | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)

    def _check_ends(self, count: int) -> None:
        for name in ("scale", "shift"):
            tensor = getattr(self, name)
            if tensor is not None:
                check_floats(name, tensor, (count,))


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerNorm(Norm):
    """A norm over the last `axes` axes; scale and shift have a number for each of their places."""

    op: ClassVar = "layer_norm"

    axes: int
    center: bool

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if not 1 <= self.axes <= len(inputs[0]):
            raise ValueError(f"axes must be 1 to the {len(inputs[0])} of {inputs[0]}, got {self.axes}")
        self._check_ends(math.prod(inputs[0][-self.axes :]))
        return inputs[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupNorm(Norm):
    """A norm over each of `groups` groups of channels, the first axis; scale and shift are per channel."""

    op: ClassVar = "group_norm"

    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("groups", self.groups)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if not inputs[0] or inputs[0][0] % self.groups:
            raise ValueError(f"the channels of {inputs[0]} must be a multiple of groups = {self.groups}")
        self._check_ends(inputs[0][0])
        return inputs[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Softmax(Node):
    """exp(x) over its sum along an axis."""

    op: ClassVar = "softmax"

    axis: int

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        check_axis(self.axis, inputs[0])
        return inputs[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reshape(Node):
    """The same numbers in the same order, the last axis fastest, in another shape."""

    op: ClassVar = "reshape"

    sides: Sizes

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        for side in self.sides:
            check_count("a side", side)
        if math.prod(self.sides) != math.prod(inputs[0]):
            raise ValueError(f"{inputs[0]} has not as many numbers as {self.sides}")
        return self.sides


@dataclass(frozen=True, kw_only=True, eq=False)
class Transpose(Node):
    """Axis i of the output is axis `axes[i]` of the input."""

    op: ClassVar = "transpose"

    axes: Sizes

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if sorted(self.axes) != list(range(len(inputs[0]))):
            raise ValueError(f"axes must be all {len(inputs[0])} of {inputs[0]} in some order, got {self.axes}")
        return tuple(inputs[0][axis] for axis in self.axes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Slice(Node):
    """Every `step`-th place of an axis, `count` of them from `start` on."""

    op: ClassVar = "slice"

    axis: int
    start: int
    count: int
    step: int

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        check_axis(self.axis, inputs[0])
        for name, least in (("start", 0), ("count", 1), ("step", 1)):
            check_count(name, getattr(self, name), least)
        last = self.start + (self.count - 1) * self.step
        if last >= inputs[0][self.axis]:
            raise ValueError(f"the last place would be {last}, axis {self.axis} has {inputs[0][self.axis]}")
        return (*inputs[0][: self.axis], self.count, *inputs[0][self.axis + 1 :])


@dataclass(frozen=True, kw_only=True, eq=False)
class Expand(Node):
    """Sides of 1 repeated, and new axes in front."""

    op: ClassVar = "expand"

    sides: Sizes

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        for side in self.sides:
            check_count("a side", side)
        if broadcast(inputs[0], self.sides) != self.sides:
            raise ValueError(f"{inputs[0]} cannot be repeated to {self.sides}")
        return self.sides


@dataclass(frozen=True, kw_only=True, eq=False)
class Pad(Node):
    """More places before and after each axis: `value`, the edge's, or those of the inside mirrored or again."""

    op: ClassVar = "pad"

    before: Sizes
    after: Sizes
    mode: str
    value: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("mode", self.mode, PADDINGS)
        for count in (*self.before, *self.after):
            check_count("before and after", count, least=0)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if not len(self.before) == len(self.after) == len(inputs[0]):
            raise ValueError(f"before and after need a number for each axis of {inputs[0]}")
        for side, *counts in zip(inputs[0], self.before, self.after, strict=True):
            most = {"reflect": side - 1, "wrap": side}.get(self.mode, LARGEST)
            if max(counts) > most:
                raise ValueError(f"a side of {side} can be padded by {most} with {self.mode}, got {max(counts)}")
        return tuple(b + side + a for b, side, a in zip(self.before, inputs[0], self.after, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread(Node):
    """A map with `step - 1` zeros between its pixels: a convolution of it is a transposed one of the map."""

    op: ClassVar = "spread"

    step: Pair

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, *size = require_map(inputs[0])
        for step in self.step:
            check_count("step", step)
        return (channels, *((side - 1) * step + 1 for side, step in zip(size, self.step, strict=True)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Resize(Node):
    """A map of another size, pixel by pixel from the nearest or, with `linear`, from two in each direction.

    Pixel i is at i * step of the input; without `corners` a linear one at max((i + 0.5) * step - 0.5, 0).
    """

    op: ClassVar = "resize"

    size: Pair
    step: Steps
    linear: bool
    corners: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in self.size:
            check_count("size", side)
        if not all(0 <= step <= LARGEST for step in self.step):
            raise ValueError(f"step must be from 0 to {LARGEST}, got {self.step}")

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        channels, *_ = require_map(inputs[0])
        return (channels, *self.size)

    def places(self, axis: int, side: int) -> tuple[Array, Array, Array]:
        """Return, for each output along a direction, its two inputs and the share of the second."""
        places, step = np.arange(self.size[axis], dtype=np.float32), np.float32(self.step[axis])
        if not self.linear:
            first = np.minimum((places * step).astype(np.int64), side - 1)
            return first, first, np.zeros(len(first), np.float32)
        at = places * step if self.corners else np.maximum((places + np.float32(0.5)) * step - np.float32(0.5), 0)
        first = np.minimum(at.astype(np.int64), side - 1)
        return first, np.minimum(first + 1, side - 1), np.minimum(at - first, 1).astype(np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class MatMul(Node):
    """The product of the last two axes of two values; axes before them are repeated as in a combination."""

    op: ClassVar = "matmul"
    fewest: ClassVar = 2
    most: ClassVar = 2

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        first, second = inputs
        if min(len(first), len(second)) < 2 or first[-1] != second[-2]:
            raise ValueError(f"the shapes {first} and {second} cannot be multiplied")
        return (*broadcast(first[:-2], second[:-2]), first[-2], second[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Attention(Node):
    """softmax(scale q k^T + mask) v, of queries, keys and values (..., places, features) and perhaps a mask.

    With `causal` place i sees the places 0 to i alone.
    """

    op: ClassVar = "attention"
    fewest: ClassVar = 3
    most: ClassVar = 4

    scale: float
    causal: bool

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        q, k, v, *mask = inputs
        fits = len(q) == len(k) == len(v) >= 2 and q[:-2] == k[:-2] == v[:-2] and q[-1] == k[-1] and k[-2] == v[-2]
        if not fits:
            raise ValueError(f"queries {q}, keys {k} and values {v} do not fit each other")
        scores = (*q[:-1], k[-2])
        if mask and broadcast(mask[0], scores) != scores:
            raise ValueError(f"a mask {mask[0]} does not fit scores {scores}")
        return (*q[:-1], v[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding(Node):
    """The rows of a table that whole numbers name; of real numbers as they are cut to one of 0 to `count - 1`."""

    op: ClassVar = "embedding"

    count: int
    width: int
    weight: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        check_floats("weight", self.weight, (self.count, self.width))

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return (*inputs[0], self.width)


@dataclass(frozen=True, kw_only=True, eq=False)
class Number(Node):
    """The whole numbers of an input as real ones, as near as float32 is: exactly up to 2^24."""

    op: ClassVar = "number"

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return inputs[0]


TENSOR_OPERATIONS: MappingProxyType[str, type[Node]] = MappingProxyType(
    {
        kind.op: kind
        for kind in (
            *(Literal, Function, Combine, Reduce, LayerNorm, GroupNorm, Softmax, Reshape, Transpose, Slice, Expand),
            *(Pad, Spread, Resize, MatMul, Attention, Embedding, Number),
        )
    }
)
"""The operations of version 2 that version 1 does not have, by the name they have in the file."""

ALL_OPERATIONS: MappingProxyType[str, type[Node]] = MappingProxyType({**OPERATIONS, **TENSOR_OPERATIONS})
