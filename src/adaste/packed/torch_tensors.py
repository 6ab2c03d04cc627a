"""The operations of version 2 in torch: functions of a node, its tensors by name, and its inputs with the batch."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from adaste.packed.nodes import Node, Shape
from adaste.packed.tensor_nodes import (
    Attention,
    Combine,
    Embedding,
    Expand,
    Function,
    GroupNorm,
    LayerNorm,
    Literal,
    MatMul,
    Norm,
    Number,
    Pad,
    Reduce,
    Reshape,
    Resize,
    Slice,
    Softmax,
    Spread,
    Transpose,
)

Tensors = Mapping[str, Tensor | None]

_FUNCTIONS: MappingProxyType[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "abs": torch.abs,
        "erf": torch.erf,
        "exp": torch.exp,
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "hardsigmoid": F.hardsigmoid,
        "hardswish": F.hardswish,
        "log": torch.log,
        "mish": F.mish,
        "reciprocal": torch.reciprocal,
        "rsqrt": torch.rsqrt,
        "sigmoid": torch.sigmoid,
        "silu": F.silu,
        "softplus": F.softplus,
        "sqrt": torch.sqrt,
        "tanh": torch.tanh,
    }
)
_COMBINATIONS: MappingProxyType[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "add": torch.add,
        "divide": torch.div,
        "equal": lambda x, y: (x == y).to(x.dtype),
        "less": lambda x, y: (x < y).to(x.dtype),
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "multiply": torch.mul,
        "subtract": torch.sub,
    }
)
_REDUCTIONS: MappingProxyType[str, Callable[..., Tensor]] = MappingProxyType(
    {"max": torch.amax, "mean": torch.mean, "min": torch.amin, "sum": torch.sum}
)
_PADDINGS = MappingProxyType({"edge": "replicate", "reflect": "reflect", "wrap": "circular"})


def aligned(*inputs: Tensor) -> list[Tensor]:
    """Return values of one rank: axes of one place come behind the batch of those that have fewer."""
    rank = max(x.dim() for x in inputs)
    return [x.reshape(len(x), *[1] * (rank - x.dim()), *x.shape[1:]) for x in inputs]


def _literal(node: Literal, tensors: Tensors) -> Tensor:
    value = tensors["value"]
    assert value is not None
    return value.view(1, *node.sides)


def _function(node: Function, tensors: Tensors, x: Tensor) -> Tensor:
    if node.parameter is None:
        return _FUNCTIONS[node.function](x)
    return F.elu(x, node.parameter) if node.function == "elu" else F.leaky_relu(x, node.parameter)


def _combine(node: Combine, tensors: Tensors, x: Tensor, y: Tensor) -> Tensor:
    return _COMBINATIONS[node.function](*aligned(x, y))


def _reduce(node: Reduce, tensors: Tensors, x: Tensor) -> Tensor:
    return _REDUCTIONS[node.function](x, dim=[axis + 1 for axis in node.axes], keepdim=node.keep)


def _normalise(node: Norm, x: Tensor, dimensions: list[int], center: bool) -> Tensor:
    if center:
        x = x - x.mean(dimensions, keepdim=True)
    return x * torch.rsqrt(x.square().mean(dimensions, keepdim=True) + node.epsilon)


def _end(tensors: Tensors, y: Tensor, shape: Shape) -> Tensor:
    scale, shift = tensors["scale"], tensors["shift"]
    y = y if scale is None else y * scale.view(shape)
    return y if shift is None else y + shift.view(shape)


def _layer_norm(node: LayerNorm, tensors: Tensors, x: Tensor) -> Tensor:
    y = _normalise(node, x, list(range(-node.axes, 0)), node.center)
    return _end(tensors, y, tuple(x.shape[-node.axes :]))


def _group_norm(node: GroupNorm, tensors: Tensors, x: Tensor) -> Tensor:
    y = _normalise(node, x.reshape(len(x), node.groups, -1), [2], True).view(x.shape)
    return _end(tensors, y, (-1, *[1] * (x.dim() - 2)))


def _softmax(node: Softmax, tensors: Tensors, x: Tensor) -> Tensor:
    return x.softmax(node.axis + 1)


def _reshape(node: Reshape, tensors: Tensors, x: Tensor) -> Tensor:
    return x.reshape(len(x), *node.sides)


def _transpose(node: Transpose, tensors: Tensors, x: Tensor) -> Tensor:
    return x.permute(0, *(axis + 1 for axis in node.axes))


def _slice(node: Slice, tensors: Tensors, x: Tensor) -> Tensor:
    places = torch.arange(node.count, device=x.device) * node.step + node.start
    return x.index_select(node.axis + 1, places)


def _expand(node: Expand, tensors: Tensors, x: Tensor) -> Tensor:
    return x.reshape(len(x), *[1] * (len(node.sides) + 1 - x.dim()), *x.shape[1:]).expand(-1, *node.sides)


def _pad(node: Pad, tensors: Tensors, x: Tensor) -> Tensor:
    if node.mode == "constant":
        sides = [count for pair in zip(node.before[::-1], node.after[::-1], strict=True) for count in pair]
        return F.pad(x, sides, value=node.value)
    for axis, (before, after) in enumerate(zip(node.before, node.after, strict=True), start=1):
        side = x.shape[axis]
        row = F.pad(torch.arange(side, dtype=torch.float32)[None], (before, after), mode=_PADDINGS[node.mode])
        x = x.index_select(axis, row[0].long().to(x.device))
    return x


def _spread(node: Spread, tensors: Tensors, x: Tensor) -> Tensor:
    (height, width), (rows, columns) = x.shape[2:], node.step
    y = x.new_zeros(*x.shape[:2], (height - 1) * rows + 1, (width - 1) * columns + 1)
    y[:, :, ::rows, ::columns] = x
    return y


def _resize(node: Resize, tensors: Tensors, x: Tensor) -> Tensor:
    for axis in (0, 1):
        dimension = axis + 2
        first, second, share = (torch.from_numpy(part) for part in node.places(axis, x.shape[dimension]))
        near = x.index_select(dimension, first.to(x.device))
        if node.linear:
            weight = share.to(x).view(-1, *[1] * (1 - axis))
            near = near + weight * (x.index_select(dimension, second.to(x.device)) - near)
        x = near
    return x


def _matmul(node: MatMul, tensors: Tensors, x: Tensor, y: Tensor) -> Tensor:
    return torch.matmul(*aligned(x, y))


def _attention(
    node: Attention, tensors: Tensors, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    scores = node.scale * (q @ k.transpose(-1, -2))
    if mask is not None:
        scores = scores + aligned(scores, mask)[1]
    if node.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(-1) @ v


def _embedding(node: Embedding, tensors: Tensors, x: Tensor) -> Tensor:
    weight = tensors["weight"]
    assert weight is not None
    if x.is_floating_point():
        x = x.nan_to_num(0.0).clamp(0, node.count - 1)
    elif x.numel() and not 0 <= int(x.min()) <= int(x.max()) < node.count:
        raise ValueError(f"whole numbers must be 0 to {node.count - 1} here, got {int(x.min())} to {int(x.max())}")
    return F.embedding(x.long(), weight)


def _number(node: Number, tensors: Tensors, x: Tensor) -> Tensor:
    return x.float()


COMPUTATIONS: MappingProxyType[type[Node], Callable[..., Tensor]] = MappingProxyType(
    {
        Literal: _literal,
        Function: _function,
        Combine: _combine,
        Reduce: _reduce,
        LayerNorm: _layer_norm,
        GroupNorm: _group_norm,
        Softmax: _softmax,
        Reshape: _reshape,
        Transpose: _transpose,
        Slice: _slice,
        Expand: _expand,
        Pad: _pad,
        Spread: _spread,
        Resize: _resize,
        MatMul: _matmul,
        Attention: _attention,
        Embedding: _embedding,
        Number: _number,
    }
)
"""The computation of each node of version 2."""
