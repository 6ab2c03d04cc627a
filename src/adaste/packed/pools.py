"""Pools of torch as nodes; those that adapt to an image get the one size they have for images of one size."""

import itertools
import math

from adaste.packed.graph_builder import Arguments, Builder, Value, pair
from adaste.packed.node import Pair
from adaste.packed.nodes import AveragePool, MaxPool


def max_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.max_pool2d."""
    if pair(a["dilation"]) != (1, 1):
        raise ValueError(f"dilation must be 1, got {a['dilation']}")
    kernel, stride, padding = _window(a)
    inputs = (builder.use(a["self"]),)
    node = MaxPool(inputs=inputs, output=builder.new_name(), kernel=kernel, stride=stride, padding=padding)
    return _of_size(builder.put(node), shape)


def average_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.avg_pool2d."""
    if a["divisor_override"] is not None:
        raise ValueError(f"divisor_override is not possible, got {a['divisor_override']}")
    kernel, stride, padding = _window(a)
    node = AveragePool(
        inputs=(builder.use(a["self"]),),
        output=builder.new_name(),
        kernel=kernel,
        stride=stride,
        padding=padding,
        count_padding=a["count_include_pad"],
    )
    return _of_size(builder.put(node), shape)


def adaptive_max_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None]:
    """aten.adaptive_max_pool2d."""
    kernel, stride = _adapted(a["self"], shape)
    return _maximum_of_windows(builder, a["self"], kernel, stride), None


def adaptive_average_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.adaptive_avg_pool2d."""
    kernel, stride = _adapted(a["self"], shape)
    return _mean_of_windows(builder, a["self"], kernel, stride)


def mean(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.mean over height, width or both."""
    pooled = _mean_of_windows(builder, *_sides(builder, a), (1, 1))
    return Value(pooled.name, tuple(shape[1:]))


def maximum(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.amax over height, width or both."""
    pooled = _maximum_of_windows(builder, *_sides(builder, a), (1, 1))
    return Value(pooled.name, tuple(shape[1:]))


def maximum_of_side(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None]:
    """aten.max over height or width."""
    return maximum(builder, {**a, "dim": [a["dim"]]}, shape), None


def _mean_of_windows(builder: Builder, x: Value, kernel: Pair, stride: Pair) -> Value:
    inputs = (builder.use(x),)
    output = builder.new_name()
    node = AveragePool(inputs=inputs, output=output, kernel=kernel, stride=stride, padding=(0, 0), count_padding=False)
    return builder.put(node)


def _maximum_of_windows(builder: Builder, x: Value, kernel: Pair, stride: Pair) -> Value:
    inputs = (builder.use(x),)
    output = builder.new_name()
    return builder.put(MaxPool(inputs=inputs, output=output, kernel=kernel, stride=stride, padding=(0, 0)))


def _sides(builder: Builder, a: Arguments) -> tuple[Value, Pair]:
    """The map that a mean or a maximum is of, and the window that covers the dimensions which it is over."""
    x = a["self"]
    whole = Value(x.name, builder.shapes[x.name])
    dimensions = {dimension % (len(x.shape) + 1) for dimension in a["dim"] or ()}
    if len(whole.shape) == 3:
        channels, height, width = whole.shape
        if x.shape == whole.shape and dimensions in ({2}, {3}, {2, 3}):
            return whole, (height if 2 in dimensions else 1, width if 3 in dimensions else 1)
        if x.shape == (channels, height * width) and dimensions == {2}:  # all pixels in a row, or one side gone before
            return whole, (height, width)
    raise ValueError(
        f"a mean or a maximum must be over height and width of a map, got dimensions {a['dim']} of {x.shape}"
    )


def _window(a: Arguments) -> tuple[Pair, Pair, Pair]:
    kernel = pair(a["kernel_size"])
    return kernel, pair(a["stride"]) if a["stride"] else kernel, pair(a["padding"])


def _of_size(value: Value, shape: tuple[int, ...]) -> Value:
    """`value`, if rounding up (ceil_mode) gives no more windows than rounding down."""
    if value.shape != tuple(shape[1:]):
        raise ValueError(f"ceil_mode is not possible where it changes the size, {value.shape} to {tuple(shape[1:])}")
    return value


def _adapted(x: Value, shape: tuple[int, ...]) -> tuple[Pair, Pair]:
    """The kernel and the stride that an adaptive pool has for images of this size."""
    if len(x.shape) != 3:
        raise ValueError(f"a pool must be of maps, got {x.shape}")
    (rows, row_step), (columns, column_step) = (
        _even(size, count) for size, count in zip(x.shape[1:], shape[2:], strict=True)
    )
    return (rows, columns), (row_step, column_step)


def _even(size: int, count: int) -> tuple[int, int]:
    """Window and step of `count` windows over `size` pixels, as torch puts them, if all are alike."""
    if count > size:
        raise ValueError(f"an adaptive pool from {size} to {count} pixels would repeat pixels")
    begins = [place * size // count for place in range(count)]
    lengths = {math.ceil((place + 1) * size / count) - begin for place, begin in enumerate(begins)}
    steps = {later - begin for begin, later in itertools.pairwise(begins)} or {1}
    if len(lengths) > 1 or len(steps) > 1:
        raise ValueError(f"an adaptive pool from {size} to {count} pixels has windows of different sizes")
    return lengths.pop(), steps.pop()
