"""Fewer nodes that compute the same: scales, shifts, ReLUs and sums go into the layer before them.

Every rule takes a node together with the one that makes its input, where nobody else uses that.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from adaste.packed.nodes import Add, Affine, Epilogue, MaxPool, Node, Relu

Sole = Callable[[str], Node | None]
"""The node that makes a value, if that has one user and is not the output."""

Change = tuple[Node, list[Node]]
"""A node that goes, and what takes the place of the one that was looked at."""


def fold(nodes: Sequence[Node], output: str) -> tuple[Node, ...]:
    """Return nodes that compute `output` as the given ones do, with as much as possible in each."""
    folded = list(nodes)
    sole, place = _find_sole(folded, output), 0
    while place < len(folded):
        change = next((found for rule in RULES if (found := rule(folded[place], sole)) is not None), None)
        if change is None:
            place += 1
            continue
        gone, instead = change
        folded[place : place + 1] = instead
        folded.remove(gone)
        sole, place = _find_sole(folded, output), place - 1
    return tuple(folded)


def _find_sole(nodes: list[Node], output: str) -> Sole:
    uses = Counter([name for node in nodes for name in node.inputs] + [output, output])
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
