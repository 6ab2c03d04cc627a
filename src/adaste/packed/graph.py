"""A network as a list of nodes that compute tensors from tensors, and how it is built up."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from adaste._util.checks import shorten
from adaste.packed.nodes import LARGEST, OPERATIONS, Flatten, Linear, Node, Shape
from adaste.packed.safetensors import check_text
from adaste.packed.tensor_nodes import MOST_AXES, Embedding, Literal, Number, Reshape

INPUT = "input"
"""The name of the only input where nobody gives it another."""

MOST_NODES, MOST_PORTS = 10_000, 64

TYPES = ("float", "integer")
"""Types of inputs: float32, and whole numbers for embeddings, from 0 on."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A tensor that a network is given.

    Args:
        name: Its name.
        shape: Its shape without the batch; (channels, height, width) for images.
        type: "float" or "integer".
        mean: The mean per channel of pixels in 0..1 with which images are normalised, or None.
        std: Their standard deviation; None if and only if `mean` is None.

    Raises:
        ValueError: If a field is impossible.
    """

    name: str = INPUT
    shape: Shape
    type: str = "float"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not check_text(self.name, "the name of an input"):
            raise ValueError("the name of an input must not be empty")
        if self.type not in TYPES:
            raise ValueError(f"the type of an input must be one of {', '.join(TYPES)}, got {shorten(self.type)}")
        if len(self.shape) > MOST_AXES or not all(1 <= side <= LARGEST for side in self.shape):
            raise ValueError(
                f"the input must have at most {MOST_AXES} axes of 1 to {LARGEST}, (channels, height, width) for "
                f"images, got {self.shape}"
            )
        self._check_normalisation()

    def _check_normalisation(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise ValueError(f"mean and std must both be given or both be None, got {self.mean} and {self.std}")
        if self.mean is None or self.std is None:
            return
        if len(self.shape) != 3 or self.type != "float":
            raise ValueError(f"only images have a mean and a std, not the {self.type} input {self.shape}")
        channels = self.shape[0]
        if not len(self.mean) == len(self.std) == channels:
            raise ValueError(
                f"mean and std need a number for each of {channels} channels, got {len(self.mean)} and {len(self.std)}"
            )
        with np.errstate(over="ignore"):
            mean, std = np.array((self.mean, self.std)).astype(np.float32)
        if not np.isfinite((mean, std)).all() or std.min() <= 0:
            raise ValueError(f"mean and std must be finite and std positive in float32, got {self.mean} and {self.std}")


@dataclass(frozen=True, kw_only=True)
class Output:
    """A tensor that a network gives: the name of the result, and that of the value that holds it."""

    name: str
    value: str


LOGITS = "logits"
"""The name of the only output where nobody gives it another."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """A number of a network that follows from its free sizes: times * (the product of those named) + plus.

    Args:
        at: Where the number is: the name of an input or of a node's output, the field, and the place in that; None for
            a field of one number.
        of: The names of one or two free sizes, or of one twice.
        times: The factor.
        plus: The rest.
    """

    at: tuple[str, str, int | None]
    of: tuple[str, ...]
    times: int
    plus: int

    def number(self, free: Mapping[str, int]) -> int:
        """Return the number for these free sizes."""
        return self.times * math.prod(free[name] for name in self.of) + self.plus

    @property
    def formula(self) -> str:
        """How the number follows from free sizes, as in `height` and `4*height+1`."""
        product = "*".join((*([str(self.times)] if self.times > 1 else []), *self.of))
        return f"{product}{self.plus:+}" if self.plus else product


FREE_FIELDS = ("shape", "sides", "start", "count", "size", "before", "after")
"""The fields whose numbers may follow from free sizes."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A network; checked when made, so that it can be run.

    Args:
        inputs: What it is given.
        classes: The names of the numbers of its only output, or None.
        recipe: The digest of the recipe it was trained by, or None.
        producer: The program that wrote it.
        nodes: The operations in the order of execution.
        results: What it gives.
        free: The sizes that may be smaller, by name, and the most that each may be, which is that of all shapes here.
        sizes: The numbers that follow from them.

    Raises:
        ValueError: If a field or a node is impossible; it says which.
    """

    inputs: tuple[Input, ...]
    classes: tuple[str, ...] | None = None
    recipe: str | None = None
    producer: str
    nodes: tuple[Node, ...]
    results: tuple[Output, ...]
    free: Mapping[str, int] = field(default_factory=dict)
    sizes: tuple[Size, ...] = ()

    def __post_init__(self) -> None:
        self._check_texts()
        if len(self.nodes) > MOST_NODES:
            raise ValueError(f"a network may have {MOST_NODES} nodes, got {len(self.nodes)}")
        for what, ports in (("inputs", self.inputs), ("outputs", self.results)):
            names = [port.name for port in ports]
            if not 1 <= len(names) <= MOST_PORTS or len(set(names)) < len(names):
                raise ValueError(
                    f"a network must have 1 to {MOST_PORTS} {what} of different names, got {shorten(names)}"
                )
        shapes, constant = self.shapes(), self.constants()
        for result in self.results:
            if result.value not in shapes:
                raise ValueError(f"the output {shorten(result.value)} is computed by no node")
            if result.value in constant or result.value in self._integers():
                raise ValueError(f"the output {shorten(result.value)} must be computed from the inputs")
        if self.classes is not None:
            shape = shapes[self.output]
            if len(self.results) > 1 or len(shape) != 1:
                raise ValueError("classes must be None where there is not one flat output")
            if len(self.classes) != shape[0]:
                raise ValueError(f"there must be a name for each of {shape[0]} classes, got {len(self.classes)}")
        self._check_sizes()

    @property
    def input_shape(self) -> Shape:
        """The shape of the first input."""
        return self.inputs[0].shape

    @property
    def mean(self) -> tuple[float, ...] | None:
        """The mean of the first input."""
        return self.inputs[0].mean

    @property
    def std(self) -> tuple[float, ...] | None:
        """The standard deviation of the first input."""
        return self.inputs[0].std

    @property
    def output(self) -> str:
        """The name of the value that is the first output."""
        return self.results[0].value

    @property
    def outputs(self) -> int:
        """The number of its outputs for an image."""
        return self.shapes()[self.output][0]

    @property
    def version(self) -> int:
        """The version of the file: 1 where images become logits by what it has, so that all readers read it."""
        shapes = self.shapes()
        (first, *more), (result, *others) = self.inputs, self.results
        usual = (first.name, first.type, len(first.shape), result.name, len(shapes[result.value])) == (
            *(INPUT, "float", 3),
            *(LOGITS, 1),
        )
        if not usual or more or others or any(len(shape) not in (1, 3) for shape in shapes.values()):
            return 2
        return 1 if not self.free and all(_is_of_version_1(node, shapes) for node in self.nodes) else 2

    def at(self, free: Mapping[str, int]) -> "Graph":
        """Return the network with other free sizes. Raise ValueError if they are impossible."""
        if free == self.free:
            return self
        for name, most in self.free.items():
            if not 1 <= free[name] <= most:
                raise ValueError(f"{name} must be 1 to {most}, got {free[name]}")
        changes: dict[str, dict[str, Any]] = {}
        parts: dict[str, Input | Node] = {given.name: given for given in self.inputs}
        parts |= {node.output: node for node in self.nodes}
        for size in self.sizes:
            name, key, place = size.at
            fields, number = changes.setdefault(name, {}), size.number(free)
            before = fields.get(key, getattr(parts[name], key))
            fields[key] = number if place is None else (*before[:place], number, *before[place + 1 :])
        try:
            return replace(
                self,
                inputs=tuple(replace(given, **changes.get(given.name, {})) for given in self.inputs),
                nodes=tuple(
                    replace(node, **changes[node.output]) if node.output in changes else node for node in self.nodes
                ),
                free={},
                sizes=(),
            )
        except ValueError as error:
            raise ValueError(f"the network cannot be run with {_named(free)}: {error}") from error

    def free_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the free sizes of inputs with these shapes, without the batch. Raise ValueError if they differ."""
        found: dict[str, int] = {}
        for given in self.inputs:
            for size in self.sizes:
                name, _, place = size.at
                shape = shapes[given.name]
                if name != given.name or place is None or place >= len(shape):
                    continue
                number, rest = divmod(shape[place] - size.plus, size.times)
                (free,) = size.of
                if rest or not 1 <= number <= self.free[free]:
                    allowed = f"{size.formula} with {free} from 1 to {self.free[free]}"
                    raise ValueError(f"dimension {place + 1} of {name} must be {allowed}, got {shape[place]}")
                if found.setdefault(free, number) != number:
                    raise ValueError(f"all inputs must have one {free}, got {found[free]} and {number}")
        return {name: found.get(name, most) for name, most in self.free.items()}

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of all values. Raise ValueError at the first node that cannot be run."""
        shapes: dict[str, Shape] = {given.name: _check_size(given.shape) for given in self.inputs}
        integers = self._integers()
        for place, node in enumerate(self.nodes):
            try:
                for name in node.inputs:
                    if name not in shapes:
                        raise ValueError(f"its input {shorten(name)} is not computed before it")
                    _check_type(node, whole=name in integers)
                if node.output in shapes:
                    raise ValueError(f"there is a value {shorten(node.output)} already")
                shapes[node.output] = _check_size(node.shape([shapes[name] for name in node.inputs]))
            except ValueError as error:
                raise ValueError(f"node {place} ({node.op} -> {shorten(node.output)}): {error}") from error
        return shapes

    def constants(self) -> set[str]:
        """Return the values that do not depend on an input."""
        found: set[str] = set()
        for node in self.nodes:
            if all(name in found for name in node.inputs):
                found.add(node.output)
        return found

    def last_uses(self) -> dict[str, int]:
        """Return the last node that uses each value; outputs count as used behind all nodes."""
        return {name: place for place, node in enumerate(self.nodes) for name in node.inputs} | {
            result.value: len(self.nodes) for result in self.results
        }

    def _integers(self) -> set[str]:
        return {given.name for given in self.inputs if given.type == "integer"}

    def _check_sizes(self) -> None:
        """Raise ValueError unless all numbers are there, and at the largest free sizes what they are."""
        for name, most in self.free.items():
            if not check_text(name, "the name of a free size") or not 1 <= most <= LARGEST:
                raise ValueError(f"a free size must have a name and be at most {LARGEST}, got {shorten(name)}: {most}")
        if len(self.free) > MOST_PORTS or len(self.sizes) > MOST_NODES:
            raise ValueError(f"there may be {MOST_PORTS} free sizes and {MOST_NODES} numbers that follow from them")
        parts: dict[str, Input | Node] = {given.name: given for given in self.inputs}
        inputs = set(parts)
        parts |= {node.output: node for node in self.nodes}
        known: set[str] = set()
        for size in self.sizes:
            name, key, place = size.at
            where = f"the size at {shorten(name)}, {shorten(key)}"
            if name not in parts or (name in inputs) != (key == "shape") or key not in FREE_FIELDS:
                raise ValueError(f"{where} is not there, or no size of an input or a node")
            if not 1 <= len(size.of) <= (1 if name in inputs else 2) or any(each not in self.free for each in size.of):
                raise ValueError(f"{where} must follow from one or two free sizes, that of an input from one")
            if not 1 <= size.times <= LARGEST or not -LARGEST <= size.plus <= LARGEST:
                raise ValueError(f"{where} must have a factor from 1 on, got {size.times}")
            number = getattr(parts[name], key, None)
            if isinstance(number, tuple) != (place is not None) or number is None:
                raise ValueError(f"{where} has no place {place}")
            if isinstance(number, tuple) and place is not None:
                if not 0 <= place < len(number):
                    raise ValueError(f"{where} has no place {place}")
                number = number[place]
            if number != size.number(self.free):
                raise ValueError(f"{where} is {number}, not {size.number(self.free)} as {size.formula} says")
            if name in inputs:
                known.update(size.of)
        if known != set(self.free):
            raise ValueError(f"no input has the free size {shorten(min(set(self.free) - known))}")

    def _check_texts(self) -> None:
        """Raise ValueError for texts that could be written, and that every reader would refuse."""
        check_text(self.producer, "producer")
        if self.recipe is not None:
            check_text(self.recipe, "recipe")
        for place, name in enumerate(self.classes or ()):
            check_text(name, f"classes {place}")
        for result in self.results:
            if not check_text(result.name, "the name of an output"):
                raise ValueError("the name of an output must not be empty")


def _named(free: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {number}" for name, number in free.items())


def _check_type(node: Node, *, whole: bool) -> None:
    """Raise ValueError unless a node takes whole numbers, or real ones."""
    if whole and not isinstance(node, Embedding | Number):
        raise ValueError("whole numbers are for embeddings and for number, which makes them real")
    if not whole and isinstance(node, Number):
        raise ValueError("its input is real already")


def _is_of_version_1(node: Node, shapes: dict[str, Shape]) -> bool:
    new = [name for name in node.later if getattr(node, name) != type(node).__dataclass_fields__[name].default]
    spatial = isinstance(node, Linear) and len(shapes[node.output]) != 1
    return node.op in OPERATIONS and not new and not spatial


def _check_size(shape: Shape) -> Shape:
    if len(shape) > MOST_AXES:
        raise ValueError(f"a value may have {MOST_AXES} axes, {shape} has more")
    if math.prod(shape) > LARGEST:
        raise ValueError(f"a value may hold {LARGEST} numbers, {shape} are more")
    return shape


BATCH = 2
"""Inputs to trace with: more than one, so that a batch is not mistaken for a side of length 1."""


@dataclass(frozen=True)
class Constant:
    """A tensor that does not depend on the image, and its name in the model."""

    tensor: Tensor
    name: str


ALONE, BEFORE, BEHIND = 0, 1, 2
"""Where the batch is in its dimension."""


@dataclass(frozen=True)
class Value:
    """A tensor that depends on the inputs, as torch sees it.

    `shape` leaves out the batch, which is in torch's dimension `batch`: alone, or, if `merged`, with the places of the
    axis `batch` of `shape`, before these as in (batch * windows, ...), or behind as in (rows * batch, ...).
    """

    name: str
    shape: Shape
    batch: int = 0
    merged: int = ALONE

    @property
    def rank(self) -> int:
        """The number of torch's dimensions."""
        return len(self.shape) + (not self.merged)

    def axis(self, dimension: int) -> int:
        """Return the axis that a dimension of torch is. Raise ValueError if it is the batch."""
        place = dimension % max(self.rank, 1)
        if place == self.batch:
            raise ValueError(f"inputs must be left apart, dimension {dimension} is their batch")
        return place if self.merged or place < self.batch else place - 1

    def torch_shape(self) -> tuple[int, ...]:
        """Return the shape that torch has."""
        if self.merged:
            return tuple(BATCH * side if place == self.batch else side for place, side in enumerate(self.shape))
        return (*self.shape[: self.batch], BATCH, *self.shape[self.batch :])


@dataclass(frozen=True)
class Misfit:
    """A tensor that depends on the inputs, but does not hold them apart: only operations that cannot be packed make
    one.
    """


class Builder:
    """A list of nodes that grows.

    Attributes:
        exact: Whether bounds are compared where sums and ReLUs would round small numbers away.
        sized: Whether sides may be free, so that no node should hold a number for each place of one.
        nodes: The nodes so far.
        shapes: The shapes of all values by name.
        integers: The inputs that are whole numbers.
        whole: The values that are known to hold whole numbers.
        truth: Those of them that are 0 for false or 1 for true.
        weights: The names of the parameters that are the weights of layers, by the outputs of these.
    """

    def __init__(self, inputs: Sequence[Input], *, exact: bool = False, sized: bool = False) -> None:
        self.exact, self.sized = exact, sized
        self.whole: set[str] = set()
        self.truth: set[str] = set()
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {given.name: given.shape for given in inputs}
        self.integers = {given.name for given in inputs if given.type == "integer"}
        self.weights: dict[str, str] = {}
        self._views: dict[tuple[str, Shape], str] = {}
        self._literals: dict[tuple[Shape, bytes], str] = {}
        self._numbers: dict[str, str] = {}

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
        for name in node.inputs:
            _check_type(node, whole=name in self.integers)
        shape = node.shape([self.shapes[name] for name in node.inputs])
        if len(shape) > MOST_AXES:
            raise ValueError(f"a value may have {MOST_AXES} axes, {shape} has more")
        self.nodes.append(node)
        self.shapes[node.output] = shape
        return Value(node.output, shape)

    def literal(self, value: Any) -> str:
        """Return the name of a value with these numbers, the same for every input."""
        sides, numbers = tuple(value.shape), value.reshape(-1)
        key = (sides, numbers.tobytes())
        if key not in self._literals:
            name = self.new_name()
            self._literals[key] = self.put(Literal(inputs=(), output=name, sides=sides, value=numbers)).name
        return self._literals[key]

    def real(self, value: Value) -> Value:
        """Return a value as real numbers: whole ones of an input become such."""
        if value.name not in self.integers:
            return value
        if value.name not in self._numbers:
            node = Number(inputs=(value.name,), output=self.new_name())
            self._numbers[value.name] = self.put(node).name
            self.whole.add(self._numbers[value.name])
        return Value(self._numbers[value.name], value.shape, value.batch, value.merged)

    def stand_in(self, shape: tuple[int, ...]) -> Value | Misfit:
        """Return what stands for a result, of this shape with the batch, that no node can compute.

        Nothing can be written then, but all that follows is looked at as well.
        """
        if not shape or shape[0] % BATCH:
            return Misfit()
        value = value_of(f"missing {len(self.shapes)}", shape)
        self.shapes[value.name] = value.shape
        return value

    def use(self, value: Value) -> str:
        """Return the name of a value as an input, in the shape that torch sees."""
        shape = self.shapes[value.name]
        if value.shape == shape:
            return value.name
        key = (value.name, value.shape)
        if key not in self._views:
            value = self.real(value)
            output = self.new_name()
            flat = len(shape) == 3 and value.shape == (math.prod(shape),)
            node = (
                Flatten(inputs=(value.name,), output=output)
                if flat
                else Reshape(inputs=(value.name,), output=output, sides=value.shape)
            )
            self._views[key] = self.put(node).name
        return self._views[key]


def view_of(value: Value, shape: tuple[int, ...]) -> Value:
    """Return the same numbers in another shape of torch's. Raise ValueError if that does not leave inputs apart."""
    before = math.prod(value.torch_shape()[: value.batch])
    if value.merged == BEHIND:
        before *= value.shape[value.batch]
    if math.prod(shape) == math.prod(value.torch_shape()):
        for place in range(len(shape)):
            if math.prod(shape[:place]) == before and shape[place] % BATCH == 0:
                return value_of(value.name, shape, place)
        for place, side in enumerate(shape):
            if side % BATCH == 0 and math.prod(shape[:place]) * side == before * BATCH:
                return Value(value.name, (*shape[:place], side // BATCH, *shape[place + 1 :]), place, BEHIND)
    raise ValueError(f"a change of shape must leave the inputs of a batch apart, got {value.shape} to {tuple(shape)}")


def value_of(name: str, shape: tuple[int, ...], batch: int = 0) -> Value:
    """Return the value that has a shape of torch's, with the batch in one of its dimensions."""
    rest = shape[batch] // BATCH
    own = (rest,) if rest > 1 else ()
    return Value(name, (*shape[:batch], *own, *shape[batch + 1 :]), batch, BEFORE if own else ALONE)


Arguments = dict[str, Any]
"""Those of an operation of torch, by the names in its schema."""

Call = Callable[[Builder, Arguments, tuple[int, ...]], Any]
"""Adds the nodes of an operation: takes its arguments and the shape of its result, with the batch."""
