"""A network as a list of nodes that compute tensors from tensors, and how it is built up."""

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from adaste.packed.nodes import LARGEST, Flatten, Node, Shape
from adaste.packed.safetensors import check_text, shorten

INPUT = "input"
"""The name of the images, normalised."""

MOST_NODES = 10_000


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A network; checked when made, so that it can be run.

    Args:
        input_shape: Channels, height and width of its images.
        mean: The mean per channel of pixels in 0..1 with which images are normalised, or None.
        std: Their standard deviation; None if and only if `mean` is None.
        classes: The names of the outputs, or None.
        recipe: The digest of the recipe it was trained by, or None.
        producer: The program that wrote it.
        nodes: The operations in the order of execution.
        output: The name of the value that is the logits.

    Raises:
        ValueError: If a field or a node is impossible; it says which.
    """

    input_shape: tuple[int, int, int]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    classes: tuple[str, ...] | None = None
    recipe: str | None = None
    producer: str
    nodes: tuple[Node, ...]
    output: str

    def __post_init__(self) -> None:
        if len(self.input_shape) != 3 or not all(1 <= side <= LARGEST for side in self.input_shape):
            raise ValueError(f"the input must be (channels, height, width), 1 to {LARGEST}, got {self.input_shape}")
        self._check_normalisation()
        self._check_texts()
        if len(self.nodes) > MOST_NODES:
            raise ValueError(f"a network may have {MOST_NODES} nodes, got {len(self.nodes)}")
        shapes = self.shapes()
        if self.output not in shapes:
            raise ValueError(f"the output {shorten(self.output)} is computed by no node")
        shape = shapes[self.output]
        if len(shape) != 1:
            raise ValueError(f"the output must be flat, one number per class, got a map {shape}")
        if self.classes is not None and len(self.classes) != shape[0]:
            raise ValueError(f"there must be a name for each of {shape[0]} classes, got {len(self.classes)}")

    @property
    def outputs(self) -> int:
        """The number of its outputs for an image."""
        return self.shapes()[self.output][0]

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of all values. Raise ValueError at the first node that cannot be run."""
        shapes: dict[str, Shape] = {INPUT: self.input_shape}
        _check_size(self.input_shape)
        for place, node in enumerate(self.nodes):
            try:
                for name in node.inputs:
                    if name not in shapes:
                        raise ValueError(f"its input {shorten(name)} is not computed before it")
                if node.output in shapes:
                    raise ValueError(f"there is a value {shorten(node.output)} already")
                shapes[node.output] = _check_size(node.shape([shapes[name] for name in node.inputs]))
            except ValueError as error:
                raise ValueError(f"node {place} ({node.op} -> {shorten(node.output)}): {error}") from error
        return shapes

    def last_uses(self) -> dict[str, int]:
        """Return the last node that uses each value; the output counts as used behind all nodes."""
        return {name: place for place, node in enumerate(self.nodes) for name in node.inputs} | {
            self.output: len(self.nodes)
        }

    def _check_texts(self) -> None:
        """Raise ValueError for texts that could be written, and that every reader would refuse."""
        check_text(self.producer, "producer")
        if self.recipe is not None:
            check_text(self.recipe, "recipe")
        for place, name in enumerate(self.classes or ()):
            check_text(name, f"classes {place}")

    def _check_normalisation(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise ValueError(f"mean and std must both be given or both be None, got {self.mean} and {self.std}")
        if self.mean is None or self.std is None:
            return
        channels = self.input_shape[0]
        if not len(self.mean) == len(self.std) == channels:
            raise ValueError(
                f"mean and std need a number for each of {channels} channels, got {len(self.mean)} and {len(self.std)}"
            )
        if not all(map(math.isfinite, (*self.mean, *self.std))) or min(self.std) <= 0:
            raise ValueError(f"mean and std must be finite and std positive, got {self.mean} and {self.std}")


def _check_size(shape: Shape) -> Shape:
    if math.prod(shape) > LARGEST:
        raise ValueError(f"a value may hold {LARGEST} numbers, {shape} are more")
    return shape


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
    """A tensor that depends on the image, but is neither a map nor flat: only operations that cannot be packed make
    one.
    """


class Builder:
    """A list of nodes that grows.

    Attributes:
        nodes: The nodes so far.
        shapes: The shapes of all values by name.
        weights: The names of the parameters that are the weights of layers, by the outputs of these.
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
