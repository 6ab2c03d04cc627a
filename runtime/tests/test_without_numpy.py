"""Networks run on plain memory: numpy, which is slow to import, is not needed for it."""

import subprocess
import sys

import numpy as np
import pytest
from networks import floats, residual_network

PROGRAM = """
import sys, adaste_runtime
network = adaste_runtime.load(sys.argv[1])
images = memoryview(open(sys.argv[2], "rb").read()).cast("f", (2, 3, 12, 10))
outputs = memoryview(bytearray(4 * 2 * network.outputs)).cast("f", (2, network.outputs))
network.run(images, outputs)
assert "numpy" not in sys.modules
print(outputs.tolist())
"""


@pytest.fixture
def net(loaded):
    return loaded(residual_network(np.random.default_rng(0))[0])


def test_a_process_without_numpy_computes_the_same(net, tmp_path):
    model = residual_network(np.random.default_rng(0))[0].write(tmp_path)
    images = floats(np.random.default_rng(1), 2, 3, 12, 10)
    (tmp_path / "images").write_bytes(images.tobytes())
    command = [sys.executable, "-c", PROGRAM, model, tmp_path / "images"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(net(images).tolist())


def test_outputs_go_where_they_are_wanted(net):
    images = np.random.default_rng(1).integers(0, 256, (4, 12, 10, 3), np.uint8)
    outputs = np.zeros((5, net.outputs), np.float32)
    net.run(images, outputs[:4])
    np.testing.assert_array_equal(outputs[:4], net(images))
    assert not outputs[4].any()


@pytest.mark.parametrize(
    ("images", "outputs", "message"),
    [
        (np.zeros((2, 3, 12, 10), np.float64), np.zeros((2, 7), np.float32), r"images must be float32 .* got d \(2, 3"),
        (np.zeros((3, 12, 10), np.float32), np.zeros((2, 7), np.float32), r"images must be .* got float32 \(3, 12"),
        (bytes(3 * 12 * 10), np.zeros((2, 7), np.float32), r"images must be .* got uint8 \(360,\)"),
        (np.zeros((2, 3, 12, 10), np.float32), np.zeros((3, 7), np.float32), r"outputs must be .* float32 \(2, 7\)"),
        (np.zeros((2, 3, 12, 10), np.float32), np.zeros((2, 7)), r"outputs must be .* got format 'd' \(2, 7\)"),
        (np.zeros((2, 3, 12, 10), np.float32), memoryview(bytes(56)).cast("f", (2, 7)), "outputs must be writable"),
        (np.zeros((4, 3, 12, 10), np.float32)[::2], np.zeros((2, 7), np.float32), "without gaps"),
        (np.zeros((2, 3, 12, 10), np.float32), np.zeros((2, 14), np.float32)[:, ::2], "without gaps"),
    ],
)
def test_memory_that_does_not_fit_is_refused(net, images, outputs, message):
    with pytest.raises(ValueError, match=message):
        net.run(images, outputs)
