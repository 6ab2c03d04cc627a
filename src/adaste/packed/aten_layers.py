"""Layers of torch as nodes: convolutions, linear layers, norms and pools.

Each function takes the builder, the operation's arguments by the names of its schema, and the shape of its result, with
the batch. Rows (channels, length) are maps of height 1.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from adaste.packed.graph import Arguments, Builder, Call, Constant, Value
from adaste.packed.nodes import Affine, Array, AveragePool, Convolution, Linear, MaxPool, Pair
from adaste.packed.tensor_nodes import Combine, GroupNorm, LayerNorm, Pad, Reduce, Slice, Spread, Transpose

LEAST_GROUP = 32
"""Inputs of a linear layer that may have a scale of their own: for fewer, a node each would cost more than it saves."""


def pair(sides: Sequence[int], fill: int | None = None) -> Pair:
    """Return one number for both directions, or two, as two; with `fill` one number for the second direction."""
    return (sides[0] if fill is None else fill, sides[-1])


def constant(found: Any, what: str) -> Constant:
    """Return `found`. Raise ValueError if it depends on the image."""
    if not isinstance(found, Constant):
        raise ValueError(f"{what} must not depend on the image")
    return found


def floats(found: Any, what: str) -> Array:
    """Return a constant in float64, in which scales and shifts are put together."""
    return constant(found, what).tensor.double().numpy()


def as_map(x: Value) -> Value:
    """Return a value as a map. Raise ValueError if it is none."""
    if x.batch or x.merged or len(x.shape) not in (2, 3):
        raise ValueError(
            f"a layer of maps needs (n, channels, height, width) or (n, channels, length), got {x.torch_shape()}"
        )
    return x if len(x.shape) == 3 else Value(x.name, (x.shape[0], 1, x.shape[1]))


def _as_given(value: Value, x: Value) -> Value:
    """Return a map in as many axes as `x` has."""
    return value if len(x.shape) == 3 else Value(value.name, (value.shape[0], value.shape[2]))


def convolution(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.conv1d, aten.conv2d and aten.convolution."""
    weight = constant(a["weight"], "the weight")
    if a.get("transposed"):
        return transposed_convolution(builder, a, shape)
    x, fill = as_map(a["input"]), _fill(weight)
    dense = weight.tensor if fill is None else weight.tensor.unsqueeze(2)
    kernel, dilation = (dense.shape[2], dense.shape[3]), pair(a["dilation"], fill)
    before, after = _padding(a["padding"], kernel, dilation, None if fill is None else 0)
    found = _convolve(
        builder, x, weight, dense, pair(a["stride"], fill), before, after, dilation, a["groups"], _bias(a["bias"])
    )
    return _as_given(found, a["input"])


def _fill(weight: Constant) -> int | None:
    """Return 1 for a convolution of rows, whose windows have height 1; None for one of maps."""
    if weight.tensor.dim() not in (3, 4):
        raise ValueError(f"a convolution must be of rows or maps, got a weight {tuple(weight.tensor.shape)}")
    return 1 if weight.tensor.dim() == 3 else None


def _convolve(
    builder: Builder,
    x: Value,
    weight: Constant,
    dense: Tensor,
    stride: Pair,
    before: Pair,
    after: Pair,
    dilation: Pair,
    groups: int,
    shift: Array | None,
) -> Value:
    """Add a convolution; other padding on one side than on the other is a node of its own."""
    if before != after or min(before) < 0:
        x, before = put_padding(builder, x, (0, *before), (0, *after)), (0, 0)
    inputs = (builder.use(x),)
    return builder.put(
        Convolution(
            inputs=inputs,
            output=builder.name_for(weight),
            out_channels=dense.shape[0],
            in_channels=x.shape[0],
            kernel=(dense.shape[2], dense.shape[3]),
            stride=stride,
            padding=before,
            groups=groups,
            dilation=dilation,
            weight=dense.contiguous().numpy(),
            kind="float",
            shift=shift,
            relu=False,
        )
    )


def put_padding(
    builder: Builder,
    x: Value,
    before: tuple[int, ...],
    after: tuple[int, ...],
    mode: str = "constant",
    value: float = 0.0,
) -> Value:
    """Add places before and after each axis; negative numbers take some away."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        if min(first, last) < 0:
            start, count = max(0, -first), x.shape[axis] + min(first, 0) + min(last, 0)
            node = Slice(
                inputs=(builder.use(x),), output=builder.new_name(), axis=axis, start=start, count=count, step=1
            )
            x = builder.put(node)
    before, after = tuple(max(0, n) for n in before), tuple(max(0, n) for n in after)
    if not any(before + after):
        return x
    inputs = (builder.use(x),)
    output = builder.new_name()
    return builder.put(Pad(inputs=inputs, output=output, before=before, after=after, mode=mode, value=value))


def transposed_convolution(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.conv_transpose1d and aten.conv_transpose2d: a convolution of a map with zeros between its pixels.

    Where windows do not overlap it is a 1x1 convolution whose channels become pixels.
    """
    weight, x = constant(a["weight"], "the weight"), as_map(a["input"])
    fill = _fill(weight)
    dense = weight.tensor if fill is None else weight.tensor.unsqueeze(2)
    kernel, groups = (dense.shape[2], dense.shape[3]), a["groups"]
    stride, dilation = pair(a["stride"], fill), pair(a["dilation"], fill)
    none = None if fill is None else 0
    padding, more = pair(a["padding"], none), pair(a["output_padding"], none)
    by_group = dense.reshape(groups, dense.shape[0] // groups, *dense.shape[1:]).transpose(1, 2)
    by_output = by_group.reshape(-1, dense.shape[0] // groups, *kernel)
    bias = _bias(a["bias"])
    if kernel == stride and (padding, more, dilation) == ((0, 0), (0, 0), (1, 1)):
        rows = by_output.permute(0, 2, 3, 1).reshape(-1, dense.shape[0] // groups, 1, 1)
        shift = None if bias is None else np.repeat(bias, math.prod(kernel))
        apart = _convolve(builder, x, weight, rows, (1, 1), (0, 0), (0, 0), (1, 1), groups, shift)
        return _as_given(depth_to_space(builder, apart, kernel), a["input"])
    if max(stride) > 1:
        x = builder.put(Spread(inputs=(builder.use(x),), output=builder.new_name(), step=stride))
    before = _each(lambda k, d, p: d * (k - 1) - p, kernel, dilation, padding)
    after = _each(lambda b, m: b + m, before, more)
    flipped = by_output.flip(2, 3)
    found = _convolve(builder, x, weight, flipped, (1, 1), before, after, dilation, groups, bias)
    return _as_given(found, a["input"])


def _each(function: Any, *pairs: Pair) -> Pair:
    first, second = (function(*numbers) for numbers in zip(*pairs, strict=True))
    return first, second


def depth_to_space(builder: Builder, x: Value, block: Pair) -> Value:
    """Spread channels over blocks of pixels, as PixelShuffle."""
    channels, height, width = x.shape
    inner = Value(x.name, (channels // math.prod(block), *block, height, width))
    inputs = (builder.use(inner),)
    moved = builder.put(Transpose(inputs=inputs, output=builder.new_name(), axes=(0, 3, 1, 4, 2)))
    return Value(moved.name, (inner.shape[0], height * block[0], width * block[1]))


def linear(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.linear."""
    weight = constant(a["weight"], "the weight")
    return put_linear(builder, a["input"], weight, weight.tensor, _bias(a["bias"]))


def shifted_product(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.addmm, as transformers' Conv1D has it: a product with a bias."""
    if (a["alpha"], a["beta"]) != (1, 1):
        raise ValueError(f"alpha and beta of addmm must be 1, got {a['alpha']} and {a['beta']}")
    weight = constant(a["mat2"], "the second factor of a product")
    bias = _bias(a["self"])
    if bias is not None and bias.shape != (weight.tensor.shape[1],):
        raise ValueError(f"the bias must be ({weight.tensor.shape[1]},), got {bias.shape}")
    return put_linear(builder, a["mat1"], weight, weight.tensor.T, bias)


def put_linear(builder: Builder, x: Value, weight: Constant, by_output: Tensor, shift: Array | None) -> Value:
    """Add a linear layer with a weight of the model, which is (outputs, inputs) in `by_output`.

    A layer has one size of weights per output. Where groups of inputs have their own, it is a sum: a layer for each
    group, to which the layers before it are the residual.
    """
    if not x.shape or x.axis(-1) != len(x.shape) - 1 or by_output.dim() != 2:
        raise ValueError(f"a linear layer needs features in the last dimension, got {x.torch_shape()}")
    rows, whole = by_output.contiguous().numpy(), builder.use(x)
    group, features = find_group(rows), rows.shape[1]
    so_far: tuple[str, ...] = ()
    for start in range(0, features, group):
        part, inputs = rows[:, start : start + group], whole
        if group < features:
            place = {"axis": len(x.shape) - 1, "start": start, "count": part.shape[1], "step": 1}
            inputs = builder.put(Slice(inputs=(whole,), output=builder.new_name(), **place)).name
        node = Linear(
            inputs=(inputs, *so_far),
            output=builder.name_for(weight),
            out_features=part.shape[0],
            in_features=part.shape[1],
            weight=np.ascontiguousarray(part),
            kind="float",
            shift=shift if start == 0 else None,
            relu=False,
        )
        found = builder.put(node)
        so_far = (found.name,)
    return Value(found.name, found.shape, x.batch, x.merged)


def find_group(rows: Array) -> int:
    """Return the largest number of consecutive inputs that have one size in each row, or all inputs if it is small."""
    sizes = np.abs(rows)
    starts = np.flatnonzero(np.any(sizes[:, 1:] != sizes[:, :-1], axis=0)) + 1
    group = math.gcd(*starts.tolist())
    return group if group >= LEAST_GROUP else rows.shape[1]


def put_affine(builder: Builder, x: Value, scale: Array | None, shift: Array | None) -> Value:
    """Add the value scale * x + shift, with one number of each per channel, the first axis of a map or a flat value."""
    whole = as_map(x) if len(x.shape) == 2 else x
    inputs = (builder.use(whole),)
    output = builder.new_name()
    node = Affine(inputs=inputs, output=output, channels=x.shape[0], scale=scale, shift=shift, relu=False)
    return Value(builder.put(node).name, x.shape)


def batch_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.batch_norm: a scale and a shift per channel."""
    x: Value = a["input"]
    if a.get("training") or a["running_mean"] is None:
        raise ValueError("a BatchNorm without running statistics lets an image depend on the others of its batch")
    scale = 1 / np.sqrt(floats(a["running_var"], "the variance") + a["eps"])
    if a["weight"] is not None:
        scale = scale * floats(a["weight"], "the scale")
    shift = -floats(a["running_mean"], "the mean") * scale
    if a["bias"] is not None:
        shift = shift + floats(a["bias"], "the bias")
    if x.batch or x.merged or len(x.shape) not in (1, 2, 3):
        return _scale_and_shift(builder, x, scale, shift)
    return put_affine(builder, x, scale, shift)


def _scale_and_shift(builder: Builder, x: Value, scale: Array, shift: Array) -> Value:
    """Add scale * x + shift with a number of each for every place of torch's second dimension."""
    axis = x.axis(1)
    sides = (-1, *[1] * (len(x.shape) - axis - 1))
    for function, numbers in (("multiply", scale), ("add", shift)):
        inputs = (builder.use(x), builder.literal(numbers.astype(np.float32).reshape(sides)))
        found = builder.put(Combine(inputs=inputs, output=builder.new_name(), function=function))
        x = Value(found.name, found.shape, x.batch, x.merged)
    return x


def functional_batch_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None, None]:
    """Add aten._native_batch_norm_legit_no_training; its other two results are not used in evaluation mode."""
    return batch_norm(builder, a, shape), None, None


def layer_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.layer_norm."""
    return _norm_of_end(builder, a["input"], a, center=True)


def root_mean_square_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.rms_norm; without an epsilon it takes that of float32."""
    eps = float(np.finfo(np.float32).eps) if a["eps"] is None else a["eps"]
    return _norm_of_end(builder, a["input"], {**a, "eps": eps}, center=False)


def _norm_of_end(builder: Builder, x: Value, a: Arguments, *, center: bool) -> Value:
    count = len(a["normalized_shape"])
    first = x.axis(-count)
    if [x.axis(place) for place in range(-count, 0)] != list(range(first, len(x.shape))):
        raise ValueError(
            f"a LayerNorm must be over the last dimensions, got {a['normalized_shape']} of {x.torch_shape()}"
        )
    inputs = (builder.use(x),)
    ends = {name: _flat(a.get(key)) for name, key in (("scale", "weight"), ("shift", "bias"))}
    node = LayerNorm(inputs=inputs, output=builder.new_name(), axes=count, center=center, epsilon=a["eps"], **ends)
    return Value(builder.put(node).name, x.shape, x.batch, x.merged)


def group_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.group_norm."""
    x: Value = a["input"]
    if x.batch or x.merged:
        raise ValueError(f"a GroupNorm needs (n, channels, ...), got {x.torch_shape()}")
    inputs = (builder.use(x),)
    ends = {name: _flat(a[key]) for name, key in (("scale", "weight"), ("shift", "bias"))}
    node = GroupNorm(inputs=inputs, output=builder.new_name(), groups=a["num_groups"], epsilon=a["eps"], **ends)
    return builder.put(node)


def instance_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.instance_norm: each channel is a group, or with running statistics a scale and a shift."""
    if not a["use_input_stats"]:
        return batch_norm(builder, a, shape)
    return group_norm(builder, {**a, "num_groups": a["input"].shape[0]}, shape)


def _flat(given: Constant | None) -> Array | None:
    return None if given is None else floats(given, "a scale or shift").reshape(-1)


def _bias(given: Constant | None) -> Array | None:
    return None if given is None else floats(given, "the bias")


def _padding(given: str | list[int], kernel: Pair, dilation: Pair, fill: int | None) -> tuple[Pair, Pair]:
    """Return the padding before and after each side."""
    if not isinstance(given, str):
        return pair(given, fill), pair(given, fill)
    if given == "valid":
        return (0, 0), (0, 0)
    whole = _each(lambda k, d: d * (k - 1), kernel, dilation)
    before = _each(lambda n: n // 2, whole)
    return before, _each(lambda n, b: n - b, whole, before)


def max_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.max_pool1d and aten.max_pool2d."""
    if pair(a["dilation"]) != (1, 1):
        raise ValueError(f"dilation must be 1, got {a['dilation']}")
    x, (kernel, stride, padding) = as_map(a["self"]), _window(a)
    inputs = (builder.use(x),)
    node = MaxPool(
        inputs=inputs,
        output=builder.new_name(),
        kernel=kernel,
        stride=stride,
        padding=padding,
        ceil=_is_cut(a, x, shape),
    )
    return _as_given(builder.put(node), a["self"])


def max_pool_with_places(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None]:
    """Add aten.max_pool2d_with_indices; no node computes the places."""
    return max_pool(builder, a, shape), None


def average_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.avg_pool1d and aten.avg_pool2d."""
    if a.get("divisor_override") is not None:
        raise ValueError(f"divisor_override is not possible, got {a['divisor_override']}")
    x, (kernel, stride, padding) = as_map(a["self"]), _window(a)
    if a["ceil_mode"] and padding == (0, 0):  # what a kernel has beyond the map counts for nothing
        kernel = (min(kernel[0], x.shape[1]), min(kernel[1], x.shape[2]))
    node = AveragePool(
        inputs=(builder.use(x),),
        output=builder.new_name(),
        kernel=kernel,
        stride=stride,
        padding=padding,
        ceil=_is_cut(a, x, shape),
        count_padding=a["count_include_pad"],
    )
    return _as_given(builder.put(node), a["self"])


def _window(a: Arguments) -> tuple[Pair, Pair, Pair]:
    one, none = (1, 0) if len(a["self"].shape) == 2 else (None, None)
    kernel = pair(a["kernel_size"], one)
    return kernel, pair(a["stride"], one) if a["stride"] else kernel, pair(a["padding"], none)


def _is_cut(a: Arguments, x: Value, shape: tuple[int, ...]) -> bool:
    """Return whether rounding up (ceil_mode) gives more windows than rounding down."""
    if not a["ceil_mode"]:
        return False
    kernel, stride, padding = _window(a)
    whole = [(side + 2 * p - k) // s + 1 for side, p, k, s in zip(x.shape[1:], padding, kernel, stride, strict=True)]
    return whole[-len(shape[2:]) :] != list(shape[2:])


def adaptive_max_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None]:
    """Add aten.adaptive_max_pool1d and aten.adaptive_max_pool2d."""
    kernel, stride = _adaptive_window(a["self"], shape)
    return _as_given(_maximum_of_windows(builder, as_map(a["self"]), kernel, stride), a["self"]), None


def adaptive_average_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.adaptive_avg_pool1d and aten.adaptive_avg_pool2d."""
    x = as_map(a["self"])
    try:
        kernel, stride = _adaptive_window(a["self"], shape)
    except ValueError:
        return _as_given(_mean_of_parts(builder, x, ((1, *shape[2:])[-2], shape[-1])), a["self"])
    return _as_given(_mean_of_windows(builder, x, kernel, stride), a["self"])


def _mean_of_parts(builder: Builder, x: Value, counts: Pair) -> Value:
    """Add the means of windows of different sizes: a product with the share of each pixel, first of rows, then of
    columns.
    """
    for axis, count in ((1, counts[0]), (2, counts[1])):
        size = x.shape[axis]
        shares = np.zeros((count, size), np.float32)
        for place in range(count):
            begin, end = place * size // count, -(-(place + 1) * size // count)
            shares[place, begin:end] = 1 / (end - begin)
        order = (0, 2, 1) if axis == 1 else (0, 1, 2)
        turned = (
            x if axis == 2 else builder.put(Transpose(inputs=(builder.use(x),), output=builder.new_name(), axes=order))
        )
        layer = Linear(
            inputs=(builder.use(turned),), output=builder.new_name(), out_features=count, in_features=size,
            weight=shares, kind="float", relu=False,
        )  # fmt: skip
        x = builder.put(layer)
        if axis == 1:
            x = builder.put(Transpose(inputs=(x.name,), output=builder.new_name(), axes=order))
    return x


def reduction(function: str) -> Call:
    """Return the function that adds aten.mean, aten.sum, aten.amax, ... over some dimensions."""

    def put(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
        x: Value = a["self"]
        if a.get("dtype") is not None and not a["dtype"].is_floating_point:
            raise ValueError(f"values are float32, got {a['dtype']}")
        dimensions = a.get("dim")
        dimensions = [dimensions] if isinstance(dimensions, int) else list(dimensions or range(x.rank))
        pool = {"mean": _mean_of_windows, "max": _maximum_of_windows}.get(function)
        whole = _sides(builder, x, dimensions) if pool is not None else None
        if pool is not None and whole is not None:
            return Value(pool(builder, *whole, (1, 1)).name, tuple(shape[1:]))
        axes = tuple(sorted(x.axis(dimension) for dimension in dimensions))
        node = Reduce(
            inputs=(builder.use(x),), output=builder.new_name(), function=function, axes=axes, keep=a["keepdim"]
        )
        found = builder.put(node)
        gone = sum(dimension % x.rank < x.batch for dimension in dimensions) if not a["keepdim"] else 0
        return Value(found.name, found.shape, x.batch - gone, x.merged)

    return put


def extreme(function: str) -> Call:
    """Return the function that adds aten.max or aten.min over a dimension; no node computes the places."""
    put = reduction(function)

    def put_both(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None]:
        return put(builder, a, shape), None

    return put_both


def _mean_of_windows(builder: Builder, x: Value, kernel: Pair, stride: Pair) -> Value:
    inputs = (builder.use(x),)
    output = builder.new_name()
    node = AveragePool(inputs=inputs, output=output, kernel=kernel, stride=stride, padding=(0, 0), count_padding=False)
    return builder.put(node)


def _maximum_of_windows(builder: Builder, x: Value, kernel: Pair, stride: Pair) -> Value:
    inputs = (builder.use(x),)
    output = builder.new_name()
    return builder.put(MaxPool(inputs=inputs, output=output, kernel=kernel, stride=stride, padding=(0, 0)))


def _sides(builder: Builder, x: Value, dimensions: Sequence[int]) -> tuple[Value, Pair] | None:
    """Return the map that a mean or a maximum is of, and the window that covers its dimensions; None without one."""
    whole = Value(x.name, builder.shapes[x.name])
    if x.batch or x.merged or len(whole.shape) != 3:
        return None
    channels, height, width = whole.shape
    found = {dimension % x.rank for dimension in dimensions}
    if x.shape == whole.shape and found in ({2}, {3}, {2, 3}):
        return whole, (height if 2 in found else 1, width if 3 in found else 1)
    if x.shape == (channels, height * width) and found == {2}:  # all pixels in a row, or one side gone before
        return whole, (height, width)
    return None


def _adaptive_window(x: Value, shape: tuple[int, ...]) -> tuple[Pair, Pair]:
    """Return the kernel and the stride that an adaptive pool has for images of this size."""
    sizes, counts = as_map(x).shape[1:], ((1, *shape[2:])[-2], shape[-1])
    (rows, row_step), (columns, column_step) = (
        _even_windows(size, count) for size, count in zip(sizes, counts, strict=True)
    )
    return (rows, columns), (row_step, column_step)


def _even_windows(size: int, count: int) -> tuple[int, int]:
    """Return size and step of torch's `count` windows over `size` pixels. Raise ValueError if they differ."""
    if count > size:
        raise ValueError(f"an adaptive pool from {size} to {count} pixels would repeat pixels")
    begins = [place * size // count for place in range(count)]
    lengths = {math.ceil((place + 1) * size / count) - begin for place, begin in enumerate(begins)}
    steps = {later - begin for begin, later in itertools.pairwise(begins)} or {1}
    if len(lengths) > 1 or len(steps) > 1:
        raise ValueError(f"an adaptive pool from {size} to {count} pixels has windows of different sizes")
    return lengths.pop(), steps.pop()
