"""The C interface, called as C does: the Python module is a library with it."""

import ctypes

import adaste_runtime
import numpy as np
import pytest
from adaste_runtime import _runtime
from cmake_build import build
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
    mean, tensor = (ctypes.c_float * 3)(), Tensor()
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
        "network      ": (lambda: library.adaste_input_count(null), -1),
        "network       ": (lambda: library.adaste_output_count(null), -1),
        "network        ": (lambda: library.adaste_describe_input(null, 0, ctypes.byref(tensor)), -1),
        "network         ": (lambda: library.adaste_describe_output(null, 0, ctypes.byref(tensor)), -1),
        "description": (lambda: library.adaste_describe_input(network, 0, null), -1),
        "description ": (lambda: library.adaste_describe_output(network, 0, null), -1),
        "network          ": (lambda: library.adaste_normalisation(null, mean, mean, 3), -1),
        "array of means": (lambda: library.adaste_normalisation(network, null, mean, 3), -1),
        "array of standard deviations": (lambda: library.adaste_normalisation(network, mean, null, 3), -1),
        "network           ": (lambda: library.adaste_class_count(null), -1),
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


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("dimensions", ctypes.c_int), ("shape", ctypes.c_int64 * 8)
    ]  # fmt: skip


def test_the_version_is_that_of_the_package(library):
    library.adaste_version.restype = ctypes.c_char_p
    assert library.adaste_version().decode() == adaste_runtime.__version__


def test_names_types_and_shapes_of_inputs_and_outputs_can_be_asked_for(library, network):
    assert library.adaste_input_count(network) == library.adaste_output_count(network) == 1
    tensor = Tensor(b"other", 9, 9, (ctypes.c_int64 * 8)(*range(8)))
    assert library.adaste_describe_input(network, 0, ctypes.byref(tensor)) == 0
    assert (tensor.name, tensor.type, tensor.dimensions) == (b"input", 1, 4)
    assert list(tensor.shape) == [-1, 3, 12, 10, 0, 0, 0, 0]
    assert library.adaste_describe_output(network, 0, ctypes.byref(tensor)) == 0
    assert (tensor.name, tensor.type, tensor.dimensions) == (b"logits", 1, 2)
    assert list(tensor.shape) == [-1, 7, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["input", "output"])
@pytest.mark.parametrize("number", [-1, 1, 2**31 - 1])
def test_an_input_or_output_that_is_not_there_is_an_error(library, network, kind, number):
    tensor = Tensor(b"other", 9, 9)
    assert getattr(library, f"adaste_describe_{kind}")(network, number, ctypes.byref(tensor)) == -1
    assert last_error(library) == f"the number of an {kind} must be 0 to 0, got {number}"
    assert (tensor.name, tensor.type, tensor.dimensions) == (b"other", 9, 9)


@pytest.mark.parametrize("normalised", [True, False])
def test_the_normalisation_of_bytes_can_be_asked_for(library, normalised):
    packing = residual_network(np.random.default_rng(0))[0]
    facts = {"mean": [0.25, 0.5, 0.1], "std": [0.5, 0.25, 0.3]} if normalised else {"mean": None, "std": None}
    packing.facts["input"].update(facts)
    content = packing.content()
    handle = ctypes.c_void_p(library.adaste_load_memory(content, ctypes.c_size_t(len(content)), 1, 0))
    mean, std = (ctypes.c_float * 3)(7, 7, 7), (ctypes.c_float * 3)(7, 7, 7)
    assert library.adaste_normalisation(handle, mean, std, 3) == int(normalised)
    assert list(mean) == (np.float32([0.25, 0.5, 0.1]).tolist() if normalised else [7, 7, 7])
    assert list(std) == (np.float32([0.5, 0.25, 0.3]).tolist() if normalised else [7, 7, 7])
    library.adaste_free(handle)


@pytest.mark.parametrize("channels", [-1, 0, 2, 4, 2**31 - 1])
def test_arrays_of_another_length_than_the_channels_are_refused(library, network, channels):
    mean, std = (ctypes.c_float * 3)(7, 7, 7), (ctypes.c_float * 3)(7, 7, 7)
    assert library.adaste_normalisation(network, mean, std, channels) == -1
    assert last_error(library) == f"the arrays must have one number for each of 3 channels, got {channels}"
    assert list(mean) == list(std) == [7, 7, 7]


def test_the_number_of_named_classes_can_be_asked_for(library, network):
    assert library.adaste_class_count(network) == 7
    packing = residual_network(np.random.default_rng(0))[0]
    packing.facts["classes"] = None
    content = packing.content()
    handle = ctypes.c_void_p(library.adaste_load_memory(content, ctypes.c_size_t(len(content)), 1, 0))
    assert library.adaste_class_count(handle) == 0
    library.adaste_free(handle)


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, (4 << 30) + 1])
def test_more_bytes_than_a_file_may_have_are_refused_unread(library, size):
    assert library.adaste_load_memory(b"", ctypes.c_size_t(size), 1, 0) is None
    assert last_error(library) == f"the file has {size} bytes; allowed are {4 << 30}"


@pytest.mark.parametrize("threads", [-1, -(2**31), 1025, 2**31 - 1])
def test_a_number_of_threads_that_cannot_be_is_refused(library, threads):
    content = residual_network(np.random.default_rng(0))[0].content()
    assert library.adaste_load_memory(content, ctypes.c_size_t(len(content)), threads, 0) is None
    assert last_error(library).startswith("threads must be ") and last_error(library).endswith(f"got {threads}")


IMAGE, VECTOR, TOKENS = (4, 0), (2, 0), (2, 1)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([IMAGE], [VECTOR], ""),
        ([IMAGE, IMAGE], [VECTOR], "in 0 float32 (any, 5, 5, 5), in 1 float32 (any, 5, 5, 5) and the outputs out 0 fl"),
        ([TOKENS], [VECTOR], "has the inputs in 0 int64 (any, 5) and the outputs out 0 float32 (any, 5)"),
        ([(4, 1)], [VECTOR], "has the inputs in 0 int64 (any, 5, 5, 5) and"),
        ([IMAGE], [VECTOR, IMAGE], "the outputs out 0 float32 (any, 5), out 1 float32 (any, 5, 5, 5)"),
        ([IMAGE], [IMAGE], "the outputs out 0 float32 (any, 5, 5, 5)"),
    ],
)
def test_functions_for_images_say_what_another_network_takes_and_gives(inputs, outputs, message):
    refusal = ctypes.CDLL(str(build("adaste_testing") / "libadaste_testing.so")).adaste_refusal
    refusal.restype = ctypes.c_char_p
    flat = [(ctypes.c_int * (2 * len(tensors)))(*(number for facts in tensors for number in facts))
            for tensors in (inputs, outputs)]  # fmt: skip
    said = refusal(len(inputs), flat[0], len(outputs), flat[1]).decode()
    assert message in said and bool(said) == bool(message)
