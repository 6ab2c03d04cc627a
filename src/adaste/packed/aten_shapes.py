"""Operations of torch that move, choose and repeat numbers, as nodes: shapes, slices, places, sizes of images.

Each function takes the builder, the operation's arguments by the names of its schema, and the shape of its result, with
the batch.
"""

from typing import Any

import numpy as np
import torch

from adaste.packed.aten_layers import (
    as_map,
    constant,
    depth_to_space,
    pair,
    put_padding,
)
from adaste.packed.graph import BATCH, BEHIND, Arguments, Builder, Call, Constant, Value, value_of, view_of
from adaste.packed.nodes import Array, Concatenate
from adaste.packed.tensor_nodes import (
    Embedding,
    Expand,
    Resize,
    Slice,
    Transpose,
)

ROUNDING = 1e-5
"""How much what the model computes from constants alone may differ from input to input of a batch."""


def without_batch(given: Constant, x: Value) -> Array:
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


def as_constant(given: Any, x: Value) -> Array:
    """Return a constant that meets `x` in shape, without the batch. Raise ValueError if inputs would differ by it."""
    if not isinstance(given, Constant):
        return np.full((), float(given))
    numbers = without_batch(given, x)
    try:
        np.broadcast_shapes(numbers.shape, x.shape)
    except ValueError:
        raise ValueError(f"a constant {numbers.shape} does not fit a value {x.shape}") from None
    return numbers


def reorder(builder: Builder, x: Value, order: list[int]) -> Value:
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
    moved = reorder(builder, inner, [0, 2, 4, 1, 3])
    return view_of(moved, shape)


def joined_blocks(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Add aten.col2im (nn.Fold) of windows that do not overlap: channels become the pixels of each."""
    x: Value = a["self"]
    channels, height, width = shape[1:]
    kernel = _require_tiles(a, (channels, height, width))
    rows, columns = height // kernel[0], width // kernel[1]
    inner = Value(x.name, (channels, kernel[0], kernel[1], rows, columns))
    moved = reorder(builder, inner, [0, 3, 1, 4, 2])
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
        return view_of(parts[0], shape)
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


def padding(mode: str) -> Call:
    """Return the function that adds a padding of this mode."""
    return lambda builder, a, shape: pad(builder, {**a, "mode": mode}, shape)


def resize(*, linear: bool) -> Call:
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


def filled(number: float | None) -> Call:
    """Return the function for what only has the shape of a value: zeros, ones, or with None a given number."""

    def put(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Constant:
        return Constant(torch.full(tuple(shape), float(a["fill_value"] if number is None else number)), "a constant")

    return put
