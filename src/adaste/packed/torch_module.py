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
from adaste.packed.graph import INPUT, Graph, Input
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
from adaste.packed.torch_tensors import COMPUTATIONS as TENSOR_COMPUTATIONS

ZOO = "zoo:"
"""What the name of a network of the zoo begins with."""


def load_packed(path: str | Path) -> "PackedNetwork":
    """Return the network in a one-bit file as a torch module. Nothing in the file is executed.

    Args:
        path: A file that `adaste.pack` or `adaste export` wrote; or "zoo:NAME", a network of the package adaste-zoo.

    Returns:
        A module for the inputs of the network, as `graph.inputs` names them: by position or by name. Most take images
        (n, channels, height, width) that are normalised with `graph.mean` and `graph.std`. It returns a tensor, or a
        dict of tensors where the network has several outputs.

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
        graph: The content of the file: `graph.inputs`, `graph.results`, `graph.classes`, `graph.recipe`; `graph.mean`,
            `graph.std` and `graph.input_shape` of the first input.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.layers = nn.ModuleList(_Layer(node) for node in graph.nodes)
        self._last_uses = graph.last_uses()
        self.eval()

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor | dict[str, Tensor]:
        """Return the logits (n, classes); or all outputs by name, where there are several."""
        values, nodes = self._match(inputs, named)
        count = max(len(value) for value in values.values())
        for place, (node, layer) in enumerate(zip(nodes, self.layers, strict=True)):
            values[node.output] = layer(node, *(values[name] for name in node.inputs))
            for name in {*node.inputs, node.output}:
                if self._last_uses.get(name, -1) <= place:
                    del values[name]
        found = {
            result.name: values[result.value].expand(count, *values[result.value].shape[1:])
            for result in self.graph.results
        }
        return next(iter(found.values())) if len(found) == 1 else found

    def _match(
        self, inputs: tuple[Tensor, ...], named: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], tuple[Node, ...]]:
        """Return the inputs by name, and the nodes for their sizes. Raise ValueError unless the network takes them."""
        wanted = [given.name for given in self.graph.inputs]
        values = {**dict(zip(wanted, inputs, strict=False)), **named}
        if len(inputs) + len(named) != len(wanted) or set(values) != set(wanted):
            given = ", ".join(map(str, (*range(len(inputs)), *named)))
            raise ValueError(f"the network takes {len(wanted)} inputs, {', '.join(wanted)}, got {given or 'none'}")
        for name, value in values.items():
            if not isinstance(value, Tensor):
                raise ValueError(f"{name} must be a tensor, got {type(value).__name__}")
        graph = self.graph.at(self.graph.free_of({name: tuple(value.shape[1:]) for name, value in values.items()}))
        for port in graph.inputs:
            _check_input(port, values[port.name])
        if len({len(value) for value in values.values()}) > 1:
            raise ValueError(f"all inputs must have one batch, got {[len(value) for value in values.values()]}")
        return values, graph.nodes


def _check_input(port: Input, value: Tensor) -> None:
    what = "images" if port.name == INPUT and len(port.shape) == 3 else port.name
    if value.dim() != len(port.shape) + 1 or tuple(value.shape[1:]) != port.shape:
        sides = ", ".join(map(str, port.shape))
        raise ValueError(f"{what} must be (n, {sides}), got {tuple(value.shape)}")
    if port.type == "float" and not value.is_floating_point():
        normalised = ", normalised with mean and std" if len(port.shape) == 3 else ""
        raise ValueError(f"{what} must be floating-point numbers{normalised}, got {value.dtype}")
    if port.type == "integer" and (value.is_floating_point() or value.is_complex()):
        raise ValueError(f"{what} must be whole numbers, got {value.dtype}")


class _Layer(nn.Module):
    """The tensors of one node, and what it computes with them, perhaps for another size."""

    weight: Tensor | None
    scale: Tensor | None
    shift: Tensor | None

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.register_buffer("weight", _tensor(node.dense()) if isinstance(node, Weighted) else None)
        if type(node) in TENSOR_COMPUTATIONS:
            for name in ("weight", "value"):
                self.register_buffer(name, _tensor(getattr(node, name, None)))
        for name in ("scale", "shift"):
            self.register_buffer(name, _tensor(getattr(node, name, None)))

    def forward(self, node: Node, *inputs: Tensor) -> Tensor:
        if isinstance(node, Epilogue):
            return self._finish(node, *inputs)
        if type(node) in TENSOR_COMPUTATIONS:
            return TENSOR_COMPUTATIONS[type(node)](node, self._buffers, *inputs)
        return COMPUTATIONS[type(node)](node, *inputs)

    def _finish(self, node: Epilogue, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = COMPUTATIONS[type(node)](node, x, self.weight)
        if self.scale is not None:
            y = y * _per_channel(self.scale, y, node)
        if self.shift is not None:
            y = y + _per_channel(self.shift, y, node)
        if residual is not None:
            y = y + residual
        return F.relu(y) if node.relu else y


def _per_channel(channels: Tensor, y: Tensor, node: Epilogue) -> Tensor:
    """Return the numbers for the first axis of a value, or for the last one of a linear layer's."""
    return channels if isinstance(node, Linear) else channels.view(1, -1, *[1] * (y.dim() - 2))


def _tensor(value: Array | float | None) -> Tensor | None:
    return torch.from_numpy(value.astype(np.float32)) if isinstance(value, np.ndarray) else None


def _convolution(node: Convolution, x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, None, node.stride, node.padding, node.dilation, node.groups)


def _linear(node: Linear, x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight)


def _affine(node: Affine, x: Tensor, weight: None) -> Tensor:
    return x


def _max_pool(node: MaxPool, x: Tensor) -> Tensor:
    return F.max_pool2d(x, node.kernel, node.stride, node.padding, ceil_mode=node.ceil)


def _average_pool(node: AveragePool, x: Tensor) -> Tensor:
    return F.avg_pool2d(
        x, node.kernel, node.stride, node.padding, ceil_mode=node.ceil, count_include_pad=node.count_padding
    )


def _flatten(node: Flatten, x: Tensor) -> Tensor:
    return x.flatten(1)


def _add(node: Add, x: Tensor, y: Tensor) -> Tensor:
    return F.relu(x + y) if node.relu else x + y


def _relu(node: Relu, x: Tensor) -> Tensor:
    return F.relu(x)


def _concatenate(node: Concatenate, *inputs: Tensor) -> Tensor:
    count = max(len(x) for x in inputs)
    return torch.cat([x.expand(count, *x.shape[1:]) for x in inputs], node.axis + 1)


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
