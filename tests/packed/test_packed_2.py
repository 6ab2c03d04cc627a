"""Version 2 of the file: every operation alone, in torch, in the plain reader, in ONNX and in the runtime."""

import dataclasses
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import adaste
from adaste.packed.format import from_bytes, to_bytes
from adaste.packed.graph import Graph, Input, Output
from adaste.packed.nodes import Add, Affine, AveragePool, Concatenate, Convolution, Flatten, Linear, MaxPool, Node, Relu
from adaste.packed.onnx import to_onnx
from adaste.packed.tensor_nodes import (
    COMBINATIONS,
    FUNCTIONS,
    PARAMETRIC,
    REDUCTIONS,
    TENSOR_OPERATIONS,
    Attention,
    Combine,
    Embedding,
    Expand,
    Function,
    GroupNorm,
    LayerNorm,
    Literal,
    MatMul,
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
from adaste.packed.torch_module import PackedNetwork

SCRIPT = Path(__file__).parents[2] / "examples" / "read_packed_2.py"
reader = runpy.run_path(str(SCRIPT))
RANDOM = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def signs(rows: int, columns: int) -> np.ndarray:
    return np.packbits(numbers(rows, columns) > 0, axis=1, bitorder="little")


X, ROWS, TOKENS = (
    Input(name="x", shape=(4, 6, 5)),
    Input(name="y", shape=(3, 7, 8)),
    Input(name="t", shape=(5,), type="integer"),
)
MANY = Input(name="many", shape=(2, 4, 3), type="integer")
GIVEN = (X, ROWS, TOKENS, MANY)
WINDOW: dict[str, Any] = {"kernel": (3, 2), "stride": (2, 2), "padding": (1, 1)}


def make(operation: Callable[..., Node], *inputs: str, **fields: Any) -> Node:
    return operation(inputs=inputs or ("x",), output="out", **fields)


def layer(**fields: Any) -> dict[str, Any]:
    return {
        "weight": signs(6, 4 * 6),
        "kind": "binary",
        "scale": numbers(6),
        "shift": numbers(6),
        "relu": True,
        **fields,
    }


CONVOLUTION = {"out_channels": 6, "in_channels": 4, **WINDOW, "groups": 1, "dilation": (2, 1)}
CASES: dict[str, Node] = {
    "dilated": make(Convolution, **layer(), **CONVOLUTION),
    "dilated depthwise": make(
        Convolution,
        out_channels=8,
        in_channels=4,
        kernel=(3, 3),
        stride=(1, 2),
        padding=(2, 1),
        groups=4,
        dilation=(2, 2),
        weight=numbers(8, 1, 3, 3),
        kind="float",
        relu=False,
    ),
    "linear on rows": make(Linear, "y", out_features=6, in_features=8, **layer(weight=signs(6, 8))),
    "linear with a residual": make(
        Linear, "y", "y", out_features=8, in_features=8, weight=numbers(8, 8), kind="float", relu=True
    ),
    "affine on the first axis": make(Affine, "y", channels=3, scale=numbers(3), relu=False),
    "max pool rounded up": make(MaxPool, **WINDOW, ceil=True),
    "average pool rounded up": make(AveragePool, **WINDOW, ceil=True, count_padding=True),
    "average pool rounded up, inside": make(AveragePool, **WINDOW, ceil=True, count_padding=False),
    "concatenate columns": make(Concatenate, "x", "x", axis=2),
    "relu": make(Relu, "y"),
    "flatten": make(Flatten),
    "add": make(Add, "y", "y", relu=True),
    **{
        name: make(Function, function=name, parameter=0.3 if name in PARAMETRIC else None)
        for name in FUNCTIONS
        if name not in ("log", "sqrt", "rsqrt")
    },
    **{f"combine by {name}": make(Combine, "x", "wide", function=name) for name in COMBINATIONS if name != "divide"},
    "combine the other way": make(Combine, "column", "x", function="multiply"),
    **{f"reduce to {name}": make(Reduce, function=name, axes=(0, 2), keep=False) for name in REDUCTIONS},
    "reduce and keep": make(Reduce, "y", function="mean", axes=(2,), keep=True),
    "layer norm": make(LayerNorm, "y", axes=1, center=True, epsilon=1e-5, scale=numbers(8), shift=numbers(8)),
    "layer norm of maps": make(LayerNorm, axes=2, center=True, epsilon=1e-3),
    "RMS norm": make(LayerNorm, "y", axes=1, center=False, epsilon=1e-6, scale=numbers(8)),
    "group norm": make(GroupNorm, groups=2, epsilon=1e-5, scale=numbers(4), shift=numbers(4)),
    "softmax": make(Softmax, "y", axis=2),
    "softmax of channels": make(Softmax, axis=0),
    "reshape": make(Reshape, sides=(2, 30, 2)),
    "transpose": make(Transpose, axes=(2, 0, 1)),
    "slice": make(Slice, axis=1, start=1, count=3, step=2),
    "expand": make(Expand, "column", sides=(2, 4, 6, 5)),
    "pad": make(Pad, before=(0, 1, 2), after=(1, 0, 3), mode="constant", value=-1.5),
    **{
        f"pad with {mode}": make(Pad, before=(0, 1, 2), after=(1, 0, 3), mode=mode, value=0.0)
        for mode in ("edge", "reflect", "wrap")
    },
    "spread": make(Spread, step=(2, 3)),
    "resize to the nearest": make(Resize, size=(9, 3), step=(6 / 9, 5 / 3), linear=False, corners=False),
    "resize": make(Resize, size=(9, 3), step=(6 / 9, 5 / 3), linear=True, corners=False),
    "resize with corners": make(Resize, size=(9, 3), step=(5 / 8, 4 / 2), linear=True, corners=True),
    "matmul": make(MatMul, "y", "turned"),
    "attention": make(Attention, "y", "y", "y", scale=0.3, causal=False),
    "causal attention with a mask": make(Attention, "y", "y", "y", "mask", scale=0.3, causal=True),
    "embedding": make(Embedding, "t", count=9, width=3, weight=numbers(9, 3)),
    "embedding of maps": make(Embedding, "many", count=9, width=3, weight=numbers(9, 3)),
    "embedding of real numbers": make(Embedding, "x", count=2, width=3, weight=numbers(2, 3)),
    "number": make(Number, "t"),
    "number of maps": make(Number, "many"),
    "equal": make(Combine, "x", "x", function="equal"),
    "equal to some": make(Combine, "x", "ones", function="equal"),
}
BEFORE: dict[str, Node] = {
    "wide": Literal(inputs=(), output="wide", sides=(6, 1), value=numbers(6)),
    "ones": Literal(inputs=(), output="ones", sides=(5,), value=np.float32([1, 0, -1, 2, 5])),
    "mask": Literal(inputs=(), output="mask", sides=(7, 7), value=numbers(49)),
    "turned": Transpose(inputs=("y",), output="turned", axes=(0, 2, 1)),
    "column": Reduce(inputs=("x",), output="column", function="mean", axes=(1, 2), keep=True),
}
"""Nodes that make the inputs of others."""


def graph_of(node: Node) -> Graph:
    inputs = [given for given in GIVEN if given.name in node.inputs]
    before = [BEFORE[name] for name in node.inputs if name in BEFORE]
    needed = {name for made in before for name in made.inputs} - {given.name for given in inputs}
    inputs += [given for given in GIVEN if given.name in needed]
    return Graph(
        inputs=tuple(inputs), producer="a test", nodes=(*before, node), results=(Output(name="out", value="out"),)
    )


def inputs_for(graph: Graph, count: int = 3, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        given.name: random.standard_normal((count, *given.shape)).astype(np.float32)
        if given.type == "float"
        else random.integers(0, 9, (count, *given.shape))
        for given in graph.inputs
    }


@torch.no_grad()
def in_torch(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found = PackedNetwork(graph)(**{name: torch.from_numpy(value) for name, value in inputs.items()})
    named = found if isinstance(found, dict) else {graph.results[0].name: found}
    return {name: value.numpy() for name, value in named.items()}


def in_the_plain_reader(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return reader["run"](*reader["unpacked"](to_bytes(graph)), inputs)


def in_onnx(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(to_onnx(graph), providers=["CPUExecutionProvider"])
    return dict(zip([result.name for result in graph.results], session.run(None, inputs), strict=True))


def in_the_runtime(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    found = runtime.load_bytes(to_bytes(graph), threads=2)(**inputs)
    return found if isinstance(found, dict) else {graph.results[0].name: found}


def assert_close(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], tolerance: float = 2e-6) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name].shape == value.shape
        assert np.abs(found[name] - value).max() <= tolerance * max(1, np.abs(value).max()), name


@pytest.mark.parametrize("compute", [in_the_plain_reader, in_onnx, in_the_runtime])
@pytest.mark.parametrize("name", CASES)
def test_every_operation_is_the_same_in_torch_and_elsewhere(
    name: str, compute: Callable[..., dict[str, np.ndarray]]
) -> None:
    graph = graph_of(CASES[name])
    inputs = inputs_for(graph)
    assert_close(compute(graph, inputs), in_torch(graph, inputs))


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt"])
@pytest.mark.parametrize("compute", [in_the_plain_reader, in_onnx, in_the_runtime])
def test_functions_of_positive_numbers_are_the_same(name: str, compute: Callable[..., dict[str, np.ndarray]]) -> None:
    graph = graph_of(make(Function, function=name))
    inputs = {"x": np.abs(inputs_for(graph)["x"]) + np.float32(0.1)}
    assert_close(compute(graph, inputs), in_torch(graph, inputs))


def test_the_cases_have_every_operation_of_version_2() -> None:
    ops = {node.op for node in (*CASES.values(), *BEFORE.values())}
    assert ops >= set(TENSOR_OPERATIONS)


@pytest.mark.parametrize("name", CASES)
def test_every_operation_comes_back_from_its_file_to_the_last_bit(name: str) -> None:
    graph = graph_of(CASES[name])
    content = to_bytes(graph)
    assert to_bytes(from_bytes(content)) == content


@pytest.mark.parametrize("compute", [in_torch, in_the_plain_reader, in_onnx, in_the_runtime])
def test_real_numbers_beyond_a_table_are_its_first_or_last_row(compute: Callable[..., dict[str, np.ndarray]]) -> None:
    table = numbers(4, 3)
    graph = graph_of(make(Embedding, "x", count=4, width=3, weight=table))
    values = np.float32([-1e30, -3, -0.5, 0, 0.9, 1, 2.5, 3, 3.9, 4, 7, 1e9, 3e38])
    places = [0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3]
    x = np.resize(values, (1, 4, 6, 5))
    found = compute(graph, {"x": x})["out"]
    np.testing.assert_array_equal(found, table[np.resize(places, (1, 4, 6, 5))])


def test_functions_are_right_far_from_zero_in_the_runtime() -> None:
    inputs = {"x": np.linspace(-120, 120, 4 * 6 * 5 * 50, dtype=np.float32).reshape(50, 4, 6, 5)}
    for name in FUNCTIONS:
        if name in ("exp", "log", "sqrt", "rsqrt", "reciprocal"):
            continue
        graph = graph_of(make(Function, function=name, parameter=0.3 if name in PARAMETRIC else None))
        assert_close(in_the_runtime(graph, inputs), in_torch(graph, inputs), 1e-6)


def test_the_reader_in_numpy_is_as_short_as_the_format_is_simple() -> None:
    assert len(SCRIPT.read_text().splitlines()) <= 400


def test_a_network_that_needs_nothing_new_is_written_as_version_1() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2)).eval()
    images = torch.randn(2, 3, 8, 8)
    assert from_bytes(adaste.pack(model, images, allow_float=True)).version == 1
    assert b'\\"version\\":1' in adaste.pack(model, images, allow_float=True)
    model[1] = nn.SiLU()
    assert b'\\"version\\":2' in adaste.pack(model, images, allow_float=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": ("x", "x")}, "function takes 1 inputs"),
        ({"function": "cube"}, "function must be one of abs, "),
        ({"function": "elu"}, "elu, leaky_relu have a parameter"),
        ({"parameter": 0.5}, "elu, leaky_relu have a parameter"),
    ],
)
def test_a_wrong_function_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(CASES["tanh"], **change)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (make(Combine, "x", "y", function="add"), "do not fit each other"),
        (make(Reduce, function="sum", axes=(3,), keep=True), "axis must be one of the 3"),
        (make(LayerNorm, axes=1, center=True, epsilon=1e-5, scale=numbers(4)), r"scale must be float32 \(5,\)"),
        (make(GroupNorm, groups=3, epsilon=1e-5), "multiple of groups = 3"),
        (make(Softmax, axis=3), "axis must be one of"),
        (make(Reshape, sides=(7,)), "has not as many numbers"),
        (make(Transpose, axes=(0, 1, 1)), "must be all 3"),
        (make(Slice, axis=0, start=2, count=3, step=1), "the last place would be 4"),
        (make(Expand, sides=(4, 5, 5)), "do not fit each other"),
        (make(Pad, before=(0, 0, 9), after=(0, 0, 0), mode="reflect", value=0.0), "can be padded by 4 with reflect"),
        (make(MatMul, "x", "y"), "cannot be multiplied"),
        (make(Attention, "x", "y", "y", scale=1.0, causal=False), "do not fit each other"),
        (make(Linear, out_features=1, in_features=6, weight=numbers(1, 6), kind="float", relu=False), "6 features"),
        (make(Concatenate, "x", "y", axis=1), "must differ in axis 1 only"),
        (make(Number), "its input is real already"),
        (make(Relu, "t"), "whole numbers are for embeddings and for number"),
    ],
)
def test_operations_on_what_does_not_fit_are_refused(node: Node, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        graph_of(node)


def test_tokens_beyond_the_table_are_refused_by_name() -> None:
    runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    net = runtime.load_bytes(to_bytes(graph_of(CASES["embedding"])))
    for token in (-1, 9):
        with pytest.raises(ValueError, match=r"t must be whole numbers|'t' must hold whole numbers from 0 to 8"):
            net(np.full((2, 5), token))
        with pytest.raises(ValueError, match="whole numbers must be 0 to 8"):
            PackedNetwork(graph_of(CASES["embedding"]))(torch.full((2, 5), token))


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "takes x, y"),
        ({"x": np.zeros((1, 4, 6, 5), np.float32)}, "takes x, y"),
        ({"x": np.zeros((1, 4, 6, 5), np.float32), "z": np.zeros((1, 3, 7, 8), np.float32)}, "takes x, y"),
        (
            {"x": np.zeros((1, 4, 6, 4), np.float32), "y": np.zeros((1, 3, 7, 8), np.float32)},
            r"x must be float32 \(N, 4",
        ),
        ({"x": np.zeros((1, 4, 6, 5)), "y": np.zeros((1, 3, 7, 8), np.float32)}, r"x must be float32 .* got float64"),
        ({"x": np.zeros((1, 4, 6, 5), np.float32), "y": np.zeros((2, 3, 7, 8), np.float32)}, "must have one batch"),
        (
            {"x": np.zeros((1, 4, 6, 5), np.float32), "y": np.full((1, 3, 7, 8), np.nan, np.float32)},
            "'y' holds numbers that are not finite",
        ),
    ],
)
def test_the_runtime_says_what_inputs_a_network_wants(inputs: dict[str, np.ndarray], words: str) -> None:
    runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    nodes = (make(Flatten), Flatten(inputs=("y",), output="flat"))
    outputs = (Output(name="a", value="out"), Output(name="b", value="flat"))
    net = runtime.load_bytes(to_bytes(Graph(inputs=(X, ROWS), producer="a test", nodes=nodes, results=outputs)))
    assert net.input_shapes == {"x": (4, 6, 5), "y": (3, 7, 8)} and net.output_shapes == {"a": (120,), "b": (168,)}
    with pytest.raises(ValueError, match=words):
        net(**inputs)
    with pytest.raises(ValueError, match="does not take images alone"):
        net.input_shape  # noqa: B018


def test_bilinear_and_nearest_are_those_of_torch() -> None:
    x = torch.randn(2, 3, 5, 7)
    for options in ({"mode": "nearest"}, {"mode": "bilinear"}, {"mode": "bilinear", "align_corners": True}):
        for size in ({"size": (8, 3)}, {"scale_factor": 2}, {"scale_factor": 1.7}):
            model = Upsample(**options, **size)
            graph = from_bytes(adaste.pack(model, x))
            assert_close(in_the_runtime(graph, {"input": x.numpy()}), {"logits": model(x).numpy()})


class Upsample(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **self.options)
