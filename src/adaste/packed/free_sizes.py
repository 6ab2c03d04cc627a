"""Free sizes: a model is traced with several; numbers of nodes that differ, and sides of values, follow from them."""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor, nn

from adaste.packed.graph import FREE_FIELDS, Graph, Size
from adaste.packed.nodes import AveragePool, Concatenate, Convolution, Flatten, Linear, MaxPool, Node, Pool
from adaste.packed.tensor_nodes import (
    Attention,
    Embedding,
    Expand,
    Literal,
    MatMul,
    Pad,
    Reduce,
    Reshape,
    Resize,
    Slice,
    Spread,
    Transpose,
)
from adaste.packed.trace import Example, Traced, trace

Free = Mapping[str, Mapping[int, str]]
"""Sizes that may be smaller than in an example: names, or multiples of them, by inputs and dimensions."""


def parse_free(free: Free, named: Mapping[str, Tensor]) -> tuple[Size, ...]:
    """Return the sides of inputs that are free."""
    found = []
    for name, dimensions in free.items():
        if name not in named:
            raise ValueError(f"free has the input {name!r}, example has {', '.join(named)}")
        for dimension, text in dimensions.items():
            match = re.fullmatch(r"(?:(\d+) *\* *)?([A-Za-z]\w*)", text)
            if match is None or not 1 <= dimension < named[name].dim():
                raise ValueError(
                    "free must be names, or multiples as '32*height', by dimensions from 1 on (0 is the batch, which "
                    f"is always free), got {text!r} for dimension {dimension} of {name}"
                )
            at = (name, "shape", dimension - 1)
            found.append(Size(at=at, of=(match[2],), times=int(match[1] or 1), plus=0))
    return tuple(found)


FEWEST = 4
"""The least that a free size of the example may be: it is traced with smaller ones."""


def largest_sizes(places: Sequence[Size], named: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the free sizes of the example."""
    found: dict[str, int] = {}
    for size in places:
        name, _, place = size.at
        side = named[name].shape[1 + (place or 0)]
        number, rest = divmod(side, size.times)
        (free,) = size.of
        if rest or number < FEWEST or found.setdefault(free, number) != number:
            raise ValueError(
                f"the example must have the largest sizes: {free} at least {FEWEST} and everywhere the same, here "
                f"{size.times} times, got {side} in {name}"
            )
    return found


def choose_probes(largest: dict[str, int]) -> list[dict[str, int]]:
    """Return the free sizes to trace a model with, the largest first: each changes alone, and all change together."""
    alone = [{**largest, name: most - 1} for name, most in largest.items()] if len(largest) > 1 else []
    together = [
        {name: max(1, most - 1 - step * place) for place, (name, most) in enumerate(largest.items(), start=1)}
        for step in (0, 1)
    ]
    half = {name: -(-most // 2) for name, most in largest.items()}
    probes: list[dict[str, int]] = []
    for probe in (largest, *alone, *together, half):
        if probe not in probes:
            probes.append(probe)
    return probes


def trace_cut(
    model: nn.Module,
    example: Example,
    named: Mapping[str, Tensor],
    places: Sequence[Size],
    free: Mapping[str, int],
    exact: bool,
) -> Traced:
    """Return the trace of a model with these free sizes. Raise ValueError where it fails at smaller ones."""
    try:
        return trace(model, _cut(example, named, places, free), exact=exact, sized=bool(places))
    except Exception as error:  # whatever the code of a model does
        if not places or free == largest_sizes(places, named):
            raise
        raise ValueError(_differs(f"it fails there, {next(iter(str(error).splitlines()), error)}", [free])) from error


def _cut(example: Example, named: Mapping[str, Tensor], places: Sequence[Size], free: Mapping[str, int]) -> Example:
    """Return the example with other free sizes: the begin of each."""
    if not places:
        return example
    found = dict(named)
    for size in places:
        name, _, place = size.at
        found[name] = found[name].narrow(1 + (place or 0), 0, size.number(free))
    if isinstance(example, Mapping):
        return found
    return next(iter(found.values())) if isinstance(example, Tensor) else tuple(found.values())


def merge(probes: Sequence[Mapping[str, int]], traces: Sequence[Traced]) -> tuple[Traced, tuple[Size, ...]]:
    """Return the largest of several traces, and the numbers of its nodes that follow from free sizes."""
    first = traces[0]
    nodes: list[Node] = []
    sizes: list[Size] = []
    shapes = [_shapes(traced) for traced in traces]
    if len({len(traced.nodes) for traced in traces}) > 1 or len({traced.outputs for traced in traces}) > 1:
        raise ValueError(_differs("it has other operations", probes))
    for alike in zip(*(traced.nodes for traced in traces), strict=True):
        node = alike[0]
        if any((type(other), other.inputs, other.output) != (type(node), node.inputs, node.output) for other in alike):
            raise ValueError(_differs(f"a {node.op} is another operation there", probes))
        if isinstance(node, Literal):
            nodes += _cut_literal([other for other in alike if isinstance(other, Literal)], probes, sizes)
        else:
            nodes.append(_merge_fields(alike, shapes, probes, sizes))
    return replace(first, nodes=tuple(nodes)), tuple(sizes)


Shapes = dict[str, tuple[int, ...]]


def _shapes(traced: Traced) -> Shapes:
    """Return the shapes of all values."""
    found = {given.name: given.shape for given in traced.inputs}
    for node in traced.nodes:
        found[node.output] = node.shape([found[name] for name in node.inputs])
    return found


def _differs(what: str, probes: Sequence[Mapping[str, int]]) -> str:
    said = ", ".join(f"{name} {number}" for name, number in probes[-1].items())
    return (
        f"the model computes something else at another size, such as {said}: {what}. Leave the size out of free, or "
        "let it change in larger steps, as '32*height'"
    )


def _merge_fields(
    alike: Sequence[Node], shapes: Sequence[Shapes], probes: Sequence[Mapping[str, int]], sizes: list[Size]
) -> Node:
    """Return the first of some nodes, whose other numbers follow from free sizes, which are added to `sizes`."""
    node = alike[0]
    for part in dataclasses.fields(node):
        values = [getattr(other, part.name) for other in alike]
        if all(np.array_equal(value, values[0]) for value in values):
            continue
        if part.name == "ceil":  # rounding up where it changes nothing
            node = replace(node, ceil=True)  # type: ignore[call-arg]
        elif isinstance(node, Pool) and part.name in ("kernel", "stride"):
            return _reduce_whole(alike, shapes, probes)
        elif isinstance(node, Resize) and part.name == "step":
            _check_steps(alike, shapes, probes)
        elif part.name in FREE_FIELDS:
            many = isinstance(values[0], tuple)
            columns = zip(*values, strict=True) if many else (values,)
            for place, numbers in enumerate(columns):
                if len(set(numbers)) > 1:
                    at = (node.output, part.name, place if many else None)
                    sizes.append(_fit(at, numbers, probes, node))
        else:
            raise ValueError(_differs(f"the {part.name} of a {node.op} differs", probes))
    return node


def _fit(
    at: tuple[str, str, int | None], numbers: Sequence[int], probes: Sequence[Mapping[str, int]], node: Node
) -> Size:
    """Return how some numbers follow from free sizes."""
    names = list(probes[0])
    for of in (*((name,) for name in names), *itertools.combinations_with_replacement(names, 2)):
        products = [math.prod(probe[name] for name in of) for probe in probes]
        other = next((place for place, product in enumerate(products) if product != products[0]), None)
        if other is None:
            continue
        times, rest = divmod(numbers[0] - numbers[other], products[0] - products[other])
        size = Size(at=at, of=of, times=times, plus=numbers[0] - times * products[0])
        if not rest and times > 0 and all(size.number(p) == n for p, n in zip(probes, numbers, strict=True)):
            return size
    raise ValueError(_differs(f"the {at[1]} of a {node.op} is no multiple of it", probes))


def _reduce_whole(alike: Sequence[Node], shapes: Sequence[Shapes], probes: Sequence[Mapping[str, int]]) -> Node:
    """Return the mean or the maximum over whole sides that pools are, whose windows differ."""
    node = alike[0]
    pools = [other for other in alike if isinstance(other, Pool)]
    maps = [known[pool.inputs[0]] for known, pool in zip(shapes, pools, strict=True)]
    whole = [
        axis
        for axis in (0, 1)
        if all(pool.kernel[axis] == shape[axis + 1] for pool, shape in zip(pools, maps, strict=True))
    ]
    others = [(pool.kernel[axis], pool.stride[axis]) for pool in pools for axis in (0, 1) if axis not in whole]
    if not whole or any(other != (1, 1) for other in others) or any(pool.padding != (0, 0) for pool in pools):
        raise ValueError(_differs(f"the windows of a {node.op} differ", probes))
    function = "max" if isinstance(node, MaxPool) else "mean"
    axes = tuple(axis + 1 for axis in whole)
    return Reduce(inputs=node.inputs, output=node.output, function=function, axes=axes, keep=True)


def _check_steps(alike: Sequence[Node], shapes: Sequence[Shapes], probes: Sequence[Mapping[str, int]]) -> None:
    """Raise ValueError unless steps that differ are those of a single pixel, for which they mean nothing."""
    for axis in (0, 1):
        resizes = [other for other in alike if isinstance(other, Resize)]
        sides = {known[other.inputs[0]][axis + 1] for known, other in zip(shapes, resizes, strict=True)}
        if len({other.step[axis] for other in resizes}) > 1 and sides != {1}:
            raise ValueError(_differs("the steps of a resize differ (with align_corners they do)", probes))


def _cut_literal(alike: Sequence[Literal], probes: Sequence[Mapping[str, int]], sizes: list[Size]) -> list[Node]:
    """Return the largest of some constants, and slices that make the others of it: their begins."""
    first = alike[0]
    whole = first.value.reshape(first.sides)
    for other in alike[1:]:
        begin = whole[tuple(slice(side) for side in other.sides)] if len(other.sides) == whole.ndim else whole
        if begin.shape != other.sides or not np.array_equal(begin.reshape(-1), other.value):
            raise ValueError(_differs("a constant is not the begin of that for the largest size", probes))
    axes = [axis for axis, sides in enumerate(zip(*(o.sides for o in alike), strict=True)) if len(set(sides)) > 1]
    names = [*(f"{first.output}.{axis}" for axis in axes), first.output]
    nodes: list[Node] = [replace(first, output=names[0])]
    for axis, before, name in zip(axes, names, names[1:], strict=False):
        cut = Slice(inputs=(before,), output=name, axis=axis, start=0, count=first.sides[axis], step=1)
        sizes.append(_fit((name, "count", None), [other.sides[axis] for other in alike], probes, cut))
        nodes.append(cut)
    return nodes


SideNames = tuple[str | None, ...]
"""For each side of a value a name if it follows from free sizes, empty where it has none; None if it is fixed."""

Fields = Mapping[str, Any]
"""The same for the numbers of a node's fields."""


def name_sides(graph: Graph) -> dict[str, SideNames]:
    """Return the names of the sides of all values that follow from free sizes; one name is one number everywhere."""
    rules = {size.at: size.formula for size in graph.sizes}

    def look_up(name: str, key: str, numbers: Any) -> Any:
        if isinstance(numbers, tuple):
            return tuple(rules.get((name, key, place)) for place in range(len(numbers)))
        return rules.get((name, key, None))

    found: dict[str, SideNames] = {given.name: look_up(given.name, "shape", given.shape) for given in graph.inputs}
    for node in graph.nodes:
        fields = {key: look_up(node.output, key, getattr(node, key, None)) for key in FREE_FIELDS}
        found[node.output] = SIDES.get(type(node), _as_inputs)(node, [found[name] for name in node.inputs], fields)
    return found


def _drop_names(sides: SideNames) -> SideNames:
    """Return sides that follow from these in a way that has no name."""
    return tuple(None if side is None else "" for side in sides)


def _align(values: Sequence[SideNames]) -> SideNames:
    """Return the sides of values of which those of 1 are repeated."""
    rank = max(len(sides) for sides in values)
    columns = zip(*((None,) * (rank - len(sides)) + sides for sides in values), strict=True)
    names = ({side for side in column if side is not None} for column in columns)
    return tuple(None if not found else found.pop() if len(found) == 1 else "" for found in names)


def _as_inputs(node: Node, inputs: Sequence[SideNames], fields: Fields) -> SideNames:
    return _align(inputs)


def _reduce_sides(node: Reduce, inputs: Sequence[SideNames], fields: Fields) -> SideNames:
    sides = [None if axis in node.axes else side for axis, side in enumerate(inputs[0])]
    return tuple(side for axis, side in enumerate(sides) if node.keep or axis not in node.axes)


def _pad_sides(node: Pad, inputs: Sequence[SideNames], fields: Fields) -> SideNames:
    rules = [pair != (None, None) for pair in zip(fields["before"], fields["after"], strict=True)]
    counts = [before or after for before, after in zip(node.before, node.after, strict=True)]
    sides = zip(inputs[0], rules, counts, strict=True)
    return tuple("" if free or (side is not None and more) else side for side, free, more in sides)


def _concatenate_sides(node: Concatenate, inputs: Sequence[SideNames], fields: Fields) -> SideNames:
    sides = _align(inputs)
    long = "" if any(each[node.axis] is not None for each in inputs) else None
    return (*sides[: node.axis], long, *sides[node.axis + 1 :])


def _product(node: MatMul, inputs: Sequence[SideNames], fields: Fields) -> SideNames:
    first, second = inputs
    return (*_align([first[:-2], second[:-2]]), first[-2], second[-1])


def _window_sides(node: Pool | Spread, inputs: Sequence[SideNames], fields: Fields) -> SideNames:
    return (inputs[0][0], *_drop_names(inputs[0][1:]))


SIDES: MappingProxyType[type[Node], Callable[[Any, Sequence[SideNames], Fields], SideNames]] = MappingProxyType(
    {
        Literal: lambda node, inputs, fields: (None,) * len(node.sides),
        Convolution: lambda node, inputs, fields: (None, *_drop_names(inputs[0][1:])),
        MaxPool: _window_sides,
        AveragePool: _window_sides,
        Spread: _window_sides,
        Linear: lambda node, inputs, fields: (*inputs[0][:-1], None),
        Flatten: lambda node, inputs, fields: (None if inputs[0] == (None,) * 3 else "",),
        Reduce: _reduce_sides,
        Reshape: lambda node, inputs, fields: fields["sides"],
        Expand: lambda node, inputs, fields: fields["sides"],
        Transpose: lambda node, inputs, fields: tuple(inputs[0][axis] for axis in node.axes),
        Slice: lambda node, inputs, fields: (
            *inputs[0][: node.axis],
            fields["count"],
            *inputs[0][node.axis + 1 :],
        ),
        Pad: _pad_sides,
        Resize: lambda node, inputs, fields: (inputs[0][0], *fields["size"]),
        MatMul: _product,
        Attention: lambda node, inputs, fields: (*inputs[0][:-1], inputs[2][-1]),
        Embedding: lambda node, inputs, fields: (*inputs[0], None),
        Concatenate: _concatenate_sides,
    }
)
"""The sides of what nodes compute that follow from free sizes; of others those of their inputs."""
