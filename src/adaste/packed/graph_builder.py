"""A list of nodes under construction, and what stands for tensors while it grows."""

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from adaste.packed.graph import INPUT
from adaste.packed.nodes import Flatten, Node, Shape

BATCH = 2
"""Images to trace with: more than one, so that a batch is not mistaken for a side of length 1."""


@dataclass(frozen=True)
class Constant:
    """A tensor that does not depend on the image, and its name in the model."""

    tensor: Tensor
    name: str


@dataclass(frozen=True)
class Value:
    """A tensor that depends on the image. `shape` is torch's, without the batch: a value's, or a view's."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Misfit:
    """A tensor that depends on the image, but is neither a map nor flat: only what cannot be packed makes one."""


class Builder:
    """A list of nodes that grows.

    shapes   of all values by name.
    weights  the names of the parameters that are the weights of layers, by the outputs of these.
    """

    def __init__(self, input_shape: Shape) -> None:
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {INPUT: input_shape}
        self.weights: dict[str, str] = {}
        self._flat: dict[str, str] = {}

    def new_name(self) -> str:
        """Return a name for the output of the next node."""
        return f"t{len(self.nodes) + 1}"

    def name_for(self, weight: Constant) -> str:
        """Return a name for the output of the next node, a layer with this weight."""
        name = self.new_name()
        self.weights[name] = weight.name
        return name

    def put(self, node: Node) -> Value:
        """Add a node, and return what it computes."""
        shape = node.shape([self.shapes[name] for name in node.inputs])
        self.nodes.append(node)
        self.shapes[node.output] = shape
        return Value(node.output, shape)

    def stand_in(self, shape: tuple[int, ...]) -> Value | Misfit:
        """Return what stands for a result, of this shape with the batch, that no node can compute.

        Nothing can be written then, but all that follows is looked at as well.
        """
        if len(shape) not in (2, 4) or shape[0] != BATCH:
            return Misfit()
        name = f"missing {len(self.shapes)}"
        self.shapes[name] = shape[1:]
        return Value(name, shape[1:])

    def use(self, value: Value) -> str:
        """Return the name of a value as an input; it is flattened if torch sees it flat."""
        shape = self.shapes[value.name]
        if value.shape == shape:
            return value.name
        if value.shape != (math.prod(shape),):
            raise ValueError(f"a map {shape} can be flattened, but not become {value.shape}")
        if value.name not in self._flat:
            self._flat[value.name] = self.put(Flatten(inputs=(value.name,), output=self.new_name())).name
        return self._flat[value.name]


Arguments = dict[str, Any]
"""Those of an operation of torch, by the names in its schema."""
