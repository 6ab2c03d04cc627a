"""Operations of torch on tensors of any shape as nodes: arithmetic, functions, changes of shape, attention.

Each function takes the builder, the operation's arguments by the names of its schema, and the shape of its result, with
the batch.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from adaste.packed.aten_layers import (
    as_map,
    constant,
    depth_to_space,
    pair,
    put_affine,
    put_linear,
    put_padding,
    reduction,
)
from adaste.packed.graph import BATCH, BEHIND, Arguments, Builder, Constant, Value, value_of, view_of
from adaste.packed.nodes import Add, Array, Concatenate, Linear, Relu
from adaste.packed.tensor_nodes import (
    Attention,
    Combine,
    Embedding,
    Expand,
    Function,
    MatMul,
    Resize,
    Slice,
    Softmax,
    Transpose,
)

LARGEST_BOUND = 1024
"""The largest bound of a clamp that is made of ReLUs: its values are rounded like numbers of the size of its bounds."""

LOWEST = -3e38
"""What stands for minus infinity in masks: files hold finite numbers."""


def _alike(value: Value, x: Value) -> Value:
    """Return what was computed from the stored form of `x` as torch sees it."""
    return Value(value.name, x.shape, x.batch, x.merged)


def function(name: str, parameter: str | None = None) -> Callable[[Builder, Arguments, tuple[int, ...]], Value]:
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
    if (a["scale"], a["input_scale"]) != (1, 1):
        raise ValueError(f"the scales of an ELU must be 1, got {a['scale']} and {a['input_scale']}")
    return put_function(builder, a["self"], "elu", float(a["alpha"]))


def selu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.selu: a scaled ELU."""
    x = put_function(builder, a["self"], "elu", 1.6732632423543772)
    return put_combination(builder, "multiply", x, 1.0507009873554805)


def prelu(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.prelu: relu(x) - slope relu(-x)."""
    x: Value = a["self"]
    slope = constant(a["weight"], "the slope").tensor
    if slope.numel() > 1:
        slope = slope.reshape(-1, *[1] * (x.rank - 2))
    positive = relu(builder, {"self": x}, shape)
    negative = relu(builder, {"self": put_combination(builder, "multiply", x, -1)}, shape)
    turned = put_combination(builder, "multiply", negative, Constant(-slope, "a slope"))
    return put_combination(builder, "add", positive, turned)


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


def _kept(x: Value, dimensions: list[int]) -> tuple[int, ...]:
    gone = {dimension % x.rank for dimension in dimensions}
    return tuple(1 if place in gone else side for place, side in enumerate(x.torch_shape()))


def softplus(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.softplus."""
    if a["beta"] != 1:
        raise ValueError(f"beta of a softplus must be 1, got {a['beta']}")
    return put_function(builder, a["self"], "softplus")


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


def combination(name: str) -> Callable[[Builder, Arguments, tuple[int, ...]], Value]:
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


def as_constant(given: Any, x: Value) -> Array:
    """Return a constant that meets `x` in shape, without the batch. Raise ValueError if inputs would differ by it."""
    if not isinstance(given, Constant):
        return np.full((), float(given))
    numbers = _without_batch(given, x)
    try:
        np.broadcast_shapes(numbers.shape, x.shape)
    except ValueError:
        raise ValueError(f"a constant {numbers.shape} does not fit a value {x.shape}") from None
    return numbers


ROUNDING = 1e-5
"""How much what the model computes from constants alone may differ from input to input of a batch."""


def _without_batch(given: Constant, x: Value) -> Array:
    """Return a constant without the batch, which it has where `x` has it. Raise ValueError if inputs differ by it."""
    numbers = given.tensor.double().numpy()
    while numbers.ndim > x.rank and len(numbers) == 1:
        numbers = numbers[0]
    if numbers.ndim > x.rank:
        raise ValueError(f"a constant {numbers.shape} does not fit a value {x.torch_shape()}")
    place = x.batch - (x.rank - numbers.ndim)
    if place < 0:
        return numbers
    if numbers.shape[place] == 1:
        return numbers if x.merged else numbers.squeeze(place)
    whole = numbers.shape[place] % BATCH == 0 and x.merged != BEHIND
    parts = np.split(numbers, BATCH, place) if whole else []
    if not parts or not all(np.allclose(part, parts[0], rtol=0, atol=ROUNDING * np.abs(part).max()) for part in parts):
        raise ValueError(f"a constant {numbers.shape} must be the same for all inputs of a batch")
    return parts[0] if x.merged else parts[0].squeeze(place)


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


def comparison(name: str, *, turned: bool = False, denied: bool = False) -> Any:
    """Return the function that adds aten.eq, aten.lt, ...: x and y change places, or the truth is turned round."""

    def put(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
        x, y = (a["other"], a["self"]) if turned else (a["self"], a["other"])
        found = put_combination(builder, name, x, y)
        return put_combination(builder, "subtract", 1, found) if denied else found

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
    rows = _turned(builder, x, order)
    if len(x.shape) == 1:
        rows = Value(rows.name, (1, side))
    triangle = builder.literal(np.triu(np.ones((side, side), np.float32)))
    found = builder.put(MatMul(inputs=(builder.use(rows), triangle), output=builder.new_name()))
    back = _turned(builder, Value(found.name, tuple(x.shape[place] for place in order)), np.argsort(order).tolist())
    return Value(back.name, x.shape, x.batch, x.merged)


def _turned(builder: Builder, x: Value, order: list[int]) -> Value:
    """Return a value whose axes, without the batch, are in another order."""
    if order == sorted(order):
        return Value(x.name, x.shape)
    return builder.put(Transpose(inputs=(builder.use(x),), output=builder.new_name(), axes=tuple(order)))


def gather(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.gather of a constant row, as that of token types: the rows of a table with one number each."""
    if not isinstance(a["self"], Constant) or not isinstance(a["index"], Value):
        raise ValueError("numbers can be gathered from a constant by computed places alone")
    lines = a["self"].tensor.movedim(a["dim"], -1)
    line = lines.reshape(-1, lines.shape[-1])
    if not bool((line == line[:1]).all()):
        raise ValueError("what is gathered must be the same for all inputs of a batch, and along all other dimensions")
    return _rows_of(builder, line[0], a["index"], shape)


def _rows_of(builder: Builder, table: torch.Tensor, places: Value, shape: tuple[int, ...]) -> Value:
    """Add the numbers of a table at computed places; those before its last axes."""
    rows = Constant(table.reshape(len(table), -1).float(), "a table")
    found = embedding(builder, {"indices": places, "weight": rows}, shape)
    return view_of(found, shape)


MOST_PARTS = 64
"""Into how many slices a choice of places may fall."""


def index(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.index: constant places of one dimension, computed rows of a table, or all inputs with such places."""
    x, given = a["self"], a["indices"]
    used = [place for place, index in enumerate(given) if index is not None]
    if isinstance(x, Constant):
        if used == [0] and isinstance(given[0], Value):
            return _rows_of(builder, x.tensor, given[0], shape)
        raise ValueError("computed places must be those of the first dimension, and no others")
    if any(isinstance(given[place], Value) for place in used):
        raise ValueError("places must not depend on the image, but for the rows of a constant table")
    if len(used) == 2 and used[0] == x.batch and not x.merged and _is_of_batch(given[used[0]].tensor):
        used = used[1:]
    if len(used) != 1 or given[used[0]].tensor.dtype == torch.bool:
        raise ValueError("constant places can be those of one dimension beside the batch")
    places = given[used[0]].tensor
    if any(side > 1 for side in places.shape[:-1]):
        raise ValueError(f"constant places must be a row, got {tuple(places.shape)}")
    return view_of(_take(builder, x, x.axis(used[0]), places.flatten().tolist()), shape)


def _is_of_batch(places: torch.Tensor) -> bool:
    """Return whether these are all inputs of a batch, one behind the other in the first dimension."""
    return places.shape[0] == BATCH and places.flatten().tolist() == list(range(BATCH))


def index_select(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.index_select: aten.index of one dimension."""
    before: list[Any] = [None] * (a["dim"] % a["self"].rank if isinstance(a["self"], Value) else a["dim"])
    return index(builder, {"self": a["self"], "indices": [*before, a["index"]]}, shape)


def flip(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.flip: the places of an axis from the last on."""
    x: Value = a["self"]
    for dimension in a["dims"]:
        axis = x.axis(dimension)
        x = _take(builder, x, axis, list(range(x.shape[axis]))[::-1])
    return x


def _take(builder: Builder, x: Value, axis: int, places: list[int]) -> Value:
    """Add chosen places of an axis: slices, one behind the other."""
    side = x.shape[axis]
    places = [place % side for place in places]
    runs: list[list[int]] = []
    for place in places:
        run = runs[-1] if runs else []
        if run and place > run[-1] and (len(run) == 1 or place - run[-1] == run[1] - run[0]):
            run.append(place)
        else:
            runs.append([place])
    if len(runs) > MOST_PARTS:
        raise ValueError(f"a choice of places may fall into {MOST_PARTS} slices, got {len(runs)}")
    parts = [put_slice(builder, x, axis, run[0], len(run), run[1] - run[0] if len(run) > 1 else 1) for run in runs]
    if len(parts) == 1:
        return parts[0]
    node = Concatenate(inputs=tuple(map(builder.use, parts)), output=builder.new_name(), axis=axis)
    return Value(builder.put(node).name, _with_side(x, axis, len(places)).shape, x.batch, x.merged)


def windows(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.unfold: windows of an axis, whose places become the last dimension."""
    x: Value = a["self"]
    dimension, size, step = a["dimension"] % x.rank, a["size"], a["step"]
    axis = x.axis(dimension)
    count = (x.shape[axis] - size) // step + 1
    if size == step:
        whole = put_slice(builder, x, axis, 0, count * size)
        apart = view_of(whole, (*shape[:dimension], count, size, *shape[dimension + 1 : -1]))
        order = [place for place in range(x.rank + 1) if place != dimension + 1] + [dimension + 1]
        return permute(builder, {"self": apart, "dims": order}, shape)
    if min(size, count) > MOST_PARTS:
        raise ValueError(f"windows may be {MOST_PARTS}, or of {MOST_PARTS} places, got {count} of {size}")
    if size <= count:
        parts = [put_slice(builder, x, axis, place, count, step) for place in range(size)]
        return stack(builder, {"tensors": parts, "dim": x.rank}, shape)
    parts = [put_slice(builder, x, axis, place * step, size) for place in range(count)]
    together = stack(
        builder, {"tensors": parts, "dim": dimension}, (*shape[:dimension], count, *x.torch_shape()[dimension:])
    )
    order = [place for place in range(x.rank + 1) if place != dimension + 1] + [dimension + 1]
    return permute(builder, {"self": together, "dims": order}, shape)


def blocks(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.im2col (nn.Unfold) of windows that do not overlap: the pixels of each become channels."""
    x, kernel = as_map(a["self"]), _require_tiles(a, as_map(a["self"]).shape)
    channels, height, width = x.shape
    rows, columns = height // kernel[0], width // kernel[1]
    inner = Value(x.name, (channels, rows, kernel[0], columns, kernel[1]))
    moved = _turned(builder, inner, [0, 2, 4, 1, 3])
    return view_of(moved, shape)


def joined_blocks(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.col2im (nn.Fold) of windows that do not overlap: channels become the pixels of each."""
    x: Value = a["self"]
    channels, height, width = shape[1:]
    kernel = _require_tiles(a, (channels, height, width))
    rows, columns = height // kernel[0], width // kernel[1]
    inner = Value(x.name, (channels, kernel[0], kernel[1], rows, columns))
    moved = _turned(builder, inner, [0, 3, 1, 4, 2])
    return view_of(moved, shape)


def _require_tiles(a: Arguments, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the kernel of windows that lie side by side and cover a map. Raise ValueError for others."""
    kernel, stride = pair(a["kernel_size"]), pair(a["stride"])
    plain = (pair(a["dilation"]), pair(a["padding"])) == ((1, 1), (0, 0)) and kernel == stride
    if not plain or shape[1] % kernel[0] or shape[2] % kernel[1] or a["self"].batch or a["self"].merged:
        raise ValueError(
            f"windows must lie side by side and cover the map, got {a['kernel_size']} with steps of {a['stride']} in "
            f"{shape[1:]}"
        )
    return kernel


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
    return builder.literal(_without_batch(x, other).astype(np.float32))


def softmax(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.softmax."""
    x: Value = a["self"]
    node = Softmax(inputs=(builder.use(x),), output=builder.new_name(), axis=x.axis(a["dim"]))
    return _alike(builder.put(node), x)


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
    name = builder.literal(_without_batch(given, like).astype(np.float32))
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


def embedding(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.embedding."""
    x, table = a["indices"], constant(a["weight"], "the table").tensor
    inputs = (builder.use(x),)
    output = builder.new_name()
    node = Embedding(
        inputs=inputs, output=output, count=len(table), width=table.shape[1], weight=table.contiguous().numpy()
    )
    found = builder.put(node)
    return Value(found.name, found.shape, x.batch, x.merged)


def concatenate(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.cat; one value alone stays as it is, as in the first layers of a DenseNet."""
    parts = [part for part in a["tensors"] if isinstance(part, Value) or part.tensor.numel()]
    if len(parts) == 1:
        return view(builder, {"self": parts[0]}, shape)
    first = next(part for part in parts if isinstance(part, Value))
    axis = first.axis(a["dim"])
    inputs = []
    for part in parts:
        if isinstance(part, Constant):
            own = as_constant(part, _with_side(first, axis, part.tensor.shape[a["dim"]]))
            sides = (*first.shape[:axis], part.tensor.shape[a["dim"]], *first.shape[axis + 1 :])
            inputs.append(builder.literal(np.broadcast_to(own, sides).astype(np.float32)))
            continue
        if (part.rank, part.batch, part.merged) != (first.rank, first.batch, first.merged):
            raise ValueError("values can be concatenated if they have the batch in one place")
        inputs.append(builder.use(part))
    found = builder.put(Concatenate(inputs=tuple(inputs), output=builder.new_name(), axis=axis))
    return Value(found.name, found.shape, first.batch, first.merged)


def _with_side(x: Value, axis: int, side: int) -> Value:
    return Value(x.name, (*x.shape[:axis], side, *x.shape[axis + 1 :]), x.batch, x.merged)


def stack(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.stack."""
    place = a["dim"] % len(shape)
    parts: list[Any] = []
    for part in a["tensors"]:
        own = part.torch_shape() if isinstance(part, Value) else tuple(part.tensor.shape)
        wide = (*own[:place], 1, *own[place:])
        parts.append(view_of(part, wide) if isinstance(part, Value) else Constant(part.tensor.reshape(wide), part.name))
    return concatenate(builder, {"tensors": parts, "dim": place}, shape)


def roll(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.roll: the end of an axis before its begin."""
    x: Value = a["self"]
    for shift, dimension in zip(a["shifts"], a["dims"], strict=True):
        axis = x.axis(dimension)
        side = x.shape[axis]
        cut = -shift % side
        if cut:
            parts = [put_slice(builder, x, axis, cut, side - cut), put_slice(builder, x, axis, 0, cut)]
            x = concatenate(builder, {"tensors": parts, "dim": dimension}, shape)
    return x


def view(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Return the same numbers in another shape."""
    return view_of(identity(builder, a, shape), shape)


def permute(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.permute; the batch alone is moved without a node."""
    x: Value = a["self"]
    order = [dimension % x.rank for dimension in a["dims"]]
    batch = order.index(x.batch)
    axes = tuple(order) if x.merged else tuple(x.axis(dimension) for dimension in order if dimension != x.batch)
    if axes == tuple(range(len(axes))):
        return Value(x.name, x.shape, batch, x.merged)
    found = builder.put(Transpose(inputs=(builder.use(x),), output=builder.new_name(), axes=axes))
    return Value(found.name, found.shape, batch, x.merged)


def transpose(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.transpose, aten.swapaxes and aten.t: two dimensions change places."""
    order = list(range(a["self"].rank))
    first = a["dim0"] if "dim0" in a else a.get("axis0", 0)
    second = a["dim1"] if "dim1" in a else a.get("axis1", -1)
    order[first], order[second] = order[second], order[first]
    return permute(builder, {"self": a["self"], "dims": order}, shape)


def expand(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.expand."""
    x: Value = a["self"]
    if tuple(shape) == x.torch_shape():
        return x
    target = value_of("", tuple(shape), x.batch + len(shape) - x.rank)
    if target.merged != x.merged or (x.merged and target.shape[target.batch] != x.shape[x.batch]):
        raise ValueError(f"the batch cannot be repeated, {x.torch_shape()} to {tuple(shape)}")
    found = builder.put(Expand(inputs=(builder.use(x),), output=builder.new_name(), sides=target.shape))
    return Value(found.name, found.shape, target.batch, target.merged)


def repeat(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.repeat: a value several times along its dimensions."""
    x: Value = a["self"]
    repeats = a["repeats"]
    x = view_of(x, (*[1] * (len(repeats) - x.rank), *x.torch_shape()))
    for dimension, count in enumerate(repeats):
        if count > 1:
            x = concatenate(builder, {"tensors": [x] * count, "dim": dimension}, shape)
    return x


def put_slice(builder: Builder, x: Value, axis: int, start: int, count: int, step: int = 1) -> Value:
    """Add a part of an axis; all of it is the value itself."""
    if count == x.shape[axis]:
        return x
    node = Slice(inputs=(builder.use(x),), output=builder.new_name(), axis=axis, start=start, count=count, step=step)
    found = builder.put(node)
    return Value(found.name, found.shape, x.batch, x.merged)


def part(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value | Constant:
    """Add aten.slice."""
    x: Value = a["self"]
    if tuple(shape) == x.torch_shape():
        return x
    if 0 in shape:  # a model that turns all features leaves none over: nothing is concatenated then
        return Constant(torch.empty(shape), "nothing")
    axis = x.axis(a["dim"])
    start = a.get("start") or 0
    start = min(max(start + x.shape[axis] if start < 0 else start, 0), x.shape[axis])
    return put_slice(builder, x, axis, start, shape[a["dim"]], a.get("step") or 1)


def narrow(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.narrow."""
    return put_slice(builder, a["self"], a["self"].axis(a["dim"]), a["start"], a["length"])


def select(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.select: one place of a dimension, which goes."""
    x: Value = a["self"]
    axis = x.axis(a["dim"])
    chosen = put_slice(builder, x, axis, a["index"] % x.shape[axis], 1)
    return view_of(chosen, shape)


def parts(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> list[Value]:
    """Add aten.split and aten.chunk."""
    x: Value = a["self"]
    axis = x.axis(a["dim"])
    side = x.shape[axis]
    sizes = a.get("split_sizes") or a.get("split_size")
    if sizes is None:
        sizes = -(-side // a["chunks"])
    if isinstance(sizes, int):
        sizes = [min(sizes, side - start) for start in range(0, side, sizes)]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return [put_slice(builder, x, axis, start, size) for start, size in zip(starts, sizes, strict=True)]


def unbind(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> list[Value]:
    """Add aten.unbind: every place of a dimension."""
    side = a["self"].shape[a["self"].axis(a["dim"])]
    return [select(builder, {**a, "index": place}, shape) for place in range(side)]


def pad(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.pad, aten.constant_pad_nd and the other paddings."""
    x: Value = a["self"]
    counts = a["pad"] if "pad" in a else a["padding"]
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    before, after = [0] * len(x.shape), [0] * len(x.shape)
    for place in range(len(counts) // 2):
        if counts[2 * place] or counts[2 * place + 1]:
            axis = x.axis(-1 - place)
            before[axis], after[axis] = counts[2 * place], counts[2 * place + 1]
    found = put_padding(
        builder, x, tuple(before), tuple(after), modes[a.get("mode", "constant")], float(a.get("value") or 0)
    )
    return Value(found.name, found.shape, x.batch, x.merged)


def padding(mode: str) -> Callable[[Builder, Arguments, tuple[int, ...]], Value]:
    """Return the function that adds a padding of this mode."""
    return lambda builder, a, shape: pad(builder, {**a, "mode": mode}, shape)


def resize(*, linear: bool) -> Callable[[Builder, Arguments, tuple[int, ...]], Value]:
    """Return the function that adds an Upsample, of rows or maps."""

    def put(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
        given = a["self"] if "self" in a else a["input"]
        x = as_map(given)
        sizes = pair(shape[2:]) if len(shape) == 4 else (1, shape[2])
        factors = a.get("scale_factors") or [a.get("scales_h") or a.get("scales"), a.get("scales_w") or a.get("scales")]
        factors = [None, *factors][-2:]
        corners = bool(a.get("align_corners", False))
        steps = [
            (side - 1) / max(size - 1, 1) if corners else 1 / factor if factor else side / size
            for side, size, factor in zip(x.shape[1:], sizes, factors, strict=True)
        ]
        inputs = (builder.use(x),)
        node = Resize(
            inputs=inputs,
            output=builder.new_name(),
            size=sizes,
            step=(steps[0], steps[1]),
            linear=linear,
            corners=corners,
        )
        found = builder.put(node)
        return found if len(given.shape) == 3 else Value(found.name, (found.shape[0], found.shape[2]))

    return put


def pixel_shuffle(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.pixel_shuffle."""
    return depth_to_space(builder, as_map(a["self"]), (a["upscale_factor"],) * 2)


def pixel_unshuffle(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.pixel_unshuffle."""
    (channels, height, width), block = as_map(a["self"]).shape, a["downscale_factor"]
    inner = Value(a["self"].name, (channels, height // block, block, width // block, block))
    node = Transpose(inputs=(builder.use(inner),), output=builder.new_name(), axes=(0, 2, 4, 1, 3))
    return view_of(builder.put(node), shape)


def channel_shuffle(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.channel_shuffle: groups of channels one after the other become every so many channels."""
    x: Value = a["self"]
    channels, *rest = x.shape
    inner = Value(x.name, (a["groups"], channels // a["groups"], *rest))
    axes = (1, 0, *range(2, len(inner.shape)))
    return view_of(builder.put(Transpose(inputs=(builder.use(inner),), output=builder.new_name(), axes=axes)), shape)


def filled(number: float | None) -> Callable[[Builder, Arguments, tuple[int, ...]], Constant]:
    """Return the function for what only has the shape of a value: zeros, ones, or with None a given number."""

    def put(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Constant:
        return Constant(torch.full(tuple(shape), float(a["fill_value"] if number is None else number)), "a constant")

    return put


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
