"""ReLU and clamps of torch as nodes."""

from adaste.packed import arithmetic
from adaste.packed.graph_builder import Arguments, Builder, Value
from adaste.packed.nodes import Relu

LARGEST_BOUND = 1024
"""Of a clamp: its values are rounded like numbers of the size of its bounds, here to 1e-4."""


def relu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.relu."""
    return _relu(builder, a["self"])


def relu6(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.relu6."""
    return clamp(builder, {**a, "min": 0, "max": 6}, shape)


def hardtanh(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.hardtanh, which nn.ReLU6 is, too."""
    return clamp(builder, {**a, "min": a["min_val"], "max": a["max_val"]}, shape)


def clamp(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.clamp, of ReLUs: min(x, c) = c - relu(c - x) and max(x, c) = c + relu(x - c)."""
    value: Value = a["self"]
    low, high = a.get("min"), a.get("max")
    bounds = [bound for bound in (low, high) if bound is not None]
    if bounds != sorted(bounds) or max(map(abs, bounds)) > LARGEST_BOUND:
        raise ValueError(f"the bounds of a clamp must rise, from -{LARGEST_BOUND} to {LARGEST_BOUND}, got {bounds}")
    if high is not None:  # the first: where low is 0, all that is left of it is a ReLU, which goes into another node
        value = _from(builder, high, _relu(builder, _from(builder, high, value)))
    if low is not None:
        value = _plus(builder, low, _relu(builder, _plus(builder, -low, value)))
    return value


def _relu(builder: Builder, x: Value) -> Value:
    return builder.put(Relu(inputs=(builder.use(x),), output=builder.new_name()))


def _from(builder: Builder, bound: float, x: Value) -> Value:
    return arithmetic.subtract(builder, {"self": bound, "other": x}, x.shape)


def _plus(builder: Builder, bound: float, x: Value) -> Value:
    return arithmetic.add(builder, {"self": x, "other": bound}, x.shape) if bound else x
