"""A packed network as a torch module: what it computes, in torch's own operations."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adaste._util.packages import MissingPackageError
from adaste.packed.format import read
from adaste.packed.graph import INPUT, Graph
from adaste.packed.nodes import (
    Add,
    Affine,
    Array,
    AveragePool,
    Concatenate,
    Convolution,
    Epilogue,
    Flatten,
    Linear,
    MaxPool,
    Node,
    Relu,
    Weighted,
)

ZOO = "zoo:"
"""What the name of a network of the zoo begins with."""


def load_packed(path: str | Path) -> "PackedNetwork":
    """Return the network in a one-bit file as a torch module. Nothing in the file is executed.

    Args:
        path: A file that `adaste.pack` or `adaste export` wrote; or "zoo:NAME", a network of the package adaste-zoo.

    Returns:
        A module for images (n, channels, height, width) that are normalised with `graph.mean` and `graph.std`.

    Raises:
        ValueError: If the file is damaged or no one-bit file; it says what is wrong.
        OSError: If the file cannot be read.
        ImportError: If a network of the zoo is wanted and adaste-zoo is not installed.
    """
    if isinstance(path, str) and path.startswith(ZOO):
        path = zoo().path(path.removeprefix(ZOO))
    return PackedNetwork(read(path))


def zoo() -> Any:
    """Return the package with trained networks. Raise ImportError if it is not installed."""
    try:
        return import_module("adaste_zoo")
    except ImportError as error:
        raise MissingPackageError(
            "the networks of the zoo are in a package of their own, adaste-zoo: in a checkout of adaste, "
            f"pip install ./zoo ({error})"
        ) from error


class PackedNetwork(nn.Module):
    """A packed network as a torch module. Its tensors are buffers: it moves between devices, but does not train.

    Args:
        graph: The content of the file: `graph.classes`, `graph.mean`, `graph.std`, `graph.input_shape`, `graph.recipe`.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.layers = nn.ModuleList(_Layer(node) for node in graph.nodes)
        self._last_uses = graph.last_uses()
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (n, classes)."""
        if images.dim() != 4 or tuple(images.shape[1:]) != self.graph.input_shape:
            channels, height, width = self.graph.input_shape
            raise ValueError(f"images must be (n, {channels}, {height}, {width}), got {tuple(images.shape)}")
        if not images.is_floating_point():
            raise ValueError(f"images must be floating-point numbers, normalised with mean and std, got {images.dtype}")
        values = {INPUT: images}
        for place, (node, layer) in enumerate(zip(self.graph.nodes, self.layers, strict=True)):
            values[node.output] = layer(*(values[name] for name in node.inputs))
            for name in {*node.inputs, node.output}:
                if self._last_uses.get(name, -1) <= place:
                    del values[name]
        return values[self.graph.output]


class _Layer(nn.Module):
    """One node with its tensors."""

    weight: Tensor | None
    scale: Tensor | None
    shift: Tensor | None

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.register_buffer("weight", _tensor(node.dense()) if isinstance(node, Weighted) else None)
        for name in ("scale", "shift"):
            self.register_buffer(name, _tensor(getattr(node, name, None)))

    def forward(self, *inputs: Tensor) -> Tensor:
        if isinstance(self.node, Epilogue):
            return self._finish(self.node, *inputs)
        return COMPUTATIONS[type(self.node)](self.node, *inputs)

    def _finish(self, node: Epilogue, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = COMPUTATIONS[type(node)](node, x, self.weight)
        if self.scale is not None:
            y = y * _per_channel(self.scale, y)
        if self.shift is not None:
            y = y + _per_channel(self.shift, y)
        if residual is not None:
            y = y + residual
        return F.relu(y) if node.relu else y


def _per_channel(channels: Tensor, y: Tensor) -> Tensor:
    return channels.view(1, -1, *[1] * (y.dim() - 2))


def _tensor(value: Array | None) -> Tensor | None:
    return None if value is None else torch.from_numpy(value.astype(np.float32))


def _convolution(node: Convolution, x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, None, node.stride, node.padding, 1, node.groups)


def _linear(node: Linear, x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight)


def _affine(node: Affine, x: Tensor, weight: None) -> Tensor:
    return x


def _max_pool(node: MaxPool, x: Tensor) -> Tensor:
    return F.max_pool2d(x, node.kernel, node.stride, node.padding)


def _average_pool(node: AveragePool, x: Tensor) -> Tensor:
    return F.avg_pool2d(x, node.kernel, node.stride, node.padding, count_include_pad=node.count_padding)


def _flatten(node: Flatten, x: Tensor) -> Tensor:
    return x.flatten(1)


def _add(node: Add, x: Tensor, y: Tensor) -> Tensor:
    return F.relu(x + y) if node.relu else x + y


def _relu(node: Relu, x: Tensor) -> Tensor:
    return F.relu(x)


def _concatenate(node: Concatenate, *inputs: Tensor) -> Tensor:
    return torch.cat(inputs, 1)


COMPUTATIONS: MappingProxyType[type[Node], Callable[..., Tensor]] = MappingProxyType(
    {
        Convolution: _convolution,
        Linear: _linear,
        Affine: _affine,
        MaxPool: _max_pool,
        AveragePool: _average_pool,
        Flatten: _flatten,
        Add: _add,
        Relu: _relu,
        Concatenate: _concatenate,
    }
)
"""The computation of each node, before its scale and shift."""
