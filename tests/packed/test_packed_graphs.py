"""Random packed networks: the file, the folded form, the numpy reader and ONNX all compute the same."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaste.packed.format import from_bytes, to_bytes
from adaste.packed.graph import Graph
from adaste.packed.nodes import Affine, Convolution, Epilogue, MaxPool, Relu
from adaste.packed.pack import fold
from support.packed_networks import RandomGraph, assert_same, computed, image_graph, images_for, tiny_graph

SCRIPT = Path(__file__).parents[2] / "examples" / "read_packed.py"

modest = settings(deadline=None, derandomize=True, max_examples=60)
few = settings(deadline=None, derandomize=True, max_examples=15)
seeds, steps = st.integers(0, 2**32 - 1), st.integers(0, 9)


def load_reader():
    spec = importlib.util.spec_from_file_location("read_packed", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reader = load_reader()


@modest
@given(seeds, steps)
def test_a_network_comes_back_from_its_file_to_the_last_bit(seed, steps):
    graph = RandomGraph(seed, traced=False).graph(steps)
    content = to_bytes(graph)
    back = from_bytes(content)
    assert to_bytes(back) == content == to_bytes(graph)
    assert np.array_equal(computed(back, images_for(graph)), computed(graph, images_for(graph)))


@modest
@given(seeds, steps)
def test_folding_changes_the_nodes_and_not_the_logits(seed, steps):
    graph = RandomGraph(seed, traced=True).graph(steps)
    nodes = fold(graph.nodes, graph.output)
    folded = image_graph(input_shape=graph.input_shape, producer="a test", nodes=nodes, output=graph.output)
    assert len(nodes) <= len(graph.nodes)
    assert_same(computed(folded, images_for(graph)), computed(graph, images_for(graph)))


@modest
@given(seeds, steps)
def test_the_reader_in_numpy_computes_the_same(seed, steps):
    graph = RandomGraph(seed, traced=False).graph(steps)
    facts, tensors = reader.unpacked(to_bytes(graph))
    images = images_for(graph)
    assert_same(reader.run(facts, tensors, images), computed(graph, images))


@few
@given(seeds, steps)
def test_onnxruntime_computes_the_same(seed, steps):
    runtime = pytest.importorskip("onnxruntime")
    from adaste.packed.onnx import to_onnx

    graph = RandomGraph(seed, traced=False).graph(steps)
    session = runtime.InferenceSession(to_onnx(graph), providers=["CPUExecutionProvider"])
    images = images_for(graph)
    (logits,) = session.run(None, {"input": images})
    assert_same(logits, computed(graph, images))


def pooled(scale: list[float]) -> Graph:
    """convolution - max pool - scale and shift - ReLU."""
    random = RandomGraph(0, traced=True)
    random.shapes = {"input": (1, 4, 4)}
    random.put(
        random.layer(
            Convolution,
            "input",
            (2, 1, 3, 3),
            out_channels=2,
            in_channels=1,
            kernel=(3, 3),
            stride=(1, 1),
            padding=(1, 1),
            groups=1,
        )
    )
    random.put(MaxPool(inputs=("t1",), output="t2", kernel=(2, 2), stride=(2, 2), padding=(1, 1)))
    scale_array = np.array(scale, np.float32)
    random.put(Affine(inputs=("t2",), output="t3", channels=2, scale=scale_array, shift=scale_array - 1, relu=False))
    random.put(Relu(inputs=("t3",), output="t4"))
    return random.graph(0)


@pytest.mark.parametrize(
    ("scale", "ops"),
    [
        ([0.5, 2.0], ["convolution", "max_pool", "flatten", "linear"]),
        ([0.5, 0.0], ["convolution", "max_pool", "flatten", "linear"]),
        ([0.5, -2.0], ["convolution", "max_pool", "affine", "flatten", "linear"]),
    ],
)
def test_a_scale_passes_a_max_pool_only_where_it_does_not_turn_the_order_round(scale, ops):
    graph = pooled(scale)
    nodes = fold(graph.nodes, graph.output)
    assert [node.op for node in nodes] == ops
    assert [node.relu for node in nodes if isinstance(node, Epilogue)].count(True) == 1
    folded = image_graph(input_shape=(1, 4, 4), producer="a test", nodes=nodes, output=graph.output)
    assert_same(computed(folded, images_for(graph, 20)), computed(graph, images_for(graph, 20)))


def test_the_reader_in_numpy_prints_the_best_classes_of_images_in_a_file(tmp_path):
    (tmp_path / "tiny.safetensors").write_bytes(to_bytes(tiny_graph()))
    pixels = np.array([[[[255], [0]], [[255], [0]]], [[[0], [255]], [[0], [255]]]], np.uint8)
    np.save(tmp_path / "images.npy", pixels)
    command = [sys.executable, str(SCRIPT), str(tmp_path / "tiny.safetensors"), str(tmp_path / "images.npy")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    normal = (pixels / 255 - 0.5).transpose(0, 3, 1, 2).astype(np.float32) / 0.25
    logits = computed(tiny_graph(), normal)
    names = np.array(["no", "yes"])
    best = [[f"{names[place]} {row[place]:.2f}" for place in np.argsort(-row)] for row in logits]
    assert printed.splitlines() == [", ".join(row) for row in best]
    assert "damaged" in _complaint(tmp_path)


def _complaint(folder: Path) -> str:
    content = bytearray((folder / "tiny.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "tiny.safetensors").write_bytes(content)
    command = [sys.executable, str(SCRIPT), str(folder / "tiny.safetensors"), str(folder / "images.npy")]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_the_reader_in_numpy_is_as_short_as_the_format_is_simple():
    assert len(SCRIPT.read_text().splitlines()) <= 60
