"""The C interface, called as C does: the Python module is a library with it."""

import ctypes

import numpy as np
import pytest
from adaste_runtime import _runtime
from networks import floats, residual_network


@pytest.fixture
def library():
    library = ctypes.CDLL(_runtime.__file__)
    for name in ("adaste_load_file", "adaste_load_memory"):
        getattr(library, name).restype = ctypes.c_void_p
    for name in ("adaste_last_error", "adaste_class_name"):
        getattr(library, name).restype = ctypes.c_char_p
    return library


def test_a_network_is_loaded_run_and_freed(library, loaded, tmp_path):
    rng = np.random.default_rng(0)
    packing = residual_network(rng)[0]
    images = floats(rng, 3, 3, 12, 10)
    pixels = rng.integers(0, 256, (3, 12, 10, 3), np.uint8)
    net = loaded(packing)
    content = packing.content()
    outputs = np.empty((3, 7), np.float32)
    for network in (
        library.adaste_load_file(str(packing.write(tmp_path)).encode(), 2, 0),
        library.adaste_load_memory(content, ctypes.c_size_t(len(content)), 1, 0),
    ):
        handle = ctypes.c_void_p(network)
        shape = (ctypes.c_int * 3)()
        library.adaste_input_shape(handle, shape)
        assert tuple(shape) == (3, 12, 10)
        assert library.adaste_output_size(handle) == 7
        assert library.adaste_class_name(handle, 6) == b"class 6"
        assert library.adaste_class_name(handle, 7) is None
        assert library.adaste_class_name(handle, -1) is None
        count = ctypes.c_size_t(3)
        assert library.adaste_run(handle, images.ctypes, count, outputs.ctypes) == 0
        np.testing.assert_array_equal(outputs, net(images))
        assert library.adaste_run_bytes(handle, pixels.ctypes, count, outputs.ctypes) == 0
        np.testing.assert_array_equal(outputs, net(pixels))
        assert library.adaste_calibrate(handle, images.ctypes, count) == -1
        assert b"only a network loaded with int8" in library.adaste_last_error()
        library.adaste_free(handle)


def test_failures_have_a_message(library):
    assert library.adaste_load_file(b"/nowhere/at/all", 1, 0) is None
    assert library.adaste_last_error() == b"/nowhere/at/all: there is no such file"
    assert library.adaste_load_file(None, 1, 0) is None
    assert library.adaste_last_error() == b"the path is NULL"
    assert library.adaste_load_memory(b"abc", ctypes.c_size_t(3), 1, 0) is None
    assert b"has 3 bytes" in library.adaste_last_error()
    library.adaste_free(None)


def test_8_bit_networks_are_calibrated(library):
    rng = np.random.default_rng(0)
    content = residual_network(rng)[0].content()
    handle = ctypes.c_void_p(library.adaste_load_memory(content, ctypes.c_size_t(len(content)), 1, 1))
    images = floats(rng, 3, 3, 12, 10)
    assert library.adaste_calibrate(handle, images.ctypes, ctypes.c_size_t(3)) == 0
    library.adaste_free(handle)
