"""A network goes to another process as what it is: the content of its file and the ranges of its activations."""

import copy
import pickle
import subprocess
import sys

import adaste_runtime
import numpy as np
import pytest
from networks import floats, residual_network

PROGRAM = """
import pickle, sys
network, images = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(network(images).tobytes())
"""


@pytest.fixture
def packing():
    return residual_network(np.random.default_rng(0))[0]


@pytest.fixture
def images():
    return floats(np.random.default_rng(1), 3, 3, 12, 10)


def test_another_process_computes_the_same_without_the_file(packing, images, tmp_path):
    path = packing.write(tmp_path)
    network = adaste_runtime.load(path, threads=2)
    path.unlink()
    sent = pickle.dumps((network, images))
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=sent, capture_output=True, check=True)
    assert done.stdout == network(images).tobytes()


@pytest.mark.parametrize("calibrated", [False, True])
def test_a_copy_of_an_8_bit_network_has_its_ranges(packing, images, calibrated):
    network = adaste_runtime.load_bytes(packing.content(), int8=True)
    if calibrated:
        network.calibrate(images)
    other = pickle.loads(pickle.dumps(network))
    np.testing.assert_array_equal(other(3 * images), network(3 * images))
    uncalibrated = adaste_runtime.load_bytes(packing.content(), int8=True)
    assert (other(3 * images) == uncalibrated(3 * images)).all() != calibrated


def test_a_copy_is_a_network_of_its_own(packing, images):
    network = adaste_runtime.load_bytes(packing.content(), threads=3, int8=True)
    before = network(3 * images)
    other = copy.copy(network)
    other.calibrate(images)
    assert other.threads == 3
    np.testing.assert_array_equal(network(3 * images), before)
    assert (other(3 * images) != before).any()


def test_ranges_of_another_network_are_refused(packing):
    network = adaste_runtime.load_bytes(packing.content(), int8=True)
    with pytest.raises(ValueError, match="there must be a range for each of 6 layers with weights, got 1"):
        network.__setstate__([(0.0, 1.0)])
