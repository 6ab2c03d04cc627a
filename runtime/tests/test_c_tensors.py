"""The C functions that run any network: inputs and outputs by name, of float and integer types and any rank."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import adaste_runtime
import numpy as np
import pytest
from adaste_runtime import _runtime
from test_version_2 import Packing2, block, floats

FLOAT32, INT64, INT32, UINT8 = 1, 2, 3, 4
TYPES = {np.dtype(np.float32): FLOAT32, np.dtype(np.int64): INT64, np.dtype(np.int32): INT32, np.dtype(np.uint8): UINT8}


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("dimensions", ctypes.c_int), ("shape", ctypes.c_int64 * 8)
    ]  # fmt: skip


class Array(ctypes.Structure):
    """An adaste_input or an adaste_output."""

    _fields_ = [("tensor", Tensor), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def array(name, numbers):
    shape = (ctypes.c_int64 * 8)(*numbers.shape)
    tensor = Tensor(name.encode(), TYPES[numbers.dtype], numbers.ndim, shape)
    return Array(tensor, numbers.ctypes.data, numbers.nbytes)


@pytest.fixture
def library():
    library = ctypes.CDLL(_runtime.__file__)
    library.adaste_load_memory.restype = ctypes.c_void_p
    library.adaste_last_error.restype = ctypes.c_char_p
    return library


@pytest.fixture
def load(library):
    handles = []

    def load(content, threads=2, int8=0):
        handle = ctypes.c_void_p(library.adaste_load_memory(content, ctypes.c_size_t(len(content)), threads, int8))
        assert handle, library.adaste_last_error()
        handles.append(handle)
        return handle

    yield load
    for handle in handles:
        library.adaste_free(handle)


CONTENT = block().content()


def run(library, handle, inputs, outputs):
    """The result of the call, and the message if it is a failure."""
    given, wanted = (Array * len(inputs))(*inputs), (Array * len(outputs))(*outputs)
    result = library.adaste_run_tensors(handle, given, len(inputs), wanted, len(outputs))
    return result, library.adaste_last_error().decode() if result else ""


def batch(count, seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal((count, 4, 6, 5), np.float32), random.integers(0, 9, (count, 5))


@pytest.mark.parametrize("integers", [np.int64, np.int32])
@pytest.mark.parametrize("count", [1, 3, 70])
def test_a_network_of_several_inputs_and_outputs_is_run_by_name_in_any_order(library, load, integers, count):
    x, t = batch(count)
    expected = adaste_runtime.load_bytes(CONTENT)(x, t)
    found = {name: np.full_like(value, 7) for name, value in expected.items()}
    outputs = [array(name, value) for name, value in reversed(found.items())]
    tokens = t.astype(integers)
    assert run(library, load(CONTENT), [array("t", tokens), array("x", x)], outputs) == (0, "")
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_an_output_alone_may_be_wanted(library, load):
    x, t = batch(2)
    expected = adaste_runtime.load_bytes(CONTENT)(x, t)["map"]
    found = np.empty_like(expected)
    assert run(library, load(CONTENT), [array("x", x), array("t", t)], [array("map", found)]) == (0, "")
    np.testing.assert_array_equal(found, expected)


def test_images_of_bytes_are_normalised_and_the_normalisation_can_be_asked_for(library, load):
    packing = Packing2(pixels=("float", 3, 4, 5))
    packing.facts["inputs"][0].update(mean=[0.5, 0.25, 0.75], std=[0.5, 0.25, 1.0])
    packing.node("relu", ["pixels"])
    handle = load(packing.content())
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 3), np.uint8)
    found = np.empty((2, 3, 4, 5), np.float32)
    assert run(library, handle, [array("pixels", images)], [array("out", found)]) == (0, "")
    expected = np.maximum((images / 255 - [0.5, 0.25, 0.75]) / [0.5, 0.25, 1.0], 0).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    mean, std = (ctypes.c_float * 3)(), (ctypes.c_float * 3)()
    assert library.adaste_input_normalisation(handle, 0, mean, std, 3) == 1
    assert (list(mean), list(std)) == ([0.5, 0.25, 0.75], [0.5, 0.25, 1.0])
    for arguments, words in (
        ((1, mean, std, 3), "the number of an input must be 0 to 0, got 1"),
        ((0, mean, std, 4), "the arrays must have one number for each of 3 channels, got 4"),
        ((0, None, std, 3), "the array of means is NULL"),
        ((0, mean, None, 3), "the array of standard deviations is NULL"),
    ):
        assert library.adaste_input_normalisation(handle, *arguments) == -1
        assert library.adaste_last_error().decode() == words
    assert library.adaste_input_normalisation(load(CONTENT), 1, mean, std, 3) == -1
    assert library.adaste_last_error() == b"'t' has no images, which are what is normalised"


def test_a_network_of_a_single_number_is_run(library, load):
    packing = Packing2(x=("float",))
    packing.node("function", ["x"], function="exp")
    x, y = floats(4), np.empty(4, np.float32)
    assert run(library, load(packing.content()), [array("x", x)], [array("out", y)]) == (0, "")
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-5)


def test_no_inputs_need_no_memory(library, load):
    (x, t), rows = batch(0), np.empty((0, 6), np.float32)
    arrays = [array("x", x), array("t", t), array("rows", rows)]
    for each in arrays:
        each.data = None
    assert run(library, load(CONTENT), arrays[:2], arrays[2:]) == (0, "")


def test_8_bit_networks_are_calibrated_by_any_inputs(library, load):
    content = Packing2(x=("float", 7))
    content.linear(np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (5, 7)), ["x"])
    handle, x = load(content.content(), int8=1), floats(4, 7)
    arrays = (Array * 1)(array("x", x))
    assert library.adaste_calibrate_tensors(handle, arrays, 1) == 0
    found, expected = np.empty((4, 5), np.float32), np.empty((4, 5), np.float32)
    run(library, handle, arrays, [array("out", found)])
    run(library, load(content.content(), int8=1), arrays, [array("out", expected)])
    assert (found != expected).any()  # each of these had a range of its own
    assert library.adaste_calibrate_tensors(load(content.content()), arrays, 1) == -1
    assert b"only a network loaded with int8" in library.adaste_last_error()
    assert library.adaste_calibrate_tensors(handle, None, 1) == -1
    assert library.adaste_calibrate_tensors(None, arrays, 1) == -1


def change(place, **fields):
    """A call in which the array at `place` (x, t, rows, map) differs."""

    def spoil(arrays):
        for name, value in fields.items():
            setattr(arrays[place] if name in ("data", "bytes") else arrays[place].tensor, name, value)

    return spoil


def shape(*sides):
    return (ctypes.c_int64 * 8)(*sides)


MAPS = "float32 (any, 4, 6, 5) or uint8 (any, 6, 5, 4)"
BAD = {
    "a name that there is not": (change(0, name=b"y"), "the network has no input 'y'; it has x, t"),
    "an output that there is not": (change(2, name=b"x"), "the network has no output 'x'; it has rows, map"),
    "no name": (change(1, name=None), "the name of input 1 is NULL"),
    "an output without a name": (change(3, name=None), "the name of output 1 is NULL"),
    "an input twice": (change(1, name=b"x"), "the input 'x' is given twice"),
    "an output twice": (change(3, name=b"rows"), "the output 'rows' is given twice"),
    "whole numbers for real ones": (
        change(0, type=INT64),
        f"'x' must be {MAPS}, got int64 (3, 4, 6, 5)",
    ),
    "bytes for whole numbers": (change(1, type=UINT8), "'t' must be int64 or int32 (any, 5), got uint8 (3, 5)"),
    "real numbers for whole ones": (change(1, type=FLOAT32), "'t' must be int64 or int32 (any, 5), got float32 (3, 5)"),
    "bytes of an output": (
        change(3, type=UINT8),
        "'map' must be float32 (any, 4, 6, 2), got uint8 (3, 4, 6, 2)",
    ),
    "a type that is none": (change(0, type=0), f"'x' must be {MAPS}, got an unknown type (3, 4, 6, 5)"),
    "another size": (
        change(0, shape=shape(3, 4, 6, 6)),
        f"'x' must be {MAPS}, got float32 (3, 4, 6, 6)",
    ),
    "images in the order of bytes": (
        change(0, shape=shape(3, 6, 5, 4)),
        f"'x' must be {MAPS}, got float32 (3, 6, 5, 4)",
    ),
    "fewer dimensions": (change(1, dimensions=1), "'t' must be int64 or int32 (any, 5), got int64 (3)"),
    "no dimensions": (change(1, dimensions=0), "'t' must be int64 or int32 (any, 5), got int64 ()"),
    "negative dimensions": (change(1, dimensions=-1), "'t' must have 0 to 8 dimensions, got -1"),
    "too many dimensions": (change(0, dimensions=9), "'x' must have 0 to 8 dimensions, got 9"),
    "another batch": (change(1, shape=shape(2, 5)), "all inputs and outputs must have one batch, got 3 and 2 of 't'"),
    "another batch of an output": (
        change(2, shape=shape(4, 6)),
        "all inputs and outputs must have one batch, got 3 and 4 of 'rows'",
    ),
    "a negative batch": (
        change(0, shape=shape(-1, 4, 6, 5)),
        f"'x' must be {MAPS}, got float32 (-1, 4, 6, 5)",
    ),
    "a batch beyond memory": (
        change(0, shape=shape(2**62, 4, 6, 5)),
        f"the batch must be at most {(2**63 - 1) // (4 * 120)}, got {2**62}",
    ),
    "too few bytes": (change(0, bytes=1436), "'x' float32 (3, 4, 6, 5) has 1440 bytes, got 1436"),
    "too many bytes": (change(3, bytes=2**64 - 1), f"'map' float32 (3, 4, 6, 2) has 576 bytes, got {2**64 - 1}"),
    "no data": (change(1, data=None), "the data of 't' are NULL"),
    "no memory for an output": (change(2, data=None), "the data of 'rows' are NULL"),
    "data at an odd place": (change(0, data=4097), "the data of 'x' must begin at a multiple of 4 bytes"),
    "what a terminal would obey": (change(0, name=b"\x1b[2J"), r"the network has no input '\x1b[2J'; it has x, t"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_call_that_does_not_fit_the_network_is_refused_and_nothing_is_written(library, load, name):
    x, t = batch(3)
    rows, maps = np.full((3, 6), 9, np.float32), np.full((3, 4, 6, 2), 9, np.float32)
    arrays = [array("x", x), array("t", t), array("rows", rows), array("map", maps)]
    spoil, words = BAD[name]
    spoil(arrays)
    assert run(library, load(CONTENT), arrays[:2], arrays[2:]) == (-1, words)
    assert (rows == 9).all() and (maps == 9).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(library, load, value):
    packing = Packing2(x=("float", 5))
    packing.node("relu", ["x"])
    x, y = floats(3, 5), np.empty((3, 5), np.float32)
    x[2, 4] = value
    found = run(library, load(packing.content()), [array("x", x)], [array("out", y)])
    assert found == (-1, "'x' holds numbers that are not finite")


@pytest.mark.parametrize("integers", [np.int64, np.int32])
@pytest.mark.parametrize("value", [-1, 9, 2**31 - 1, 2**32, 2**63 - 1, -(2**63)])
def test_whole_numbers_that_the_network_does_not_know_are_refused(library, load, integers, value):
    x, t = batch(3)
    t[2, 4] = value
    rows = np.empty((3, 6), np.float32)
    tokens = t if integers is np.int64 else np.clip(t, -(2**31), 2**31 - 1).astype(np.int32)
    found = run(library, load(CONTENT), [array("x", x), array("t", tokens)], [array("rows", rows)])
    assert found == (-1, "'t' must hold whole numbers from 0 to 8")


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_wrong_number_of_inputs_is_refused(library, load, count):
    x, t = batch(3)
    rows = np.empty((3, 6), np.float32)
    inputs, outputs = (Array * 2)(array("x", x), array("t", t)), (Array * 1)(array("rows", rows))
    assert library.adaste_run_tensors(load(CONTENT), inputs, count, outputs, 1) == -1
    assert library.adaste_last_error().decode() == f"the network has 2 inputs, got {count}"


@pytest.mark.parametrize("count", [-1, 0, 3, 2**31 - 1])
def test_a_wrong_number_of_outputs_is_refused(library, load, count):
    x, t = batch(3)
    inputs, outputs = (Array * 2)(array("x", x), array("t", t)), (Array * 1)()
    assert library.adaste_run_tensors(load(CONTENT), inputs, 2, outputs, count) == -1
    words = f"the network has 2 outputs, of which one at least is wanted, got {count}"
    assert library.adaste_last_error().decode() == words


def test_null_pointers_are_refused(library, load):
    x, t = batch(1)
    rows = np.empty((1, 6), np.float32)
    inputs, outputs = (Array * 2)(array("x", x), array("t", t)), (Array * 1)(array("rows", rows))
    handle = load(CONTENT)
    for arguments, words in (
        ((None, inputs, 2, outputs, 1), "the network is NULL"),
        ((handle, None, 2, outputs, 1), "the array of inputs is NULL"),
        ((handle, inputs, 2, None, 1), "the array of outputs is NULL"),
    ):
        assert library.adaste_run_tensors(*arguments) == -1
        assert library.adaste_last_error().decode() == words


def test_many_callers_of_one_network_get_what_each_would_get_alone(library, load):
    handle = load(CONTENT)
    alone = adaste_runtime.load_bytes(CONTENT, threads=1)

    def differences(seed):
        x, t = batch(1 + seed % 5, seed)
        expected = alone(x, t)
        found = {name: np.empty_like(value) for name, value in expected.items()}
        outputs = [array(name, value) for name, value in found.items()]
        assert run(library, handle, [array("x", x), array("t", t)], outputs) == (0, "")
        return [name for name, value in expected.items() if (found[name] != value).any()]

    with ThreadPoolExecutor(8) as callers:
        assert not any(callers.map(differences, range(200)))
