"""What a network says of itself, from a file or from the bytes of one."""

import json
import mmap

import adaste_runtime
import numpy as np
import pytest
from networks import floats, residual_network
from packing import Packing


@pytest.fixture
def packing():
    return residual_network(np.random.default_rng(0))[0]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_network_is_loaded_from_bytes_as_from_its_file(packing, tmp_path, kind):
    images = floats(np.random.default_rng(1), 2, 3, 12, 10)
    expected = adaste_runtime.load(packing.write(tmp_path), int8=True)(images)
    content = kind(packing.content())
    net = adaste_runtime.load_bytes(content, threads=2, int8=True)
    if kind is bytearray:
        content[:] = bytes(len(content))  # not needed any more
    assert net.threads == 2
    np.testing.assert_array_equal(net(images), expected)


def test_a_network_is_loaded_from_a_mapped_file(packing, tmp_path):
    with packing.write(tmp_path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert adaste_runtime.load_bytes(mapped).outputs == 7


@pytest.mark.parametrize("content", ["text", 5, None, [1, 2], np.float32])
def test_only_bytes_are_content(content):
    with pytest.raises(ValueError, match="content must be the bytes of a packed file, got"):
        adaste_runtime.load_bytes(content)


def test_bad_content_and_threads_are_refused(packing):
    with pytest.raises(ValueError, match=r"^the file has 3 bytes"):
        adaste_runtime.load_bytes(b"abc")
    with pytest.raises(ValueError, match="threads must be 1 to 1024"):
        adaste_runtime.load_bytes(packing.content(), threads=0)


def test_mean_and_std_are_those_of_the_file_to_the_last_bit():
    packing = Packing((2, 1, 3), mean=[0.4914, 1 / 3], std=[0.2023, 7], classes=None)
    packing.node("flatten")
    net = adaste_runtime.load_bytes(packing.content())
    assert (net.mean, net.std, net.classes, net.input_shape) == ((0.4914, 1 / 3), (0.2023, 7.0), None, (2, 1, 3))
    packing.facts["input"].update(mean=None, std=None)
    packing.facts["classes"] = list("abcdef")
    net = adaste_runtime.load_bytes(packing.content())
    assert (net.mean, net.std, net.classes) == (None, None, list("abcdef"))


def test_a_description_holds_every_fact_and_node(packing):
    packing.facts["recipe"] = "0123"
    found = adaste_runtime.load_bytes(packing.content()).describe()
    nodes = found.pop("nodes")
    assert found == {
        "input_shape": [3, 12, 10],
        "mean": [0.5] * 3,
        "std": [0.25] * 3,
        "outputs": 7,
        "classes": [f"class {i}" for i in range(7)],
        "recipe": "0123",
        "producer": "tests",
        "binary_weights": 2 * 16 * 16 * 9 + 16 * 4 + 24 * 960,
        "float_weights": 16 * 27 + 7 * 24,
    }
    assert [(node["op"], node["output"]) for node in nodes] == [(n["op"], n["output"]) for n in packing.nodes]
    first, last = nodes[0], nodes[-1]
    assert (first["shape"], first["weights"], first["bits"]) == ([16, 12, 10], 16 * 27, 32) and first["kernel"]
    assert (last["op"], last["shape"], last["bits"]) == ("linear", [7], 32)
    assert {key: nodes[3][key] for key in ("op", "shape", "weights", "bits", "kernel")} == {
        "op": "max_pool", "shape": [16, 6, 5], "weights": 0, "bits": 0, "kernel": None,
    }  # fmt: skip
    json.dumps(found)
