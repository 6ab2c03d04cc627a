"""A packed network as ONNX: in float32, or with 8-bit activations and weights.

Only standard operators are used. Binary weights are int8 initializers of +-1 that a Cast makes float32, a quarter of
the size; scales come behind the convolution, as in the one-bit file. Sizes that are free are dimensions with names, and
numbers that follow from them are computed from the shapes of the inputs. 8-bit files are calibrated on images
(onnxruntime's QDQ form).
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from adaste._util.packages import require_package
from adaste.packed.free_sizes import name_sides
from adaste.packed.graph import INPUT, Graph, Size
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
    Pool,
    Relu,
    Shape,
    Weighted,
)
from adaste.packed.onnx_tensors import TENSOR_NODES, Count, Steps

OPSET, IR_VERSION = 17, 8
"""Old enough for every runtime in use."""

Attributes = Mapping[str, Any]
NONE: Attributes = MappingProxyType({})

Step = tuple[str, list[str], Attributes]
"""An operator, its inputs besides the first, its attributes."""


def to_onnx(graph: Graph) -> bytes:
    """Return the ONNX file of a network; most have "input" (n, channels, height, width), normalised, and "logits"."""
    onnx = require_onnx()
    helper, types = onnx.helper, {"float": onnx.TensorProto.FLOAT, "integer": onnx.TensorProto.INT64}
    graph = _without_clashes(graph)
    model = _Model(graph)
    for node in graph.nodes:
        NODES[type(node)](model, node)
    for result in graph.results:
        model.put("Identity", [result.value], result.name)
    body = helper.make_graph(
        model.nodes,
        "adaste",
        [
            helper.make_tensor_value_info(port.name, types[port.type], model.dimensions(port.name))
            for port in graph.inputs
        ],
        [
            helper.make_tensor_value_info(result.name, types["float"], model.dimensions(result.value))
            for result in graph.results
        ],
        model.tensors,
    )
    made = helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name=graph.producer,
    )
    facts: dict[str, Any] = {name: getattr(graph, name) for name in ("classes", "mean", "std", "recipe")}
    facts["free"] = dict(graph.free) or None
    helper.set_model_props(made, {name: json.dumps(fact) for name, fact in facts.items() if fact is not None})
    onnx.checker.check_model(made, full_check=True)
    content: bytes = made.SerializeToString(deterministic=True)
    return content


def require_onnx() -> Any:
    """Return the package onnx. Raise MissingPackageError if it is not installed."""
    with require_package("onnx", extra="onnx", purpose="ONNX"):
        import onnx
    return onnx


def _without_clashes(graph: Graph) -> Graph:
    """Return the same network without a value that has the name of an output."""
    taken = {result.name for result in graph.results} & {node.output for node in graph.nodes}
    names = {name: f"{name}.value" for name in taken}

    def rename(node: Node) -> Node:
        inputs = tuple(names.get(name, name) for name in node.inputs)
        return replace(node, inputs=inputs, output=names.get(node.output, node.output))

    results = tuple(replace(result, value=names.get(result.value, result.value)) for result in graph.results)
    sizes = tuple(replace(size, at=(names.get(size.at[0], size.at[0]), *size.at[1:])) for size in graph.sizes)
    return replace(graph, nodes=tuple(map(rename, graph.nodes)), results=results, sizes=sizes) if taken else graph


class _Model:
    """Operators and tensors so far."""

    def __init__(self, graph: Graph) -> None:
        self._onnx, self.shapes, self._free = require_onnx(), graph.shapes(), name_sides(graph)
        self._graph, self._rules = graph, {size.at: size for size in graph.sizes}
        self._made: set[str] = set()
        self._sides: dict[str, tuple[str, int]] = {}
        self.constants, self.batch = graph.constants(), graph.inputs[0].name
        self.integers = {given.name for given in graph.inputs if given.type == "integer"}
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def tensor(self, name: str, value: Array) -> str:
        """Add a tensor, and return its name."""
        self.tensors.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def dimensions(self, name: str) -> list[int | str | None]:
        """Return the shape of a value with the batch, and with the names of free sizes."""
        batch = "n"
        while batch in self._graph.free:
            batch += "n"
        sides = zip(self.shapes[name], self._free[name], strict=True)
        return [batch, *(side if free is None else free or None for side, free in sides)]

    def sides(self, name: str) -> tuple[Count, ...]:
        """Return the shape of a value, without the batch: numbers, or values that hold them."""
        return tuple(
            side if free is None else self._side(name, axis)
            for axis, (side, free) in enumerate(zip(self.shapes[name], self._free[name], strict=True))
        )

    def field(self, node: Node, key: str) -> tuple[Count, ...]:
        """Return the numbers of a field, or values that hold them."""
        numbers = getattr(node, key)
        places = enumerate(numbers) if isinstance(numbers, tuple) else [(None, numbers)]
        rules = ((number, self._rules.get((node.output, key, place))) for place, number in places)
        return tuple(number if rule is None else self._follow(rule) for number, rule in rules)

    def _side(self, name: str, axis: int) -> str:
        """Return the value that is a side; its operator is added where another one uses it."""
        output = f"{name}.side{axis}"
        self._sides[output] = (name, axis)
        return output

    def _free_size(self, name: str) -> str:
        """Return the value that is a free size, as the first input that has it decides."""
        inputs = {given.name for given in self._graph.inputs}
        rule = next(size for size in self._graph.sizes if size.at[0] in inputs and size.of == (name,))
        return self._change(self._side(rule.at[0], rule.at[2] or 0), [("Sub", rule.plus), ("Div", rule.times)])

    def _follow(self, rule: Size) -> str:
        """Return the value that is times * (the product of free sizes) + plus."""
        product, *more = map(self._free_size, rule.of)
        for other in more:
            product = self._once("Mul", [product, other], f"{product}.{other}")
        return self._change(product, [("Mul", rule.times), ("Add", rule.plus)])

    def _change(self, value: str, changes: Sequence[tuple[str, int]]) -> str:
        for op, number in changes:
            if number != (op in ("Mul", "Div")):
                output = f"{value}.{op.lower()}{number}"
                if output not in self._made:
                    self.tensor(f"{output}.number", np.asarray([number], np.int64))
                value = self._once(op, [value, f"{output}.number"], output)
        return value

    def _once(self, op: str, inputs: Sequence[str], output: str, attributes: Attributes = NONE) -> str:
        """Add an operator, unless it is there."""
        if output not in self._made:
            self._made.add(self.put(op, inputs, output, attributes))
        return output

    def channels(self, node: Node, name: str, value: Array) -> str:
        """Add a number for every channel of a node's output, in the shape that ONNX wants beside that."""
        sides = 0 if isinstance(node, Linear) else len(self.shapes[node.output]) - 1
        return self.tensor(f"{node.output}.{name}", value.astype(np.float32).reshape(-1, *[1] * sides))

    def put(self, op: str, inputs: Sequence[str], output: str, attributes: Attributes = NONE) -> str:
        """Add an operator, and return the name of its output."""
        for side in inputs:
            if side in self._sides:
                name, axis = self._sides[side]
                self._once("Shape", [name], side, {"start": axis + 1, "end": axis + 2})
        self.nodes.append(self._onnx.helper.make_node(op, list(inputs), [output], output, **attributes))
        return output

    def chain(self, value: str, steps: Sequence[Step], output: str) -> None:
        """Add operators, each of which takes the output of the one before."""
        for place, (op, others, attributes) in enumerate(steps, start=1):
            name = output if place == len(steps) else f"{output}.{place}"
            value = self.put(op, [value, *others], name, attributes)


def _convolution(model: _Model, node: Convolution) -> None:
    attributes = {**_window(node, node.padding), "group": node.groups, "dilations": node.dilation}
    model.chain(node.inputs[0], [("Conv", _weights(model, node), attributes), *_end(model, node)], node.output)


def _linear(model: _Model, node: Linear) -> None:
    if len(model.shapes[node.output]) == 1:
        product: Step = ("Gemm", _weights(model, node), {"transB": 1})
    else:  # Gemm is for matrices alone
        weight, *bias = _weights(model, node)
        turned = model.put("Transpose", [weight], f"{node.output}.turned", {"perm": [1, 0]})
        product = ("MatMul", [turned], NONE)
        if bias:
            model.chain(node.inputs[0], [product, ("Add", bias, NONE), *_end(model, node)], node.output)
            return
    model.chain(node.inputs[0], [product, *_end(model, node)], node.output)


def _affine(model: _Model, node: Affine) -> None:
    model.chain(node.inputs[0], _end(model, node) or [("Identity", [], NONE)], node.output)


def _weights(model: _Model, node: Weighted) -> list[str]:
    """Return the weight, and the bias if no scale comes between it and the sums."""
    name = f"{node.output}.weight"
    if node.kind == "binary":
        signs = model.tensor(f"{name}.signs", node.dense())
        inputs = [model.put("Cast", [signs], name, {"to": 1})]
    else:
        inputs = [model.tensor(name, node.weight.astype(np.float32))]
    if node.scale is None and node.shift is not None:
        inputs.append(model.tensor(f"{node.output}.bias", node.shift.astype(np.float32)))
    return inputs


def _end(model: _Model, node: Epilogue) -> list[Step]:
    """Return the operators behind the sums."""
    steps: list[Step] = []
    if node.scale is not None:
        steps.append(("Mul", [model.channels(node, "scale", node.scale)], NONE))
    if node.shift is not None and (node.scale is not None or not isinstance(node, Weighted)):
        steps.append(("Add", [model.channels(node, "shift", node.shift)], NONE))
    if len(node.inputs) == 2:
        steps.append(("Add", [node.inputs[1]], NONE))
    if node.relu:
        steps.append(("Relu", [], NONE))
    return steps


def _window(node: Convolution | Pool, ends: Sequence[int]) -> Attributes:
    return {**_bare_window(node), "pads": [*node.padding, *ends]}


def _bare_window(node: Convolution | Pool) -> Attributes:
    return {"kernel_shape": node.kernel, "strides": node.stride}


def _max_pool(model: _Model, node: MaxPool) -> None:
    steps = Steps(model, node)
    ends = _ends(steps, node)
    if _are_known(ends):
        model.put("MaxPool", node.inputs, node.output, _window(node, ends))
    else:
        pads = steps.integers([0, 0, *node.padding, 0, 0, *ends])
        around = steps.put("Pad", node.inputs[0], pads, mode="edge")  # every window has the edge that it goes beyond
        model.put("MaxPool", [around], node.output, _bare_window(node))


def _ends(steps: Steps, node: Pool) -> list[Count]:
    """Return the padding at the ends; what a last window has beyond the padding is padding of its own.

    ONNX's rounding up (ceil_mode) is not that of torch, and not the same in all its runtimes.
    """
    if not node.ceil:
        return list(node.padding)
    ends, count, sides = [], steps.count, steps.model.sides(node.inputs[0])[1:]
    for side, kernel, stride, pad in zip(sides, node.kernel, node.stride, node.padding, strict=True):
        fitting = count("Div", count("Add", side, 2 * pad - kernel + stride - 1), stride)
        last = count("Min", fitting, count("Div", count("Add", side, pad - 1), stride))
        reach = count("Add", count("Mul", last, stride), kernel - pad)
        ends.append(count("Max", count("Sub", reach, side), 0))
    return ends


def _are_known(ends: Sequence[Count]) -> TypeGuard[Sequence[int]]:
    return all(isinstance(end, int) for end in ends)


def _average_pool(model: _Model, node: AveragePool) -> None:
    steps = Steps(model, node)
    ends = _ends(steps, node)
    if not _are_known(ends):
        _average_within(steps, node, ends)
    elif not node.ceil:
        attributes = {**_window(node, ends), "count_include_pad": int(node.count_padding)}
        model.put("AveragePool", node.inputs, node.output, attributes)
    else:
        attributes = {**_window(node, ends), "count_include_pad": 1}
        mean = model.put("AveragePool", node.inputs, f"{node.output}.mean", attributes)
        shares = model.tensor(f"{node.output}.shares", _shares(model, node))
        model.put("Mul", [mean, shares], node.output)


def _average_within(steps: Steps, node: AveragePool, ends: Sequence[Count]) -> None:
    """Divide the means of windows by those of a map that is 1 where pixels count, and else 0."""
    x, sides = node.inputs[0], steps.model.sides(node.inputs[0])[1:]
    inside = steps.put("Pad", x, steps.integers([0, 0, *node.padding, 0, 0, *ends]), steps.floats(0))
    rooms = node.padding if node.count_padding else (0, 0)
    counting = [steps.count("Add", side, 2 * room) for side, room in zip(sides, rooms, strict=True)]
    begins = [pad - room for pad, room in zip(node.padding, rooms, strict=True)]
    rest = [steps.count("Max", steps.count("Sub", end, room), 0) for end, room in zip(ends, rooms, strict=True)]
    ones = steps.put("Expand", steps.floats(1), steps.integers([1, 1, *counting]))
    around = steps.put("Pad", ones, steps.integers([0, 0, *begins, 0, 0, *rest]), steps.floats(0))
    steps.put("Div", *(steps.put("AveragePool", each, **_bare_window(node)) for each in (inside, around)), last=True)


def _shares(model: _Model, node: AveragePool) -> Array:
    """Return the pixels of a window over those that count, for all windows of a pool that is rounded up."""
    sides = []
    for axis in (0, 1):
        at = np.arange(model.shapes[node.output][axis + 1]) * node.stride[axis] - node.padding[axis]
        room = node.padding[axis] if node.count_padding else 0
        last = np.minimum(at + node.kernel[axis], model.shapes[node.inputs[0]][axis + 1] + room)
        sides.append(node.kernel[axis] / (last - np.maximum(at, -room)))
    return np.outer(*sides).astype(np.float32)


def _flatten(model: _Model, node: Flatten) -> None:
    model.put("Flatten", node.inputs, node.output)


def _add(model: _Model, node: Add) -> None:
    steps: list[Step] = [("Add", [node.inputs[1]], NONE)]
    model.chain(node.inputs[0], [*steps, ("Relu", [], NONE)] if node.relu else steps, node.output)


def _relu(model: _Model, node: Relu) -> None:
    model.put("Relu", node.inputs, node.output)


def _concatenate(model: _Model, node: Concatenate) -> None:
    """Join values; constants are repeated for the batch, whose length only the input knows."""
    inputs = list(node.inputs)
    for place, name in enumerate(inputs):
        if name in model.constants and node.output not in model.constants:
            size = model.put("Shape", [model.batch], f"{node.output}.{place}.batch", {"start": 0, "end": 1})
            ones = model.tensor(f"{node.output}.{place}.ones", np.ones(len(model.shapes[name]), np.int64))
            shape = model.put("Concat", [size, ones], f"{node.output}.{place}.shape", {"axis": 0})
            inputs[place] = model.put("Expand", [name, shape], f"{node.output}.{place}")
    model.put("Concat", inputs, node.output, {"axis": node.axis + 1})


NODES: MappingProxyType[type[Node], Callable[[_Model, Any], None]] = MappingProxyType(
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
        **TENSOR_NODES,
    }
)
"""How each node becomes operators of ONNX."""


BATCH = 16
"""Images that are looked at together; the values of all layers are in memory then."""


def to_int8_onnx(graph: Graph, images: NDArray[np.float32]) -> bytes:
    """Return the ONNX file of a network with 8-bit values, whose ranges are calibrated on normalised `images`."""
    onnx, quantization = require_onnx(), _require_quantization()
    _check_images(images, graph.input_shape)
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(to_onnx(with_real_weights(graph))))
    # Shapes are known and BatchNorm is folded: else it warns that its own preparation was not run.
    quantization.quant_utils.add_pre_process_metadata(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantization.quantize_static(
            model,
            path,
            _reader(quantization, images),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            # Seven bits for weights: with eight, two products of +-127 and 255 overflow 16 bits on CPUs without VNNI.
            # Binary weights lose nothing, they are +-64 times the scale of their channel.
            reduce_range=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        return path.read_bytes()


def _check_images(images: NDArray[np.float32], shape: Shape) -> None:
    if images.ndim != 4 or images.shape[1:] != shape or not len(images):
        raise ValueError(f"images must be (n, *{shape}), at least one, got {images.shape}")
    if not np.isfinite(images).all():
        raise ValueError("images must hold finite numbers, got NaN or infinite ones")
    first = images[:1, :, :1, :1]
    if np.all(images == first):
        raise ValueError(
            f"images must show the ranges of values, which those of one colour do not: all pixels are {first.ravel()}"
        )


def with_real_weights(graph: Graph) -> Graph:
    """Return the same network with float32 weights that include their scales, as other engines expect them."""
    return replace(graph, nodes=tuple(_with_real_weight(node) for node in graph.nodes))


def _with_real_weight(node: Node) -> Node:
    """Multiply the scale into the weight: onnxruntime quantises only the weights and biases of Conv and Gemm."""
    if not isinstance(node, Weighted):
        return node
    scale = np.ones(node.outputs) if node.scale is None else node.scale
    weight = node.dense() * scale.reshape(-1, *[1] * (len(node.weight_shape) - 1))
    return replace(node, weight=weight.astype(np.float32), kind="float", scale=None)


def _reader(quantization: Any, images: NDArray[np.float32]) -> Any:
    """Return the object from which onnxruntime reads images, a batch at a time."""

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._batches: Iterator[NDArray[np.float32]] = iter(
                images[begin : begin + BATCH] for begin in range(0, len(images), BATCH)
            )

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            batch = next(self._batches, None)
            return None if batch is None else {INPUT: batch}

    return Reader()


def _require_quantization() -> Any:
    with require_package("onnxruntime", extra="onnx", purpose="8-bit ONNX"):
        from onnxruntime import quantization
    return quantization
