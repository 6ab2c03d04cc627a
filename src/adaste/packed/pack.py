"""From a model to a packed network: trace it, fold norms and scales into its layers, write one bit per weight."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

import adaste
from adaste._util.checks import matches, no_match
from adaste._util.files import write_atomically
from adaste.packed.aten_layers import LEAST_GROUP
from adaste.packed.format import to_bytes
from adaste.packed.graph import FREE_FIELDS, Graph, Size
from adaste.packed.nodes import Add, Affine, Epilogue, MaxPool, Node, Pool, Relu, Weighted, pack_signs
from adaste.packed.onnx import to_onnx
from adaste.packed.tensor_nodes import Literal, Reduce, Resize, Slice
from adaste.packed.torch_module import PackedNetwork
from adaste.packed.trace import Example, Traced, name_inputs, trace

Sole = Callable[[str], Node | None]
"""The node that makes a value, if that has one user and is not the output."""

Change = tuple[Node, list[Node]]
"""A node that goes, and what takes the place of the one that was looked at."""


def fold(nodes: Sequence[Node], *outputs: str) -> tuple[Node, ...]:
    """Return nodes that compute `outputs` as the given ones do, with as much as possible in each."""
    folded = list(nodes)
    sole, place = _find_sole(folded, outputs), 0
    while place < len(folded):
        change = next((found for rule in RULES if (found := rule(folded[place], sole)) is not None), None)
        if change is None:
            place += 1
            continue
        gone, instead = change
        folded[place : place + 1] = instead
        folded.remove(gone)
        sole, place = _find_sole(folded, outputs), place - 1
    return tuple(folded)


def _find_sole(nodes: list[Node], outputs: Sequence[str]) -> Sole:
    uses = Counter([*(name for node in nodes for name in node.inputs), *outputs, *outputs])
    makers = {node.output: node for node in nodes}
    return lambda name: makers.get(name) if uses[name] == 1 else None


def fold_affine(node: Node, sole: Sole) -> Change | None:
    """Fold a x + b into the layer before it: a (scale x + shift) + b = (a scale) x + (a shift + b)."""
    if not isinstance(node, Affine):
        return None
    layer = sole(node.inputs[0])
    if not _takes_more(layer):
        return None
    scale, shift = layer.scale, layer.shift
    if node.scale is not None:
        scale = node.scale if scale is None else scale * node.scale
        shift = None if shift is None else shift * node.scale
    if node.shift is not None:
        shift = node.shift if shift is None else shift + node.shift
    inputs = (*layer.inputs, *node.inputs[1:])
    return layer, [replace(layer, scale=scale, shift=shift, relu=node.relu, inputs=inputs, output=node.output)]


def fold_relu(node: Node, sole: Sole) -> Change | None:
    """Fold a ReLU into the layer, the scale or the sum before it."""
    if not isinstance(node, Relu):
        return None
    layer = sole(node.inputs[0])
    return (layer, [replace(layer, relu=True, output=node.output)]) if isinstance(layer, Epilogue | Add) else None


def fold_sum(node: Node, sole: Sole) -> Change | None:
    """Fold a sum into the layer that makes one of its terms; it moves to where the other term is known, too."""
    if not isinstance(node, Add):
        return None
    for name, other in (node.inputs, node.inputs[::-1]):
        layer = sole(name)
        if _takes_more(layer):
            return layer, [replace(layer, inputs=(*layer.inputs, other), relu=node.relu, output=node.output)]
    return None


def swap_with_max_pool(node: Node, sole: Sole) -> Change | None:
    """Move an increasing function before a max pool, where a layer can take it in: max f(x) = f(max x)."""
    if not isinstance(node, Affine | Relu) or len(node.inputs) > 1 or not _increases(node):
        return None
    pool = sole(node.inputs[0])
    if not isinstance(pool, MaxPool):
        return None
    layer = sole(pool.inputs[0])
    if not (_takes_more(layer) or (isinstance(node, Relu) and isinstance(layer, Epilogue | Add))):
        return None
    moved = replace(node, inputs=pool.inputs, output=pool.output)
    return pool, [moved, replace(pool, inputs=(moved.output,), output=node.output)]


def _takes_more(node: Node | None) -> TypeGuard[Epilogue]:
    """Return whether nothing comes behind its scale and shift yet."""
    return isinstance(node, Epilogue) and len(node.inputs) == 1 and not node.relu


def _increases(node: Affine | Relu) -> bool:
    return isinstance(node, Relu) or node.scale is None or bool(np.all(node.scale >= 0))


RULES = (fold_affine, fold_relu, swap_with_max_pool, fold_sum)


AGREEMENT = 0.01
"""The allowed difference, as a share of the largest logit: far above rounding, far below what a wrong node does."""

WRITERS: MappingProxyType[str, Callable[[Graph], bytes]] = MappingProxyType(
    {".safetensors": to_bytes, ".onnx": to_onnx}
)
"""Functions that make the content of a file, by the ending of its name."""


Free = Mapping[str, Mapping[int, str]]
"""Sizes that may be smaller than in an example: names, or multiples of them, by inputs and dimensions."""


def writer_for(path: Path) -> Callable[[Graph], bytes]:
    """Return the function that makes the content of a file of this name."""
    if path.suffix not in WRITERS:
        raise ValueError(f"{path} must end in .safetensors (one bit per weight) or .onnx: its ending is the format")
    return WRITERS[path.suffix]


def pack(
    model: nn.Module,
    example: Example,
    *,
    path: str | Path | None = None,
    classes: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    recipe: str | None = None,
    float_layers: str | Iterable[str] = (),
    allow_float: bool = False,
    free: Free | None = None,
) -> bytes:
    """Return the one-bit file of `model`, and write it to `path` if that is given; `adaste.load_packed` reads it.

    The model is packed as it computes in evaluation mode, in float32. The weights of its convolutions and linear layers
    must be binary, +-s per output, in linear layers also per group of inputs of an output:
    `with optimizer.binarized(model)` makes them so.

    Args:
        model: The network; its training mode and its weights stay as they are.
        example: Images (n, channels, height, width), normalised, of the size that the network is for; or whatever else
            the model takes, with the batch first: a tensor, a tuple of tensors, or a dict of them by name. Tokens are
            whole numbers.
        path: The file to write. Its name ends in `.safetensors`, or in `.onnx` for a file of ONNX in float32.
        classes: The names of the network's outputs.
        mean: The mean per channel of pixels in 0..1 with which its images are normalised.
        std: Their standard deviation.
        recipe: A name for the way it was trained.
        float_layers: Patterns of names of layers, or of their weights, that may be real; as `exclude` of
            `binary_weights`.
        allow_float: Let any layer be real.
        free: Sizes that may be smaller than in `example`, by input and dimension: `{"input_ids": {1: "length"}}`.
            Those of one name are the same. `{"input": {2: "32*height", 3: "32*width"}}` has images in steps of 32
            pixels. (One tensor is the input "input".) The model is traced with several sizes.

    Returns:
        The content of the file.

    Raises:
        ValueError: If a weight is not binary, an operation has no form in the file, the packed network would compute
            other logits for `example`, or the model computes something else at another size.
        NotWrittenError: If the file cannot be written.
    """
    write = to_bytes if path is None else writer_for(Path(path))
    graph = to_graph(
        model,
        example,
        classes=classes,
        mean=mean,
        std=std,
        recipe=recipe,
        float_layers="*" if allow_float else float_layers,
        free=free,
    )
    content = write(graph)
    if path is not None:
        write_atomically(Path(path), content)
    return content


def to_graph(
    model: nn.Module,
    example: Example,
    *,
    classes: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    recipe: str | None = None,
    float_layers: str | Iterable[str] = (),
    free: Free | None = None,
) -> Graph:
    """Return the network that `pack` writes."""
    named = name_inputs(model, example)
    places = _parse_free(free or {}, named)
    probes = _probe(_largest(places, named))
    for exact in (False, True):
        traces = [_trace_cut(model, example, named, places, probe, exact) for probe in probes]
        merged, sizes = _merge(probes, traces) if places else (traces[0], ())
        graph = _to_graph(model, merged, classes, mean, std, recipe, float_layers, probes[0], (*places, *sizes))
        found = (_find_difference(graph.at(probe), traced) for probe, traced in zip(probes, traces, strict=True))
        difference = next((each for each in found if each is not None), None)
        if difference is None:
            return graph
    raise ValueError(f"the packed network would not compute what the model does: {difference}")


def _to_graph(
    model: nn.Module,
    traced: Traced,
    classes: Sequence[str] | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
    recipe: str | None,
    float_layers: str | Iterable[str],
    free: Mapping[str, int],
    sizes: tuple[Size, ...],
) -> Graph:
    patterns = (float_layers,) if isinstance(float_layers, str) else tuple(float_layers)
    names = _other_names(model)
    outputs = tuple(output.value for output in traced.outputs)
    nodes, renamed = _rename(traced, fold(_pack_weights(traced, patterns, names), *outputs))
    first, *more = traced.inputs
    normalised = replace(
        first,
        mean=None if mean is None else tuple(map(float, mean)),
        std=None if std is None else tuple(map(float, std)),
    )
    return Graph(
        inputs=(normalised, *more),
        classes=None if classes is None else tuple(classes),
        recipe=recipe,
        producer=f"adaste {adaste.__version__}",
        nodes=nodes,
        results=tuple(replace(output, value=renamed[output.value]) for output in traced.outputs),
        free=free,
        sizes=tuple(replace(size, at=(renamed[size.at[0]], *size.at[1:])) for size in sizes),
    )


def _other_names(model: nn.Module) -> dict[str, list[str]]:
    """Return all names of a model's parameters by any of them: a shared one has several."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return {name: group for group in names.values() for name in group}


def _pack_weights(traced: Traced, float_layers: tuple[str, ...], names: dict[str, list[str]]) -> list[Node]:
    """Return the nodes with binary weights, except for layers that may be real and are."""
    real = _match(float_layers, {name: names.get(name, [name]) for name in traced.weights.values()})
    weights = traced.weights  # without the layers that operations of torch themselves are made of
    nodes: list[Node] = []
    refused = []
    for node in traced.nodes:
        layer = isinstance(node, Weighted) and node.output in weights
        packed = _pack_layer(node) if isinstance(node, Weighted) and layer else node
        if isinstance(node, Weighted) and packed is None and (name := weights[node.output]) not in real:
            refused.append(f"{name} is not binary: {_sizes_of(node)}")
        nodes.append(packed or node)
    if refused:
        raise ValueError(
            "\n  ".join(refused if len(refused) == 1 else [f"{len(refused)} weights have no form in bits:", *refused])
            + ". Pack inside `with optimizer.binarized(model):`, or export the run with `adaste export`; layers that "
            "are to stay real must be named in float_layers, or allow_float=True"
        )
    return nodes


def _pack_layer(node: Weighted) -> Node | None:
    """Return the layer with binary weights, or None if one bit each cannot hold them."""
    rows = node.weight.reshape(node.outputs, -1)
    sizes = np.abs(rows)
    scale = sizes[:, 0].astype(np.float64)
    if not np.all(sizes == sizes[:, :1]):
        return None
    bits = pack_signs(np.where(rows < 0, np.int8(-1), np.int8(1)))  # never 0, as in training
    return replace(node, weight=bits, kind="binary", scale=None if np.all(scale == 1) else scale)


def _sizes_of(node: Weighted) -> str:
    """Return why the weights of a layer are not binary."""
    sizes = np.abs(node.weight.reshape(node.outputs, -1))
    row = int(np.argmax(np.any(sizes != sizes[:, :1], axis=1)))
    return (
        f"the weights of its output {row} have sizes from {sizes[row].min():.6g} to {sizes[row].max():.6g}, where one "
        "bit needs a single size per output, which the scales Unit, FanIn and ChannelMean have; linear layers may have "
        f"one per group of inputs, which GroupMean has from a size of {LEAST_GROUP} on"
    )


def _match(patterns: tuple[str, ...], weights: dict[str, list[str]]) -> set[str]:
    """Return the weights of which a name, or that of a module around them, matches a pattern."""
    found: set[str] = set()
    for pattern in patterns:
        matched = {name for name, others in weights.items() if any(matches(pattern, other) for other in others)}
        if not matched:
            raise no_match("float_layers", pattern, [other for others in weights.values() for other in others])
        found |= matched
    return found


def _rename(traced: Traced, nodes: tuple[Node, ...]) -> tuple[tuple[Node, ...], dict[str, str]]:
    """Return the nodes with values that are numbered in the order of execution, and all new names."""
    taken = {given.name for given in traced.inputs}
    letter = next(letter for letter in "tuvwxyz" if not any(re.fullmatch(rf"{letter}\d+", name) for name in taken))
    names = {name: name for name in taken}
    names |= {node.output: f"{letter}{place}" for place, node in enumerate(nodes, start=1)}
    renamed = [replace(node, inputs=tuple(names[n] for n in node.inputs), output=names[node.output]) for node in nodes]
    return tuple(renamed), names


def _parse_free(free: Free, named: Mapping[str, Tensor]) -> tuple[Size, ...]:
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


def _largest(places: Sequence[Size], named: Mapping[str, Tensor]) -> dict[str, int]:
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


def _probe(largest: dict[str, int]) -> list[dict[str, int]]:
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


def _trace_cut(
    model: nn.Module,
    example: Example,
    named: Mapping[str, Tensor],
    places: Sequence[Size],
    free: Mapping[str, int],
    exact: bool,
) -> Traced:
    try:
        return trace(model, _cut(example, named, places, free), exact=exact, sized=bool(places))
    except Exception as error:  # whatever the code of a model does
        if not places or free == _largest(places, named):
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


def _merge(probes: Sequence[Mapping[str, int]], traces: Sequence[Traced]) -> tuple[Traced, tuple[Size, ...]]:
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
    for part in fields(node):
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


@torch.no_grad()
def _find_difference(graph: Graph, traced: Traced) -> str | None:
    """Return how the results differ, None if they agree: tracing can go wrong in unforeseen ways."""
    found = PackedNetwork(graph)(**traced.example)
    if isinstance(found, Tensor):
        found = {traced.outputs[0].name: found}
    for name, wanted in traced.results.items():
        difference, size = (found[name] - wanted).abs().max().item(), wanted.abs().max().item()
        if not difference <= AGREEMENT * size:
            return (
                f"its {name} for the example differ by up to {difference:.3g}, the largest is {size:.3g}, and "
                f"{AGREEMENT * size:.3g} is allowed. Models that were not trained, or whose BatchNorm statistics do "
                "not fit, may enlarge errors of rounding as much: train it, and pack it within "
                "optimizer.binarized(model, statistics_from=loader)"
            )
    return None
