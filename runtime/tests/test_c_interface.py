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
    library.adaste_input_shape.restype = None
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
        library.adaste_load_memory(content, ctypes.c_size_t(len(content)), 0, 0),
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


@pytest.fixture
def network(library):
    content = residual_network(np.random.default_rng(0))[0].content()
    handle = ctypes.c_void_p(library.adaste_load_memory(content, ctypes.c_size_t(len(content)), 1, 1))
    yield handle
    library.adaste_free(handle)


def last_error(library):
    return library.adaste_last_error().decode()


@pytest.mark.parametrize("count", [2**64 - 1, 2**63, 2**63 // (4 * 360) + 1])
def test_more_images_than_memory_can_hold_are_refused(library, network, count):
    images, pixels = np.zeros((1, 3, 12, 10), np.float32), np.zeros((1, 12, 10, 3), np.uint8)
    outputs = np.full((1, 7), 9, np.float32)
    for call in (
        lambda: library.adaste_run(network, images.ctypes, ctypes.c_size_t(count), outputs.ctypes),
        lambda: library.adaste_run_bytes(network, pixels.ctypes, ctypes.c_size_t(count), outputs.ctypes),
        lambda: library.adaste_calibrate(network, images.ctypes, ctypes.c_size_t(count)),
    ):
        assert library.adaste_load_file(None, 1, 0) is None  # so that the message below is a new one
        assert call() == -1
        assert last_error(library) == f"there must be at most {(2**63 - 1) // (4 * 360)} images, got {count}"
    assert (outputs == 9).all()


def test_null_pointers_are_an_error_of_every_function(library, network):
    one, null = ctypes.c_size_t(1), ctypes.c_void_p(None)
    images, outputs = np.zeros((1, 3, 12, 10), np.float32), np.zeros((1, 7), np.float32)
    shape = (ctypes.c_int * 3)(1, 2, 3)
    calls = {
        "path": (lambda: library.adaste_load_file(null, 1, 0), None),
        "array of bytes": (lambda: library.adaste_load_memory(null, ctypes.c_size_t(100), 1, 0), None),
        "array of the shape": (lambda: library.adaste_input_shape(network, null), None),
        "array of images": (lambda: library.adaste_run(network, null, one, outputs.ctypes), -1),
        "array of outputs": (lambda: library.adaste_run(network, images.ctypes, one, null), -1),
        "array of images ": (lambda: library.adaste_run_bytes(network, null, one, outputs.ctypes), -1),
        "array of outputs ": (lambda: library.adaste_run_bytes(network, images.ctypes, one, null), -1),
        "array of images  ": (lambda: library.adaste_calibrate(network, null, one), -1),
        "network": (lambda: library.adaste_run(null, images.ctypes, one, outputs.ctypes), -1),
        "network ": (lambda: library.adaste_run_bytes(null, images.ctypes, one, outputs.ctypes), -1),
        "network  ": (lambda: library.adaste_calibrate(null, images.ctypes, one), -1),
        "network   ": (lambda: library.adaste_output_size(null), -1),
        "network    ": (lambda: library.adaste_class_name(null, 0), None),
        "network     ": (lambda: library.adaste_input_shape(null, shape), None),
    }
    for name, (call, failure) in calls.items():
        assert library.adaste_load_file(b"/nowhere", 1, 0) is None
        assert call() == failure, name
        assert last_error(library) == f"the {name.strip()} is NULL"
    assert list(shape) == [0, 0, 0]
    library.adaste_free(null)


def test_no_images_need_no_memory(library, network):
    none, null = ctypes.c_size_t(0), ctypes.c_void_p(None)
    assert library.adaste_run(network, null, none, null) == 0
    assert library.adaste_run_bytes(network, null, none, null) == 0


def test_messages_hold_nothing_of_a_file_that_a_terminal_would_obey(library):
    packing = residual_network(np.random.default_rng(0))[0]
    packing.nodes[0]["op"] = "\x1b[2J\0\r\n\x9b\u202eé日" + 5000 * "x"
    content = packing.content()
    assert library.adaste_load_memory(content, ctypes.c_size_t(len(content)), 1, 0) is None
    message = last_error(library)
    assert message.isprintable() and len(message) < 250
    assert r"'\x1b[2J\x00\x0d\x0a\x9b\u202eé日xxx" in message and message.endswith("xxx...'")
    assert library.adaste_load_file(b"/nowhere/\xff\x1b", 1, 0) is None
    assert last_error(library) == r"/nowhere/\xff\x1b: there is no such file"
