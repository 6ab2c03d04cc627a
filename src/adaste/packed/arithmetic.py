"""Sums of values, and values times or plus constants that are the same all over a channel."""

from typing import Any

import numpy as np

from adaste.packed.graph_builder import Arguments, Builder, Constant, Value
from adaste.packed.node import Array
from adaste.packed.nodes import Add, Affine


def add(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.add: x + alpha y."""
    x, y, factor = a["self"], a["other"], a.get("alpha", 1)
    if isinstance(x, Value) and isinstance(y, Value):
        term = y if factor == 1 else put_affine(builder, y, _per_channel(factor, y), None)
        inputs = (builder.use(x), builder.use(term))
        return builder.put(Add(inputs=inputs, output=builder.new_name(), relu=False))
    if isinstance(x, Value):
        return put_affine(builder, x, None, factor * _per_channel(y, x))
    return put_affine(builder, y, _per_channel(factor, y), _per_channel(x, y))


def subtract(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.sub: x - alpha y."""
    return add(builder, {**a, "alpha": -a.get("alpha", 1)}, shape)


def subtract_from(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.rsub: y - alpha x."""
    return subtract(builder, {**a, "self": a["other"], "other": a["self"]}, shape)


def multiply(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.mul."""
    x, y = a["self"], a["other"]
    if isinstance(x, Value) and isinstance(y, Value):
        raise ValueError("a product of two values is not possible")
    value, factor = (x, y) if isinstance(x, Value) else (y, x)
    return put_affine(builder, value, _per_channel(factor, value), None)


def divide(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.div."""
    if isinstance(a["other"], Value):
        raise ValueError("a division by a value is not possible")
    return put_affine(builder, a["self"], 1 / _per_channel(a["other"], a["self"]), None)


def negate(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.neg."""
    return multiply(builder, {**a, "other": -1}, shape)


def put_affine(builder: Builder, x: Value, scale: Array | None, shift: Array | None) -> Value:
    """The value scale * x + shift, with one number of each per channel."""
    inputs = (builder.use(x),)
    output = builder.new_name()
    node = Affine(inputs=inputs, output=output, channels=x.shape[0], scale=scale, shift=shift, relu=False)
    return builder.put(node)


def _per_channel(given: Any, value: Value) -> Array:
    """A constant as one number for each channel of a value."""
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
