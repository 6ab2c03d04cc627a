"""Operations of torch that compute with tensors of any shape, as nodes: functions, arithmetic, products, attention.

Each function takes the builder, the operation's arguments by the names of its schema, and the shape of its result, with
the batch.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from adaste.packed.aten_layers import (
    constant,
    put_affine,
    put_linear,
    reduction,
)
from adaste.packed.aten_shapes import as_constant, expand, permute, put_slice, reorder, without_batch
from adaste.packed.graph import Arguments, Builder, Call, Constant, Value, view_of
from adaste.packed.nodes import Add, Array, Linear, Relu
from adaste.packed.tensor_nodes import (
    LOWEST,
    Attention,
    Combine,
    Expand,
    Function,
    MatMul,
    Softmax,
)

LARGEST_BOUND = 1024
"""The largest bound of a clamp that is made of ReLUs: its values are rounded like numbers of the size of its bounds."""


def _alike(value: Value, x: Value) -> Value:
    """Return what was computed from the stored form of `x` as torch sees it."""
    return Value(value.name, x.shape, x.batch, x.merged)


def function(name: str, parameter: str | None = None) -> Call:
    """Return the function that adds a function of every number; `parameter` names the argument that is its own."""

    def put(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
        own = None if parameter is None else float(a[parameter])
        return put_function(builder, a["self"], name, own)

    return put


def put_function(builder: Builder, x: Value, name: str, parameter: float | None = None) -> Value:
    """Add a function of every number, which needs no certain shape."""
    node = Function(inputs=(x.name,), output=builder.new_name(), function=name, parameter=parameter)
    return _alike(builder.put(node), x)


def relu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.relu."""
    return _alike(builder.put(Relu(inputs=(a["self"].name,), output=builder.new_name())), a["self"])


def gelu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.gelu."""
    return put_function(builder, a["self"], "gelu" if a["approximate"] == "none" else "gelu_tanh")


def elu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.elu."""
    return _put_elu(builder, a["self"], a["alpha"], a["scale"], a["input_scale"])


def selu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.selu: a scaled ELU."""
    return _put_elu(builder, a["self"], 1.6732632423543772, 1.0507009873554805)


def celu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.celu: an ELU whose slope at 0 is 1."""
    return _put_elu(builder, a["self"], a["alpha"], input_scale=1 / a["alpha"])


def _put_elu(builder: Builder, x: Value, alpha: float, scale: float = 1, input_scale: float = 1) -> Value:
    """Add scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))."""
    inner = put_function(builder, _times(builder, x, input_scale), "elu", float(alpha * input_scale))
    return _times(builder, inner, scale / input_scale)


def _times(builder: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else put_combination(builder, "multiply", x, factor)


def rrelu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.rrelu in evaluation mode: a leaky ReLU with the mean slope."""
    if a["training"]:
        raise ValueError("random slopes are not possible")
    return put_function(builder, a["self"], "leaky_relu", (a["lower"] + a["upper"]) / 2)


def prelu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.prelu: relu(x) - slope relu(-x)."""
    x: Value = a["self"]
    slope = constant(a["weight"], "the slope").tensor
    if slope.numel() > 1:
        slope = slope.reshape(-1, *[1] * (x.rank - 2))
    positive = relu(builder, {"self": x}, shape)
    below = relu(builder, {"self": put_combination(builder, "multiply", x, -1)}, shape)
    negative = put_combination(builder, "multiply", below, Constant(-slope, "a slope"))
    return put_combination(builder, "add", positive, negative)


def glu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.glu: half of a value times the sigmoid of the other."""
    axis = a["self"].axis(a["dim"])
    half = a["self"].shape[axis] // 2
    first, second = (put_slice(builder, a["self"], axis, start, half) for start in (0, half))
    return put_combination(builder, "multiply", first, put_function(builder, second, "sigmoid"))


def vector_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.linalg_vector_norm: the root of a sum of squares."""
    if a["ord"] != 2:
        raise ValueError(f"only the norm of order 2 is possible, got {a['ord']}")
    squares = put_combination(builder, "multiply", a["self"], a["self"])
    summed: Value = reduction("sum")(builder, {**a, "self": squares}, shape)
    return put_function(builder, summed, "sqrt")


def variance(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.var: the mean of squared differences from the mean."""
    x: Value = a["self"]
    dimensions = [a["dim"]] if isinstance(a["dim"], int) else list(a["dim"] or range(x.rank))
    count = math.prod(x.shape[x.axis(dimension)] for dimension in dimensions)
    correction = a["correction"] if "correction" in a else int(a["unbiased"])
    center = reduction("mean")(builder, {"self": x, "dim": dimensions, "keepdim": True}, _kept(x, dimensions))
    apart = put_combination(builder, "subtract", x, center)
    squares = put_combination(builder, "multiply", apart, apart)
    found = reduction("mean")(builder, {**a, "self": squares, "dim": dimensions}, shape)
    correction = 1 if correction is None else correction
    return found if correction == 0 else put_combination(builder, "multiply", found, count / (count - correction))


def variance_and_mean(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> list[Value]:
    """Add aten.var_mean."""
    dimensions = list(a["dim"] or range(a["self"].rank))
    return [variance(builder, a, shape), reduction("mean")(builder, {**a, "dim": dimensions}, shape)]


def _kept(x: Value, dimensions: list[int]) -> tuple[int, ...]:
    gone = {dimension % x.rank for dimension in dimensions}
    return tuple(1 if place in gone else side for place, side in enumerate(x.torch_shape()))


def softplus(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.softplus: log(1 + exp(beta x)) / beta. Behind the usual threshold float32 does not tell it from x."""
    if a["threshold"] < 20:
        raise ValueError(f"the threshold of a softplus must be 20 or more, got {a['threshold']}")
    inner = put_function(builder, _times(builder, a["self"], a["beta"]), "softplus")
    return _times(builder, inner, 1 / a["beta"])


def log_sigmoid(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.log_sigmoid: -softplus(-x)."""
    return _times(builder, put_function(builder, _times(builder, a["self"], -1), "softplus"), -1)


def sign(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.sign: whether 0 < x less whether x < 0."""
    x = a["self"]
    return put_combination(
        builder, "subtract", put_combination(builder, "less", 0, x), put_combination(builder, "less", x, 0)
    )


def power(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.pow with an exponent that is a product or a root."""
    x, exponent = a["self"], a["exponent"]
    if exponent in (2, 3):
        square = put_combination(builder, "multiply", x, x)
        return square if exponent == 2 else put_combination(builder, "multiply", square, x)
    names = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if isinstance(x, Value) and exponent in names:
        return put_function(builder, x, names[exponent])
    raise ValueError(f"an exponent must be 2, 3 or one of {', '.join(map(str, names))}, got {exponent}")


def square(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.square."""
    return put_combination(builder, "multiply", a["self"], a["self"])


def relu6(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.relu6."""
    return clamp(builder, {**a, "min": 0, "max": 6}, shape)


def hardtanh(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.hardtanh, which nn.ReLU6 is, too."""
    return clamp(builder, {**a, "min": a["min_val"], "max": a["max_val"]}, shape)


def clamp(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.clamp, of ReLUs: min(x, c) = c - relu(c - x) and max(x, c) = c + relu(x - c).

    Larger bounds would cost digits, and are compared; so are all where the network has small numbers.
    """
    value: Value = a["self"]
    low, high = a.get("min"), a.get("max")
    bounds = [bound for bound in (low, high) if bound is not None]
    if bounds != sorted(bounds) or not all(map(math.isfinite, bounds)):
        raise ValueError(f"the bounds of a clamp must rise and be finite, got {bounds}")
    if builder.exact or max(map(abs, bounds)) > LARGEST_BOUND:
        for name, bound in (("maximum", low), ("minimum", high)):
            value = value if bound is None else put_combination(builder, name, value, bound)
        return value

    def shift(x: Value, bound: float) -> Value:
        return put_combination(builder, "add", x, bound) if bound else x

    def reflect(x: Value) -> Value:
        return put_combination(builder, "subtract", high, x)

    if high is not None:  # the first: where low is 0, all that is left of it is a ReLU, which goes into another node
        value = reflect(relu(builder, {"self": reflect(value)}, shape))
    if low is not None:
        value = shift(relu(builder, {"self": shift(value, -low)}, shape), low)
    return value


def clamp_by_tensors(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.clamp with bounds that are tensors."""
    value = a["self"]
    if not isinstance(value, Value):
        raise ValueError("what is clamped must depend on the inputs")
    for name, bound in (("maximum", a.get("min")), ("minimum", a.get("max"))):
        value = value if bound is None else put_combination(builder, name, value, bound)
    return value


def combination(name: str) -> Call:
    """Return the function that adds a sum, a product and the like of two values, or of one and a constant."""

    def put(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
        if a.get("rounding_mode") is not None:
            raise ValueError(f"a division must not be rounded, got {a['rounding_mode']}")
        return put_combination(builder, name, a["self"], a["other"], a.get("alpha", 1))

    return put


def subtract_from(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.rsub: y - alpha x."""
    return put_combination(builder, "subtract", a["other"], a["self"], a.get("alpha", 1))


def negate(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.neg."""
    return put_combination(builder, "multiply", a["self"], -1)


def put_combination(builder: Builder, name: str, x: Any, y: Any, factor: float = 1) -> Value:
    """Add a combination of x and factor * y, of which one at least is a value."""
    if isinstance(x, Value) and isinstance(y, Value):
        if factor != 1:
            y = put_combination(builder, "multiply", y, factor)
        return _combine_values(builder, name, x, y)
    value, given = (x, y) if isinstance(x, Value) else (y, x)
    numbers = as_constant(given, value)
    if (
        numbers.size > 1
        and np.all(numbers == numbers.flat[0])
        and np.broadcast_shapes(numbers.shape, value.shape) == value.shape
    ):
        numbers = numbers.flat[:1].reshape(())
    if factor != 1 and isinstance(x, Value):
        numbers = factor * numbers
    scale_shift = _as_affine(name, numbers, factor, first=isinstance(x, Value))
    if scale_shift is not None:
        channels = _channels(builder, value, numbers)
        if channels is not None:
            return channels(*scale_shift)
    if factor != 1 and isinstance(y, Value):
        value = put_combination(builder, "multiply", y, factor)
    return _combine_with_literal(builder, name, value, numbers, first=isinstance(x, Value))


def _combine_values(builder: Builder, name: str, x: Value, y: Value) -> Value:
    if (x.rank - x.batch, x.merged) != (y.rank - y.batch, y.merged):
        raise ValueError(
            f"two values must have their batch in one place, {x.torch_shape()} and {y.torch_shape()} have it in others"
        )
    if x.shape == y.shape and builder.shapes[x.name] == builder.shapes[y.name]:  # their form in memory does not matter
        inputs: tuple[str, ...] = (x.name, y.name)
    else:
        inputs = (builder.use(x), builder.use(y))
    output = builder.new_name()
    if name == "add" and builder.shapes[inputs[0]] == builder.shapes[inputs[1]]:
        found = builder.put(Add(inputs=inputs, output=output, relu=False))
    else:
        found = builder.put(Combine(inputs=inputs, output=output, function=name))
    if x.shape == y.shape:
        return _alike(found, x)
    wider = max(x, y, key=lambda value: value.rank)
    return Value(found.name, found.shape, wider.batch, wider.merged)


def _combine_with_literal(builder: Builder, name: str, x: Value, numbers: Array, *, first: bool) -> Value:
    numbers = numbers.astype(np.float32)
    if numbers.size == 1:
        numbers, used = numbers.reshape(()), x.name
    else:
        used = builder.use(x)
    other = builder.literal(numbers)
    inputs = (used, other) if first else (other, used)
    found = builder.put(Combine(inputs=inputs, output=builder.new_name(), function=name))
    return _alike(found, x) if numbers.size == 1 else Value(found.name, found.shape, x.batch, x.merged)


def _as_affine(name: str, numbers: Array, factor: float, *, first: bool) -> tuple[Array | None, Array | None] | None:
    """Return the scale and the shift that combine a value with a constant; None if nothing does."""
    if name == "add":
        return (None, numbers) if first or factor == 1 else (np.full_like(numbers, factor), numbers)
    if name == "subtract":
        return (None, -numbers) if first else (np.full_like(numbers, -factor), numbers)
    if name == "multiply":
        return numbers, None
    return (1 / numbers, None) if name == "divide" and first and np.all(numbers) else None


def _channels(builder: Builder, x: Value, numbers: Array) -> Callable[..., Value] | None:
    """Return what scales and shifts a value by one number per channel of a map or of a flat value.

    None if the numbers differ inside of a channel, or the value is neither.
    """
    if numbers.size == 1:
        stored = builder.shapes[x.name]
        if builder.sized or len(stored) not in (1, 3) or _is_of_linear(builder, x.name):
            return None
        whole = Value(x.name, stored)
        return lambda scale, shift: _alike(put_affine(builder, whole, _all(scale, stored), _all(shift, stored)), x)
    if _is_of_linear(builder, x.name) and builder.shapes[x.name] == x.shape:
        return None
    if x.batch or x.merged or len(x.shape) not in (1, 2, 3) or np.broadcast_shapes(numbers.shape, x.shape) != x.shape:
        return None
    rows = np.broadcast_to(numbers, x.shape).reshape(x.shape[0], -1)
    if not np.all(rows == rows[:, :1]):
        return None

    def per_channel(part: Array | None) -> Array | None:
        return None if part is None else np.broadcast_to(part, x.shape).reshape(x.shape[0], -1)[:, 0].copy()

    return lambda scale, shift: put_affine(builder, x, per_channel(scale), per_channel(shift))


def _is_of_linear(builder: Builder, name: str) -> bool:
    """Return whether a value of more than one axis comes from a linear layer, whose channels are the last axis."""
    maker = next((node for node in builder.nodes if node.output == name), None)
    return isinstance(maker, Linear) and len(builder.shapes[name]) > 1


def _all(part: Array | None, shape: tuple[int, ...]) -> Array | None:
    return None if part is None else np.full(shape[0], part.reshape(-1)[0])


def masked_fill(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.masked_fill: x (1 - mask) + value mask."""
    return where(builder, {"condition": a["mask"], "self": a["value"], "other": a["self"]}, shape)


def where(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.where: x mask + y (1 - mask), where minus infinity is the lowest number that there is."""
    mask = a["condition"]
    if isinstance(mask, Constant):
        mask = Constant(mask.tensor.double(), "a mask")
        shares: tuple[Any, Any] = (mask, Constant(1 - mask.tensor, "a mask"))
    else:
        shares = (mask, put_combination(builder, "subtract", 1, mask))
    terms: list[Any] = []
    for part, share in zip((a["self"], a["other"]), shares, strict=True):
        if not isinstance(part, Value):
            number = part.tensor if isinstance(part, Constant) else torch.tensor(float(part))
            part = Constant(number.double().clamp(LOWEST, -LOWEST), "a mask")
        if isinstance(part, Constant) and isinstance(share, Constant):
            terms.append(Constant(share.tensor * part.tensor, "a mask"))
        else:
            terms.append(put_combination(builder, "multiply", part, share))
    return put_combination(builder, "add", *terms)


def comparison(name: str, *, swap: bool = False, opposite: bool = False) -> Call:
    """Return the function that adds aten.eq, aten.lt, ..., also with x and y in each other's place, or the opposite."""

    def put(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
        x, y = (a["other"], a["self"]) if swap else (a["self"], a["other"])
        found = put_combination(builder, name, x, y)
        return put_combination(builder, "subtract", 1, found) if opposite else found

    return put


def both(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.logical_and: a product; where one is true throughout it is the other."""
    x, y = a["self"], a["other"]
    for given, other in ((x, y), (y, x)):
        if isinstance(given, Constant) and bool(given.tensor.all()):
            return expand(builder, {"self": other}, shape)
    return put_combination(builder, "multiply", x, y)


def denial(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.logical_not."""
    return put_combination(builder, "subtract", 1, a["self"])


LONGEST_SUM = 4096
"""The most places of a cumulative sum, which is a product with a triangle."""


def cumulative_sum(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.cumsum: a product with a triangle of ones."""
    x: Value = a["self"]
    axis = x.axis(a["dim"])
    side = x.shape[axis]
    if side > LONGEST_SUM:
        raise ValueError(f"a cumulative sum may have {LONGEST_SUM} places, got {side}")
    order = [place for place in range(len(x.shape)) if place != axis] + [axis]
    rows = reorder(builder, x, order)
    if len(x.shape) == 1:
        rows = Value(rows.name, (1, side))
    triangle = builder.literal(np.triu(np.ones((side, side), np.float32)))
    found = builder.put(MatMul(inputs=(builder.use(rows), triangle), output=builder.new_name()))
    back = reorder(builder, Value(found.name, tuple(x.shape[place] for place in order)), np.argsort(order).tolist())
    return Value(back.name, x.shape, x.batch, x.merged)


def einsum(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.einsum of two tensors: a product of matrices, whose dimensions are put in order before and after."""
    equation, tensors = a["equation"].replace(" ", ""), a["tensors"]
    terms, _, wanted = equation.partition("->")
    first, _, second = terms.partition(",")
    letters = first + second + wanted
    sums = set(first) & set(second) - set(wanted)
    plain = len(tensors) == 2 and "->" in equation and "," in terms and letters.isalpha()
    if (
        not plain
        or any(len(set(term)) < len(term) for term in (first, second, wanted))
        or set(terms) - {","} - sums != {*wanted}
    ):
        raise ValueError(
            "an einsum must be a product of two tensors, whose letters are all in the result or in both, got "
            f"{equation}"
        )
    both_have = [letter for letter in wanted if letter in first and letter in second]
    left = [letter for letter in wanted if letter in first and letter not in second]
    right = [letter for letter in wanted if letter in second and letter not in first]
    inner = [letter for letter in first if letter in sums]
    sides: dict[str, int] = {}
    for term, tensor in zip((first, second), tensors, strict=True):
        sides |= dict(
            zip(term, tensor.torch_shape() if isinstance(tensor, Value) else tensor.tensor.shape, strict=True)
        )

    def size(group: list[str]) -> int:
        return math.prod(sides[letter] for letter in group)

    def matrices(term: str, tensor: Value | Constant, *groups: list[str]) -> Value | Constant:
        order = [term.index(letter) for group in (both_have, *groups) for letter in group]
        whole = (*(sides[letter] for letter in both_have), *map(size, groups))
        if isinstance(tensor, Constant):
            return Constant(tensor.tensor.permute(order).reshape(whole), tensor.name)
        return view_of(permute(builder, {"self": tensor, "dims": order}, whole), whole)

    found = product(
        builder,
        {"self": matrices(first, tensors[0], left, inner), "mat2": matrices(second, tensors[1], inner, right)},
        (),
    )
    made = [*both_have, *left, *right]
    apart = view_of(found, tuple(sides[letter] for letter in made))
    return permute(builder, {"self": apart, "dims": [made.index(letter) for letter in wanted]}, shape)


def sum_with_product(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.addcmul: z + factor x y."""
    x, y = a["tensor1"], a["tensor2"]
    if isinstance(x, Constant) and isinstance(y, Constant):
        found: Any = Constant(x.tensor * y.tensor * a["value"], x.name)
        return put_combination(builder, "add", a["self"], found)
    return put_combination(builder, "add", a["self"], put_combination(builder, "multiply", x, y), a["value"])


def shifted_batch_product(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.baddbmm: beta z + alpha x y."""
    found = product(builder, {"self": a["batch1"], "mat2": a["batch2"]}, shape)
    if a["alpha"] != 1:
        found = put_combination(builder, "multiply", found, a["alpha"])
    return put_combination(builder, "add", found, a["self"], a["beta"]) if a["beta"] else found


def product(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.mm, aten.bmm and aten.matmul; with a constant matrix a linear layer of a weight (inputs, outputs)."""
    x, y = a["self"], a["mat2"] if "mat2" in a else a["other"]
    if isinstance(y, Constant):
        if y.tensor.dim() == 2:
            return put_linear(builder, x, y, y.tensor.T, None)
        if y.tensor.dim() < 2:
            raise ValueError(f"the second factor of a product must be a matrix, got {tuple(y.tensor.shape)}")
    for value in (x, y):
        if isinstance(value, Value) and value.rank - value.batch < 3:
            raise ValueError(f"factors of a product must be matrices for each input, got {value.torch_shape()}")
    first, second = _factor(builder, x, y), _factor(builder, y, x)
    wider = max((value for value in (x, y) if isinstance(value, Value)), key=lambda value: value.rank)
    found = builder.put(MatMul(inputs=(first, second), output=builder.new_name()))
    return Value(found.name, found.shape, wider.batch, wider.merged)


def _factor(builder: Builder, x: Any, other: Any) -> str:
    if isinstance(x, Value):
        if isinstance(other, Value) and (x.rank - x.batch, x.merged) != (other.rank - other.batch, other.merged):
            raise ValueError(
                f"factors must have their batch in one place, got {x.torch_shape()} and {other.torch_shape()}"
            )
        return builder.use(x)
    return builder.literal(without_batch(x, other).astype(np.float32))


def softmax(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.softmax."""
    x: Value = a["self"]
    node = Softmax(inputs=(builder.use(x),), output=builder.new_name(), axis=x.axis(a["dim"]))
    return _alike(builder.put(node), x)


def log_softmax(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.log_softmax: y - log(sum(exp(y))) with y = x - max(x), whose exponentials cannot overflow."""
    x, dimensions = a["self"], [a["dim"]]
    along, kept = {"dim": dimensions, "keepdim": True}, _kept(x, dimensions)
    y = put_combination(builder, "subtract", x, reduction("max")(builder, {"self": x, **along}, kept))
    total = reduction("sum")(builder, {"self": put_function(builder, y, "exp"), **along}, kept)
    return put_combination(builder, "subtract", y, put_function(builder, total, "log"))


def log_sum_exp(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.logsumexp: max(x) + log(sum(exp(x - max(x))))."""
    x: Value = a["self"]
    dimensions = list(a["dim"])
    largest = reduction("max")(builder, {"self": x, "dim": dimensions, "keepdim": True}, _kept(x, dimensions))
    powers = put_function(builder, put_combination(builder, "subtract", x, largest), "exp")
    total = reduction("sum")(builder, {**a, "self": powers}, shape)
    return put_combination(builder, "add", reduction("max")(builder, a, shape), put_function(builder, total, "log"))


def attention(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.scaled_dot_product_attention."""
    given = (a["query"], a["key"], a["value"])
    first = next((part for part in given if isinstance(part, Value)), None)
    if first is None or first.rank - first.batch < 3:
        raise ValueError("queries, keys or values must depend on the inputs and have places and features")
    if a["dropout_p"]:
        raise ValueError("dropout that is on in evaluation mode is not possible")
    q, k, v = (_as_value(builder, part, first) for part in given)
    for part in (q, k, v):
        if (part.batch, part.merged) != (first.batch, first.merged):
            raise ValueError("queries, keys and values must have the batch in one place")
    if a["enable_gqa"]:
        k, v = (_repeat_heads(builder, part, q.shape[-3]) for part in (k, v))
    leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (_expand_to(builder, part, (*leading, *part.shape[-2:])) for part in (q, k, v))
    inputs = [builder.use(part) for part in (q, k, v)]
    mask = a["attn_mask"]
    if isinstance(mask, Constant):
        numbers = (
            torch.where(mask.tensor, 0.0, LOWEST) if mask.tensor.dtype == torch.bool else mask.tensor.clamp(min=LOWEST)
        )
        scores = Value("scores", (*q.shape[:-1], k.shape[-2]), q.batch, q.merged)
        inputs.append(builder.literal(as_constant(Constant(numbers, mask.name), scores).astype(np.float32)))
    elif mask is not None:
        if (mask.rank - mask.batch, mask.merged) != (q.rank - q.batch, q.merged):
            raise ValueError(f"a mask {mask.torch_shape()} must have its batch where scores have it")
        if mask.name in builder.truth:  # 0 where it is true, and what stands for minus infinity elsewhere
            mask = put_combination(builder, "multiply", put_combination(builder, "subtract", mask, 1), -LOWEST)
        inputs.append(builder.use(mask))
    scale = 1 / math.sqrt(q.shape[-1]) if a["scale"] is None else a["scale"]
    node = Attention(inputs=tuple(inputs), output=builder.new_name(), scale=scale, causal=a["is_causal"])
    found = builder.put(node)
    return Value(found.name, found.shape, q.batch, q.merged)


def _as_value(builder: Builder, given: Value | Constant, like: Value) -> Value:
    """Return a constant as a value with its batch where another has it."""
    if isinstance(given, Value):
        return given
    name = builder.literal(without_batch(given, like).astype(np.float32))
    return Value(name, builder.shapes[name], like.batch, like.merged)


def _expand_to(builder: Builder, x: Value, sides: tuple[int, ...]) -> Value:
    """Return a value whose axes of one place are repeated."""
    if x.shape == sides:
        return x
    found = builder.put(Expand(inputs=(builder.use(x),), output=builder.new_name(), sides=sides))
    return Value(found.name, sides, x.batch, x.merged)


def _repeat_heads(builder: Builder, x: Value, heads: int) -> Value:
    *before, own, places, features = x.shape
    if own == heads:
        return x
    inner = Value(x.name, (*before, own, 1, places, features))
    sides = (*before, own, heads // own, places, features)
    wide = builder.put(Expand(inputs=(builder.use(inner),), output=builder.new_name(), sides=sides))
    return Value(wide.name, (*before, heads, places, features), x.batch, x.merged)


def identity(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Return the input of a copy, or of dropout in evaluation mode."""
    if a.get("train"):
        raise ValueError("dropout that is on in evaluation mode is not possible")
    same: Value = a["self"] if "self" in a else a["input"]
    wanted = a.get("dtype")
    if wanted is None or (wanted == torch.bool and same.name in builder.truth):
        return same
    if wanted == torch.bool:
        return put_combination(builder, "subtract", 1, put_combination(builder, "equal", builder.real(same), 0))
    if wanted == torch.float32:
        return builder.real(same)
    if wanted.is_floating_point or wanted.is_complex or same.name not in builder.integers | builder.whole:
        raise ValueError(f"values are float32, got {wanted}")
    return same


def view(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Return the same numbers in another shape."""
    return view_of(identity(builder, a, shape), shape)
