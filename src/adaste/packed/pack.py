"""From a model to a packed network: trace it, fold norms and scales into its layers, write one bit per weight."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
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
from adaste.packed.free_sizes import Free, choose_probes, largest_sizes, merge, parse_free, trace_cut
from adaste.packed.graph import Graph, Size
from adaste.packed.nodes import Add, Affine, Epilogue, MaxPool, Node, Relu, Weighted, pack_signs
from adaste.packed.onnx import to_onnx
from adaste.packed.torch_module import PackedNetwork
from adaste.packed.trace import Example, Traced, name_inputs

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
            pixels. (One tensor is the input "input".) The model is traced with several sizes. In ONNX, too, they are
            free.

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
    places = parse_free(free or {}, named)
    probes = choose_probes(largest_sizes(places, named))
    patterns = (float_layers,) if isinstance(float_layers, str) else tuple(float_layers)
    names = _other_names(model)

    def assemble(traced: Traced, sizes: tuple[Size, ...]) -> Graph:
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
            free=probes[0],
            sizes=tuple(replace(size, at=(renamed[size.at[0]], *size.at[1:])) for size in sizes),
        )

    for exact in (False, True):
        traces = [trace_cut(model, example, named, places, probe, exact) for probe in probes]
        merged, sizes = merge(probes, traces) if places else (traces[0], ())
        graph = assemble(merged, (*places, *sizes))
        found = (_find_difference(graph.at(probe), traced) for probe, traced in zip(probes, traces, strict=True))
        difference = next((each for each in found if each is not None), None)
        if difference is None:
            return graph
    raise ValueError(f"the packed network would not compute what the model does: {difference}")


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
            "are to stay real must be named in float_layers, or allow_float=True. One bit needs a single size per "
            "output, which the scales Unit, FanIn and ChannelMean have; linear layers may have one per group of "
            f"inputs, which GroupMean has from a size of {LEAST_GROUP} on"
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
    return f"the weights of its output {row} have sizes from {sizes[row].min():.6g} to {sizes[row].max():.6g}"


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


@torch.no_grad()
def _find_difference(graph: Graph, traced: Traced) -> str | None:
    """Return how the results differ, None if they agree: tracing can go wrong in unforeseen ways."""
    found = PackedNetwork(graph)(**traced.example)
    if isinstance(found, Tensor):
        found = {traced.outputs[0].name: found}
    for name, wanted in traced.results.items():
        wanted = wanted.float()  # truth is 0 and 1
        difference, size = (found[name] - wanted).abs().max().item(), wanted.abs().max().item()
        if not difference <= AGREEMENT * size:
            return (
                f"its {name} for the example differ by up to {difference:.3g}, the largest is {size:.3g}, and "
                f"{AGREEMENT * size:.3g} is allowed. Models that were not trained, or whose BatchNorm statistics do "
                "not fit, may enlarge errors of rounding as much: train it, and pack it within "
                "optimizer.binarized(model, statistics_from=loader)"
            )
    return None
