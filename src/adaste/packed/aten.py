"""Operations of torch as nodes: a table from each that can be packed to a function that adds its nodes.

The functions are in the order of the table: layers, pools, activations, arithmetic, changes of shape. Each takes the
builder, the operation's arguments by the names of its schema, and the shape of its result, with the batch.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaste.packed.graph import BATCH, Arguments, Builder, Constant, Value
from adaste.packed.nodes import Add, Affine, Array, AveragePool, Concatenate, Convolution, Linear, MaxPool, Pair, Relu

Call = Callable[[Builder, Arguments, tuple[int, ...]], Any]
"""Adds the nodes of an operation: takes its arguments and the shape of its result, with the batch."""


def pair(sides: Sequence[int]) -> Pair:
    """Return one number for both directions, or two, as two."""
    return (sides[0], sides[-1])


def constant(found: Any, what: str) -> Constant:
    """Return `found`. Raise ValueError if it depends on the image."""
    if not isinstance(found, Constant):
        raise ValueError(f"{what} must not depend on the image")
    return found


def floats(found: Any, what: str) -> Array:
    """Return a constant in float64, in which scales and shifts are put together."""
    return constant(found, what).tensor.double().numpy()


def convolution(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.conv2d and aten.convolution."""
    weight = constant(a["weight"], "the weight")
    if a.get("transposed") or len(weight.tensor.shape) != 4:
        raise ValueError("a convolution must be of maps and not transposed")
    if pair(a["dilation"]) != (1, 1):
        raise ValueError(f"dilation must be 1, got {a['dilation']}")
    inputs = (builder.use(a["input"]),)
    output = builder.name_for(weight)
    kernel = pair(weight.tensor.shape[2:])
    return builder.put(
        Convolution(
            inputs=inputs,
            output=output,
            out_channels=len(weight.tensor),
            in_channels=a["input"].shape[0],
            kernel=kernel,
            stride=pair(a["stride"]),
            padding=_padding(a["padding"], kernel),
            groups=a["groups"],
            weight=weight.tensor.numpy(),
            kind="float",
            shift=_bias(a["bias"]),
            relu=False,
        )
    )


def linear(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.linear."""
    weight = constant(a["weight"], "the weight")
    return _put_linear(builder, a["input"], weight, weight.tensor, _bias(a["bias"]))


def product(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.mm and aten.matmul: a linear layer whose weight is (inputs, outputs)."""
    weight = constant(a["mat2"] if "mat2" in a else a["other"], "the second factor of a product")
    if weight.tensor.dim() != 2:
        raise ValueError(f"the second factor of a product must be a matrix, got {tuple(weight.tensor.shape)}")
    return _put_linear(builder, a["self"], weight, weight.tensor.T, None)


def shifted_product(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.addmm, as transformers' Conv1D has it: the same with a bias."""
    if (a["alpha"], a["beta"]) != (1, 1):
        raise ValueError(f"alpha and beta of addmm must be 1, got {a['alpha']} and {a['beta']}")
    weight = constant(a["mat2"], "the second factor of a product")
    bias = _bias(a["self"])
    if bias is not None and bias.shape != (weight.tensor.shape[1],):
        raise ValueError(f"the bias must be ({weight.tensor.shape[1]},), got {bias.shape}")
    return _put_linear(builder, a["mat1"], weight, weight.tensor.T, bias)


def _put_linear(builder: Builder, given: Value, weight: Constant, by_output: Tensor, shift: Array | None) -> Value:
    """Add a linear layer with a weight of the model, which is (outputs, inputs) in `by_output`."""
    inputs = (builder.use(given),)
    output = builder.name_for(weight)
    return builder.put(
        Linear(
            inputs=inputs,
            output=output,
            out_features=by_output.shape[0],
            in_features=by_output.shape[1],
            weight=by_output.contiguous().numpy(),
            kind="float",
            shift=shift,
            relu=False,
        )
    )


def batch_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.batch_norm: a scale and a shift per channel."""
    if a.get("training") or a["running_mean"] is None:
        raise ValueError("a BatchNorm without running statistics lets an image depend on the others of its batch")
    scale = 1 / np.sqrt(floats(a["running_var"], "the variance") + a["eps"])
    if a["weight"] is not None:
        scale = scale * floats(a["weight"], "the scale")
    shift = -floats(a["running_mean"], "the mean") * scale
    if a["bias"] is not None:
        shift = shift + floats(a["bias"], "the bias")
    return put_affine(builder, a["input"], scale, shift)


def functional_batch_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None, None]:
    """Add aten._native_batch_norm_legit_no_training; its other two results are not used in evaluation mode."""
    return batch_norm(builder, a, shape), None, None


def _bias(given: Constant | None) -> Array | None:
    return None if given is None else floats(given, "the bias")


def _padding(given: str | list[int], kernel: Pair) -> Pair:
    if not isinstance(given, str):
        return pair(given)
    if given == "valid":
        return (0, 0)
    if any(side % 2 == 0 for side in kernel):
        raise ValueError(f"padding 'same' of a kernel {kernel} is not the same on both sides")
    return kernel[0] // 2, kernel[1] // 2


def max_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.max_pool2d."""
    if pair(a["dilation"]) != (1, 1):
        raise ValueError(f"dilation must be 1, got {a['dilation']}")
    kernel, stride, padding = _window(a)
    inputs = (builder.use(a["self"]),)
    node = MaxPool(inputs=inputs, output=builder.new_name(), kernel=kernel, stride=stride, padding=padding)
    return _check_size(builder.put(node), shape)


def average_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.avg_pool2d."""
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
    return _check_size(builder.put(node), shape)


def adaptive_max_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None]:
    """Add aten.adaptive_max_pool2d."""
    kernel, stride = _adaptive_window(a["self"], shape)
    return _maximum_of_windows(builder, a["self"], kernel, stride), None


def adaptive_average_pool(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.adaptive_avg_pool2d."""
    kernel, stride = _adaptive_window(a["self"], shape)
    return _mean_of_windows(builder, a["self"], kernel, stride)


def mean(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.mean over height, width or both."""
    pooled = _mean_of_windows(builder, *_sides(builder, a), (1, 1))
    return Value(pooled.name, tuple(shape[1:]))


def maximum(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.amax over height, width or both."""
    pooled = _maximum_of_windows(builder, *_sides(builder, a), (1, 1))
    return Value(pooled.name, tuple(shape[1:]))


def maximum_of_side(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None]:
    """Add aten.max over height or width."""
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
    """Return the map that a mean or a maximum is of, and the window that covers the dimensions it is over."""
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


def _check_size(value: Value, shape: tuple[int, ...]) -> Value:
    """Return `value`. Raise ValueError if rounding up (ceil_mode) gives more windows than rounding down."""
    if value.shape != tuple(shape[1:]):
        raise ValueError(f"ceil_mode is not possible where it changes the size, {value.shape} to {tuple(shape[1:])}")
    return value


def _adaptive_window(x: Value, shape: tuple[int, ...]) -> tuple[Pair, Pair]:
    """Return the kernel and the stride that an adaptive pool has for images of this size."""
    if len(x.shape) != 3:
        raise ValueError(f"a pool must be of maps, got {x.shape}")
    (rows, row_step), (columns, column_step) = (
        _even_windows(size, count) for size, count in zip(x.shape[1:], shape[2:], strict=True)
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


LARGEST_BOUND = 1024
"""The largest bound of a clamp: its values are rounded like numbers of the size of its bounds, here to 1e-4."""


def relu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.relu."""
    return builder.put(Relu(inputs=(builder.use(a["self"]),), output=builder.new_name()))


def relu6(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.relu6."""
    return clamp(builder, {**a, "min": 0, "max": 6}, shape)


def hardtanh(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.hardtanh, which nn.ReLU6 is, too."""
    return clamp(builder, {**a, "min": a["min_val"], "max": a["max_val"]}, shape)


def clamp(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.clamp, of ReLUs: min(x, c) = c - relu(c - x) and max(x, c) = c + relu(x - c)."""
    value: Value = a["self"]
    low, high = a.get("min"), a.get("max")
    bounds = [bound for bound in (low, high) if bound is not None]
    if bounds != sorted(bounds) or max(map(abs, bounds)) > LARGEST_BOUND:
        raise ValueError(f"the bounds of a clamp must rise, from -{LARGEST_BOUND} to {LARGEST_BOUND}, got {bounds}")

    def shift(x: Value, bound: float) -> Value:
        return add(builder, {"self": x, "other": bound}, shape) if bound else x

    def reflect(x: Value) -> Value:
        return subtract(builder, {"self": high, "other": x}, shape)

    if high is not None:  # the first: where low is 0, all that is left of it is a ReLU, which goes into another node
        value = reflect(relu(builder, {"self": reflect(value)}, shape))
    if low is not None:
        value = shift(relu(builder, {"self": shift(value, -low)}, shape), low)
    return value


def add(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.add: x + alpha y."""
    x, y, factor = a["self"], a["other"], a.get("alpha", 1)
    if isinstance(x, Value) and isinstance(y, Value):
        term = y if factor == 1 else put_affine(builder, y, _per_channel(factor, y), None)
        inputs = (builder.use(x), builder.use(term))
        return builder.put(Add(inputs=inputs, output=builder.new_name(), relu=False))
    if isinstance(x, Value):
        return put_affine(builder, x, None, factor * _per_channel(y, x))
    return put_affine(builder, y, _per_channel(factor, y), _per_channel(x, y))


def subtract(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.sub: x - alpha y."""
    return add(builder, {**a, "alpha": -a.get("alpha", 1)}, shape)


def subtract_from(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.rsub: y - alpha x."""
    return subtract(builder, {**a, "self": a["other"], "other": a["self"]}, shape)


def multiply(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.mul."""
    x, y = a["self"], a["other"]
    if isinstance(x, Value) and isinstance(y, Value):
        raise ValueError("a product of two values is not possible")
    value, factor = (x, y) if isinstance(x, Value) else (y, x)
    return put_affine(builder, value, _per_channel(factor, value), None)


def divide(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.div."""
    if isinstance(a["other"], Value):
        raise ValueError("a division by a value is not possible")
    return put_affine(builder, a["self"], 1 / _per_channel(a["other"], a["self"]), None)


def negate(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.neg."""
    return multiply(builder, {**a, "other": -1}, shape)


def put_affine(builder: Builder, x: Value, scale: Array | None, shift: Array | None) -> Value:
    """Add the value scale * x + shift, with one number of each per channel."""
    inputs = (builder.use(x),)
    output = builder.new_name()
    node = Affine(inputs=inputs, output=output, channels=x.shape[0], scale=scale, shift=shift, relu=False)
    return builder.put(node)


def _per_channel(given: Any, value: Value) -> Array:
    """Return a constant as one number for each channel of a value. Raise ValueError if it differs inside of one."""
    channels, *sides = value.shape
    if not isinstance(given, Constant):
        return np.full(channels, float(given))
    numbers = given.tensor.double().numpy()
    try:
        broadcast = np.broadcast_to(numbers, (1, channels, *sides))
    except ValueError:
        raise ValueError(f"a constant {numbers.shape} does not fit a value {value.shape}") from None
    flat = broadcast.reshape(channels, -1)
    if not np.all(flat == flat[:, :1]):
        raise ValueError(f"a constant must be the same all over a channel, got {numbers.shape} for {value.shape}")
    return flat[:, 0].copy()


SUPPORTED = (
    "A packed network may have convolutions (with groups and zero padding, not dilated), linear layers, BatchNorm, "
    "ReLU and clamps, max and average pools, flattening, dropout, sums and differences, concatenated channels, scales "
    "and shifts per channel"
)


def concatenate(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.cat of channels; one value alone stays as it is, as in the first layers of a DenseNet."""
    if len(a["tensors"]) == 1:
        (alone,) = a["tensors"]
        return view(builder, {"self": alone}, shape)
    if a["dim"] % len(shape) != 1 or not all(isinstance(part, Value) for part in a["tensors"]):
        raise ValueError(f"only channels of values can be concatenated, got dimension {a['dim']}")
    inputs = tuple(builder.use(part) for part in a["tensors"])
    return builder.put(Concatenate(inputs=inputs, output=builder.new_name()))


def view(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Return the same numbers in another shape."""
    same = identity(builder, a, shape)
    if shape[0] != BATCH or math.prod(shape[1:]) != math.prod(same.shape):
        raise ValueError(f"a change of shape must leave the images of a batch apart, got {same.shape} to {shape}")
    return Value(same.name, tuple(shape[1:]))


def select_all(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Allow aten.select and aten.slice, if they leave nothing out: a side of one pixel is dropped, or all is kept."""
    if math.prod(shape) != BATCH * math.prod(a["self"].shape):
        raise ValueError(f"only a side of one pixel can be picked out of, got {tuple(shape[1:])} of {a['self'].shape}")
    return view(builder, a, shape)


def identity(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Return the input of a copy, or of dropout in evaluation mode."""
    if a.get("train"):
        raise ValueError("dropout that is on in evaluation mode is not possible")
    if a.get("dtype") not in (None, torch.float32):
        raise ValueError(f"values are float32, got {a['dtype']}")
    same: Value = a["self"] if "self" in a else a["input"]
    return same


_aten = torch.ops.aten
CALLS: MappingProxyType[Any, Call] = MappingProxyType(
    {
        _aten.conv2d.default: convolution,
        _aten.conv2d.padding: convolution,
        _aten.convolution.default: convolution,
        _aten.linear.default: linear,
        _aten.mm.default: product,
        _aten.matmul.default: product,
        _aten.addmm.default: shifted_product,
        _aten.batch_norm.default: batch_norm,
        _aten._native_batch_norm_legit_no_training.default: functional_batch_norm,
        _aten.max_pool2d.default: max_pool,
        _aten.avg_pool2d.default: average_pool,
        _aten.adaptive_max_pool2d.default: adaptive_max_pool,
        _aten.adaptive_avg_pool2d.default: adaptive_average_pool,
        _aten._adaptive_avg_pool2d.default: adaptive_average_pool,
        _aten.mean.dim: mean,
        _aten.amax.default: maximum,
        _aten.max.dim: maximum_of_side,
        _aten.relu.default: relu,
        _aten.relu6.default: relu6,
        _aten.hardtanh.default: hardtanh,
        _aten.clamp.default: clamp,
        _aten.clamp_min.default: clamp,
        _aten.clamp_max.default: clamp,
        _aten.cat.default: concatenate,
        _aten.add.Tensor: add,
        _aten.add.Scalar: add,
        _aten.sub.Tensor: subtract,
        _aten.sub.Scalar: subtract,
        _aten.rsub.Scalar: subtract_from,
        _aten.mul.Tensor: multiply,
        _aten.mul.Scalar: multiply,
        _aten.div.Tensor: divide,
        _aten.div.Scalar: divide,
        _aten.neg.default: negate,
        _aten.view.default: view,
        _aten.reshape.default: view,
        _aten._unsafe_view.default: view,
        _aten.flatten.using_ints: view,
        _aten.squeeze.default: view,
        _aten.squeeze.dim: view,
        _aten.squeeze.dims: view,
        _aten.unsqueeze.default: view,
        _aten.select.int: select_all,
        _aten.slice.Tensor: select_all,
        _aten.clone.default: identity,
        _aten.contiguous.default: identity,
        _aten.detach.default: identity,
        _aten.alias.default: identity,
        _aten.lift_fresh_copy.default: identity,
        _aten.dropout.default: identity,
        _aten.feature_dropout.default: identity,
        _aten.alpha_dropout.default: identity,
        _aten.to.dtype: identity,
        _aten._to_copy.default: identity,
    }
)
"""All operations of torch that can be packed."""

_SOFTMAX = "Leave out a softmax at the end: a packed network gives logits, whose largest is at the same class"
ADVICE: MappingProxyType[Any, str] = MappingProxyType(
    {
        _aten.softmax.int: _SOFTMAX,
        _aten._softmax.default: _SOFTMAX,
        _aten.log_softmax.int: _SOFTMAX,
        _aten._log_softmax.default: _SOFTMAX,
    }
)
"""The end of a message about operations that cannot be packed."""
