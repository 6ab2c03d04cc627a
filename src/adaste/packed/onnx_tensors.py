"""The operations of version 2 as operators of ONNX.

Each function takes the model that grows and a node. All values have the batch first; for constants it has length 1.
A number that follows from free sizes is the name of a value in the model: a vector of one whole number.
"""

import math
import operator
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from adaste.packed.nodes import Array, Node, Shape
from adaste.packed.tensor_nodes import (
    LOWEST,
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

FLOAT, INT64 = 1, 7
"""Types of ONNX, onnx.TensorProto.FLOAT and INT64."""

Count = int | str
"""A whole number, or the name of the value that is one."""


class Model(Protocol):
    """What a conversion needs of the model that grows."""

    shapes: dict[str, Shape]
    integers: set[str]

    def sides(self, name: str) -> tuple[Count, ...]:
        """Return the shape of a value, without the batch."""
        ...

    def field(self, node: Node, key: str) -> tuple[Count, ...]:
        """Return a field of a node: its numbers."""
        ...

    def tensor(self, name: str, value: Array) -> str:
        """Add a tensor, and return its name."""
        ...

    def put(self, op: str, inputs: Sequence[str], output: str, attributes: Any = ...) -> str:
        """Add an operator, and return the name of its output."""
        ...


COUNTS: MappingProxyType[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "Add": operator.add,
        "Sub": operator.sub,
        "Mul": operator.mul,
        "Div": operator.floordiv,
        "Min": min,
        "Max": max,
    }
)
"""What operators compute from two whole numbers; a quotient is of two that are not negative."""


class Steps:
    """Adds operators on the way to a node's output, and names their results and tensors."""

    def __init__(self, model: Model, node: Node) -> None:
        self.model, self.node, self._count = model, node, 0

    def name(self) -> str:
        """Return a name that is new."""
        self._count += 1
        return f"{self.node.output}.{self._count}"

    def floats(self, value: Any) -> str:
        """Add a constant of float32."""
        return self.model.tensor(self.name(), np.asarray(value, np.float32))

    def integers(self, values: Sequence[Count]) -> str:
        """Add a vector of whole numbers: a constant, where all are known."""
        parts: list[str | list[int]] = []
        for value in values:
            if isinstance(value, str):
                parts.append(value)
            elif parts and isinstance(parts[-1], list):
                parts[-1].append(value)
            else:
                parts.append([value])
        names = [p if isinstance(p, str) else self.model.tensor(self.name(), np.asarray(p, np.int64)) for p in parts]
        return names[0] if len(names) == 1 else self.put("Concat", *names, axis=0)

    def count(self, op: str, first: Count, second: Count) -> Count:
        """Compute a whole number from two, here if both are known."""
        if isinstance(first, int) and isinstance(second, int):
            return COUNTS[op](first, second)
        return self.put(op, self.integers([first]), self.integers([second]))

    def count_up(self, count: Count) -> str:
        """Add 0, 1, ... below a number."""
        scalars = (self.model.tensor(self.name(), np.asarray(number, np.int64)) for number in (0, 1))
        start, step = scalars
        return self.put("Range", start, self.put("Squeeze", self.integers([count])), step)

    def put(self, op: str, *inputs: str, last: bool = False, **attributes: Any) -> str:
        """Add an operator; the last one computes the node's output."""
        return self.model.put(op, inputs, self.node.output if last else self.name(), attributes)

    def reshape(self, x: str, sides: Sequence[Count], *, last: bool = False) -> str:
        """Change the shape of a value behind its batch."""
        return self.put("Reshape", x, self.integers([0, *sides]), last=last)

    def slice(self, x: str, axis: int, start: Count, end: Count, step: int = 1, *, last: bool = False) -> str:
        """Take places of an axis; axes are counted without the batch."""
        places = [self.integers([number]) for number in (start, end, axis + 1, step)]
        return self.put("Slice", x, *places, last=last)

    def aligned(self, rank: int) -> list[str]:
        """Return the node's inputs with as many axes as the one that has most, or `rank`."""
        found = []
        for name in self.node.inputs:
            more = rank - len(self.model.shapes[name])
            found.append(self.put("Unsqueeze", name, self.integers(range(1, more + 1))) if more else name)
        return found

    def rank(self) -> int:
        """Return the most axes that an input has."""
        return max(len(self.model.shapes[name]) for name in self.node.inputs)


def _literal(model: Model, node: Literal) -> None:
    model.tensor(node.output, node.value.astype(np.float32).reshape(1, *node.sides))


_SINGLE = MappingProxyType(
    {
        "abs": "Abs",
        "erf": "Erf",
        "exp": "Exp",
        "hardswish": "HardSwish",
        "log": "Log",
        "reciprocal": "Reciprocal",
        "sigmoid": "Sigmoid",
        "softplus": "Softplus",
        "sqrt": "Sqrt",
        "tanh": "Tanh",
    }
)


def _function(model: Model, node: Function) -> None:
    steps, (x,) = Steps(model, node), node.inputs
    name = node.function
    if name in _SINGLE:
        steps.put(_SINGLE[name], x, last=True)
    elif name in ("elu", "leaky_relu"):
        steps.put("Elu" if name == "elu" else "LeakyRelu", x, alpha=node.parameter, last=True)
    elif name == "hardsigmoid":
        steps.put("HardSigmoid", x, alpha=1 / 6, beta=0.5, last=True)
    elif name == "rsqrt":
        steps.put("Reciprocal", steps.put("Sqrt", x), last=True)
    elif name == "silu":
        steps.put("Mul", x, steps.put("Sigmoid", x), last=True)
    elif name == "mish":
        steps.put("Mul", x, steps.put("Tanh", steps.put("Softplus", x)), last=True)
    else:
        steps.put("Mul", steps.put("Mul", x, steps.floats(0.5)), _above_normal(steps, x, name == "gelu"), last=True)


def _above_normal(steps: Steps, x: str, exact: bool) -> str:
    """Add twice the share of a normal distribution that is below x, or its approximation with a tanh."""
    if exact:
        curve = steps.put("Erf", steps.put("Mul", x, steps.floats(math.sqrt(0.5))))
    else:
        cube = steps.put("Mul", steps.put("Mul", x, steps.put("Mul", x, x)), steps.floats(0.044715))
        inner = steps.put("Mul", steps.put("Add", x, cube), steps.floats(math.sqrt(2 / math.pi)))
        curve = steps.put("Tanh", inner)
    return steps.put("Add", curve, steps.floats(1))


def _combine(model: Model, node: Combine) -> None:
    names = {
        "add": "Add", "divide": "Div", "equal": "Equal", "less": "Less", "maximum": "Max", "minimum": "Min",
        "multiply": "Mul", "subtract": "Sub",
    }  # fmt: skip
    steps, name = Steps(model, node), names[node.function]
    if node.function in ("equal", "less"):
        steps.put("Cast", steps.put(name, *steps.aligned(steps.rank())), to=FLOAT, last=True)
    else:
        steps.put(name, *steps.aligned(steps.rank()), last=True)


def _reduce(model: Model, node: Reduce) -> None:
    steps, axes, keep = Steps(model, node), [axis + 1 for axis in node.axes], int(node.keep)
    if node.function == "sum":
        steps.put("ReduceSum", node.inputs[0], steps.integers(axes), keepdims=keep, last=True)
    else:
        op = {"mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}[node.function]
        steps.put(op, node.inputs[0], axes=axes, keepdims=keep, last=True)


def _end(steps: Steps, node: Norm, y: str, shape: Shape) -> None:
    """Add a norm's scale and shift."""
    for op, numbers in (("Mul", node.scale), ("Add", node.shift)):
        if numbers is not None:
            y = steps.put(op, y, steps.floats(numbers.reshape(shape)))
    steps.put("Identity", y, last=True)


def _layer_norm(model: Model, node: LayerNorm) -> None:
    steps, x, shape = Steps(model, node), node.inputs[0], model.shapes[node.output][-node.axes :]
    known = all(isinstance(side, int) for side in model.sides(x)[-node.axes :])
    axes = list(range(-node.axes, 0))
    if node.center and known:
        ones = steps.floats(np.ones(shape))
        _end(steps, node, steps.put("LayerNormalization", x, ones, axis=-node.axes, epsilon=node.epsilon), shape)
        return
    if node.center:
        x = steps.put("Sub", x, steps.put("ReduceMean", x, axes=axes, keepdims=1))
    squares = steps.put("Mul", x, x)
    mean = steps.put("ReduceMean", squares, axes=axes, keepdims=1)
    root = steps.put("Sqrt", steps.put("Add", mean, steps.floats(node.epsilon)))
    _end(steps, node, steps.put("Div", x, root), shape)


def _group_norm(model: Model, node: GroupNorm) -> None:
    steps, shape = Steps(model, node), model.shapes[node.output]
    groups = steps.reshape(node.inputs[0], (node.groups, -1))
    ends = (steps.floats(np.ones(node.groups)), steps.floats(np.zeros(node.groups)))
    y = steps.put("InstanceNormalization", groups, *ends, epsilon=node.epsilon)
    y = steps.reshape(y, model.sides(node.inputs[0]))
    _end(steps, node, y, (-1, *[1] * (len(shape) - 1)))


def _softmax(model: Model, node: Softmax) -> None:
    Steps(model, node).put("Softmax", node.inputs[0], axis=node.axis + 1, last=True)


def _reshape(model: Model, node: Reshape) -> None:
    Steps(model, node).reshape(node.inputs[0], model.field(node, "sides"), last=True)


def _transpose(model: Model, node: Transpose) -> None:
    Steps(model, node).put("Transpose", node.inputs[0], perm=[0, *(axis + 1 for axis in node.axes)], last=True)


def _slice(model: Model, node: Slice) -> None:
    steps, (start,), (count,) = Steps(model, node), model.field(node, "start"), model.field(node, "count")
    room = steps.count("Mul", steps.count("Sub", count, 1), node.step)
    end = steps.count("Add", steps.count("Add", start, room), 1)
    steps.slice(node.inputs[0], node.axis, start, end, node.step, last=True)


def _expand(model: Model, node: Expand) -> None:
    steps = Steps(model, node)
    sides = steps.integers([1, *model.field(node, "sides")])
    steps.put("Expand", *steps.aligned(len(node.sides)), sides, last=True)


def _pad(model: Model, node: Pad) -> None:
    steps, x, befores, afters = Steps(model, node), node.inputs[0], *(model.field(node, k) for k in ("before", "after"))
    if node.mode != "wrap":
        counts = steps.integers([0, *befores, 0, *afters])
        value = (steps.floats(node.value),) if node.mode == "constant" else ()
        steps.put("Pad", x, counts, *value, mode=node.mode, last=True)
        return
    for axis, (before, after, side) in enumerate(zip(befores, afters, model.sides(x), strict=True)):
        parts = [steps.slice(x, axis, steps.count("Sub", side, before), side)] if before else []
        parts += [x, *([steps.slice(x, axis, 0, after)] if after else [])]
        x = steps.put("Concat", *parts, axis=axis + 1)
    steps.put("Identity", x, last=True)


def _spread(model: Model, node: Spread) -> None:
    steps, (rows, columns) = Steps(model, node), node.step
    channels, height, width = model.sides(node.inputs[0])
    last_row, last_column = (
        steps.count("Add", steps.count("Mul", steps.count("Sub", side, 1), step), 1)
        for side, step in ((height, rows), (width, columns))
    )
    apart = steps.reshape(node.inputs[0], (channels, height, 1, width, 1))
    wide = steps.put("Pad", apart, steps.integers([0] * 6 + [0, 0, 0, rows - 1, 0, columns - 1]), steps.floats(0))
    whole = steps.reshape(wide, (channels, steps.count("Mul", height, rows), steps.count("Mul", width, columns)))
    steps.slice(steps.slice(whole, 1, 0, last_row), 2, 0, last_column, last=True)


def _resize(model: Model, node: Resize) -> None:
    steps, x = Steps(model, node), node.inputs[0]
    sizes, sides = model.field(node, "size"), model.sides(x)[1:]
    for axis, (size, side) in enumerate(zip(sizes, sides, strict=True)):
        first, *others = _resize_indices(steps, node, axis, size, side)
        near = steps.put("Gather", x, first, axis=axis + 2)
        if others:
            second, share = others
            step = steps.put("Sub", steps.put("Gather", x, second, axis=axis + 2), near)
            near = steps.put("Add", near, steps.put("Mul", step, share))
        x = near
    steps.put("Identity", x, last=True)


def _resize_indices(steps: Steps, node: Resize, axis: int, size: Count, side: Count) -> list[str]:
    """Add what Resize.places returns: the nearest inputs, with `linear` also the next ones and their shares."""
    if isinstance(size, int) and isinstance(side, int):
        first, second, share = node.places(axis, side)
        found = [steps.integers(first.tolist())]
        if node.linear:
            found += [steps.integers(second.tolist()), steps.floats(share.reshape(-1, *[1] * (1 - axis)))]
        return found
    last, step = steps.integers([steps.count("Sub", side, 1)]), steps.floats(node.step[axis])
    half = 0.5 if node.linear and not node.corners else 0
    at = steps.put("Cast", steps.count_up(size), to=FLOAT)
    if half:
        at = steps.put("Add", at, steps.floats(half))
    at = steps.put("Mul", at, step)
    if half:
        at = steps.put("Max", steps.put("Sub", at, steps.floats(half)), steps.floats(0))
    nearest = steps.put("Min", steps.put("Cast", at, to=INT64), last)
    if not node.linear:
        return [nearest]
    following = steps.put("Min", steps.put("Add", nearest, steps.integers([1])), last)
    part = steps.put("Min", steps.put("Sub", at, steps.put("Cast", nearest, to=FLOAT)), steps.floats(1))
    return [nearest, following, steps.put("Unsqueeze", part, steps.integers([1])) if axis == 0 else part]


def _matmul(model: Model, node: MatMul) -> None:
    steps = Steps(model, node)
    steps.put("MatMul", *steps.aligned(steps.rank()), last=True)


def _attention(model: Model, node: Attention) -> None:
    steps = Steps(model, node)
    q, k, v, *mask = steps.aligned(steps.rank())
    rank = steps.rank() + 1
    turned = steps.put("Transpose", k, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = steps.put("Mul", steps.put("MatMul", q, turned), steps.floats(node.scale))
    if mask:
        scores = steps.put("Add", scores, mask[0])
    if node.causal:
        scores = steps.put("Add", scores, _later(steps, *(model.sides(name)[-2] for name in node.inputs[:2])))
    steps.put("MatMul", steps.put("Softmax", scores, axis=-1), v, last=True)


def _later(steps: Steps, rows: Count, columns: Count) -> str:
    """Add a mask with what stands for minus infinity at the places that a row does not see: those after it."""
    if isinstance(rows, int) and isinstance(columns, int):
        return steps.floats(np.triu(np.full((rows, columns), LOWEST), 1))
    own = steps.put("Unsqueeze", steps.count_up(rows), steps.integers([1]))
    later = steps.put("Cast", steps.put("Less", own, steps.count_up(columns)), to=FLOAT)
    return steps.put("Mul", later, steps.floats(LOWEST))


def _embedding(model: Model, node: Embedding) -> None:
    steps, (places,) = Steps(model, node), node.inputs
    if places not in model.integers:
        kept = steps.put("Clip", places, steps.floats(0), steps.floats(node.count - 1))
        places = steps.put("Cast", kept, to=INT64)
    steps.put("Gather", steps.floats(node.weight), places, axis=0, last=True)


def _number(model: Model, node: Number) -> None:
    Steps(model, node).put("Cast", node.inputs[0], to=FLOAT, last=True)


TENSOR_NODES: MappingProxyType[type[Node], Callable[[Any, Any], None]] = MappingProxyType(
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
"""How each node of version 2 becomes operators of ONNX."""
