"""Whatever is wrong with a file, reading it ends with a ValueError that says what."""

import dataclasses
import math
import struct
from collections.abc import Callable

import numpy as np
import pytest
from safetensors.numpy import load as load_safetensors

import adaste
from adaste._util.checks import shorten
from adaste.packed.format import from_bytes, to_bytes
from adaste.packed.graph import Graph
from adaste.packed.nodes import LARGEST, Flatten, MaxPool
from adaste.packed.safetensors import read_container, write_container
from support.packed_files import Parts, taken_apart, with_header
from support.packed_networks import every_operation, image_graph, tiny_graph

TINY = to_bytes(tiny_graph())
WHOLE = to_bytes(every_operation())
RELU = {"op": "relu", "inputs": ["input"], "output": "x"}


def test_the_library_of_the_outer_format_reads_the_same_tensors() -> None:
    tensors = load_safetensors(WHOLE)
    assert tensors.keys() == taken_apart(WHOLE).tensors.keys()
    graph = from_bytes(WHOLE)
    assert np.array_equal(tensors["t1.weight"], graph.nodes[0].weight)


def test_data_are_aligned() -> None:
    assert struct.unpack("<Q", WHOLE[:8])[0] % 8 == 0
    for entry in taken_apart(WHOLE).tensors.values():
        assert entry["dtype"] == "U8" or entry["data_offsets"][0] % 4 == 0


def test_files_that_others_write_may_have_another_order() -> None:
    parts = taken_apart(WHOLE)
    parts.tensors = dict(reversed(parts.tensors.items()))
    parts.facts = dict(reversed(parts.facts.items()))
    assert to_bytes(from_bytes(parts.bytes())) == WHOLE


def test_numbers_that_float32_does_not_hold_are_not_written() -> None:
    graph = tiny_graph()
    object.__setattr__(graph.nodes[1], "scale", np.array([1e300, 1.0]))
    with pytest.raises(ValueError, match="scale of t2 holds numbers that float32 does not"):
        to_bytes(graph)


def test_a_network_is_written_and_read_if_its_description_just_fits_into_the_header() -> None:
    def named(length: int) -> Graph:
        return dataclasses.replace(tiny_graph(), classes=("x" * length, "y"))

    fitting = 8 + 4_194_304 - struct.unpack("<Q", to_bytes(named(8))[:8])[0]
    assert from_bytes(to_bytes(named(fitting))).classes == named(fitting).classes
    with pytest.raises(ValueError, match=r"the header of the file may have 4194304 bytes, .* would have 4194312"):
        to_bytes(named(fitting + 8))


def test_a_network_may_have_10000_nodes() -> None:
    parts = taken_apart(TINY)
    parts.facts["nodes"] += [{**RELU, "output": f"more {place}"} for place in range(9_998)]
    assert len(from_bytes(parts.bytes()).nodes) == 10_000


@pytest.mark.parametrize("whole", [(2**14, 2**13), (2**27, 1)])
def test_an_image_may_have_134217728_numbers(whole: tuple[int, int]) -> None:
    pool = MaxPool(inputs=("input",), output="t1", kernel=whole, stride=(1, 1), padding=(0, 0))
    nodes = (pool, Flatten(inputs=("t1",), output="t2"))
    assert image_graph(input_shape=(1, *whole), producer="a test", nodes=nodes, output="t2").outputs == 1


@pytest.mark.parametrize("shape", [(), (0,), (2**27, 0), (2, 1, 3, 2)])
@pytest.mark.parametrize("dtype", ["<f4", "u1"])
def test_tensors_of_no_side_and_of_four_and_without_a_number_come_back(shape: tuple[int, ...], dtype: str) -> None:
    given = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    text, tensors = read_container(write_container("said", {"given": given}))
    assert text == "said" and tensors.keys() == {"given"}
    assert tensors["given"].dtype == given.dtype and tensors["given"].shape == shape
    assert np.array_equal(tensors["given"], given)


def test_errors_quote_at_most_100_characters() -> None:
    assert shorten("x" * 98) == repr("x" * 98)
    assert shorten("x" * 99) == "'" + "x" * 96 + "..."


# --- files that are no files

RAW = {
    "nothing": (b"", "at least 8 bytes, this one has 0"),
    "seven bytes": (TINY[:7], "at least 8 bytes"),
    "only a length": (TINY[:8], "truncated"),
    "half a header": (TINY[:100], "truncated"),
    "all but the end of the header": (TINY[: 8 + struct.unpack("<Q", TINY[:8])[0] - 1], "truncated: a header of"),
    "half the data": (TINY[:-9], "truncated"),
    "one byte less": (TINY[:-1], "truncated"),
    "one byte more": (TINY + b"\0", "bytes that belong to no tensor"),
    "an endless header": (struct.pack("<Q", 2**63) + TINY[8:], "a header may have"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), r"^not a safetensors file \(it begins like a PNG\)$"),
    "ONNX": (b"\x08\x08\x12\x0cadaste 0.1.0:", r"^not a safetensors file \(it begins like ONNX\)$"),
    "a checkpoint of torch": (b"PK\x03\x04\0\0\x08\x08" + bytes(100), "like a ZIP archive, such as .*adaste export"),
    "text": (b"nothing of the kind, but a text of some length", r"^not a safetensors file \(it begins like text\)$"),
    "what a run leaves": (
        with_header({"__metadata__": {"adaste": '{"recipe": {}, "record": {}, "classes": []}'}}, b""),
        "^this is a checkpoint of a run, not a packed network: use `adaste export`",
    ),
    "metadata of another": (with_header({"__metadata__": {"adaste": '{"recipe": 1}'}}, b""), "__metadata__ must hold"),
    "metadata that are no JSON": (with_header({"__metadata__": {"adaste": "{"}}, b""), "__metadata__ must hold"),
    "no object": (with_header([], b""), "must begin with {"),
    "no JSON": (with_header(b'{"a":}', b""), "the header is not valid JSON"),
    "no UTF-8": (with_header(b'{"\xff":1}', b""), "the header is not valid JSON"),
    "UTF-16": (with_header('{"a":1}'.encode("utf-16"), b""), "must begin with {"),
    "a key twice": (with_header(b'{"a":1,"a":1}', b""), "'a' is given 2 times"),
    "not a number": (with_header(b'{"a":NaN}', b""), "NaN is no number"),
    "nested": (with_header(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", b""), "nested too deeply"),
    "a long number": (with_header(b'{"a":' + b"9" * 10_000 + b"}", b""), "not valid JSON"),
    "no metadata": (with_header({}, b""), "__metadata__ must hold"),
    "other metadata": (with_header({"__metadata__": {"format": "pt"}}, b""), "__metadata__ must hold"),
    "a number as text": (with_header({"__metadata__": {"adaste": 1, "crc32": "0"}}, b""), "must be texts"),
    "half a character": (with_header({"__metadata__": {"adaste": "\ud800", "crc32": "0"}}, b""), "no form in UTF-8"),
    "no description": (with_header({"__metadata__": {"adaste": "", "crc32": "00000000"}}, b""), "description is not"),
    "a flipped weight": (TINY[:-1] + bytes([TINY[-1] ^ 2]), "damaged: its content has the CRC-32"),
}


@pytest.mark.parametrize("name", RAW)
def test_bytes_that_are_no_packed_file_are_refused(name: str) -> None:
    content, words = RAW[name]
    with pytest.raises(ValueError, match=words):
        from_bytes(content)


# --- files with a fitting checksum that say something wrong


def fact(key: str, value: object) -> Callable[[Parts], None]:
    return lambda parts: parts.facts.__setitem__(key, value)


def image(key: str, value: object) -> Callable[[Parts], None]:
    return lambda parts: parts.facts["input"].__setitem__(key, value)


def node(op: str, key: str, value: object) -> Callable[[Parts], None]:
    return lambda parts: parts.node(op).__setitem__(key, value)


def later(op: str, **changes: object) -> Callable[[Parts], None]:
    """A node of this kind once more, behind all others."""
    return lambda parts: parts.facts["nodes"].append({**parts.node(op), "output": "later", **changes})


def tensor(name: str, key: str, value: object) -> Callable[[Parts], None]:
    return lambda parts: parts.tensors[name].__setitem__(key, value)


def floats(name: str, value: float) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        begin = parts.tensors[name]["data_offsets"][0]
        parts.data = parts.data[:begin] + struct.pack("<f", value) + parts.data[begin + 4 :]

    return change


def spare_bit(parts: Parts) -> None:
    end = parts.tensors["t1.weight"]["data_offsets"][1]
    parts.data = parts.data[: end - 1] + bytes([parts.data[end - 1] | 0x80]) + parts.data[end:]


def gap(parts: Parts) -> None:
    parts.data += bytes(8)
    parts.tensors["more"] = {"dtype": "U8", "shape": [4], "data_offsets": [len(parts.data) - 4, len(parts.data)]}


def huge(parts: Parts) -> None:
    """A chain of concatenations, each twice as large."""
    last = parts.facts["nodes"][6]
    for place in range(40):
        parts.facts["nodes"].append({"op": "concatenate", "inputs": [last["output"]] * 2, "output": f"h{place}"})
        last = parts.facts["nodes"][-1]


SAID_WRONG = {
    "another format": (fact("format", "pickle"), "format must be 'adaste-packed'"),
    "a later version": (fact("version", 3), "version must be 1 or 2, which is all this reader knows, got 3"),
    "true as version": (fact("version", True), "version must be 1"),
    "another order of bits": (fact("bit_order", "big"), "bit_order must be 'little'"),
    "an unknown fact": (fact("colour", 1), "unknown key 'colour'"),
    "no nodes": (lambda parts: parts.facts.pop("nodes"), "lacks the key 'nodes'"),
    "nodes that are none": (fact("nodes", {}), "node must be a list"),
    "a node that is none": (fact("nodes", [3]), "node 0 must have an op"),
    "no computation": (fact("nodes", []), "the output 't9' is computed by no node"),
    "too many nodes": (fact("nodes", [RELU] * 10_001), "may have 10000 nodes, got 10001"),
    "an output that is a map": (fact("output", "t1"), "the output must be flat"),
    "an output of nobody": (fact("output", "t99"), "is computed by no node"),
    "an output that is no name": (fact("output", 3), "output must be a text"),
    "too few classes": (fact("classes", ["one"]), "a name for each of 5 classes, got 1"),
    "classes that are no names": (fact("classes", [1, 2, 3, 4, 5]), "classes 0 must be a text"),
    "half a character": (fact("classes", ["\ud800"] * 5), "has no form in UTF-8"),
    "a recipe that is none": (fact("recipe", 7), "recipe must be a text"),
    "a producer that is none": (fact("producer", None), "producer must be a text"),
    "a flat input": (image("shape", [32]), "the input must be"),
    "an empty input": (image("shape", [2, 0, 4]), "the input must have at most 7 axes of 1 to"),
    "a huge input": (image("shape", [2, 2**20, 2**20]), "^a value may hold"),
    "an input of fractions": (image("shape", [2.0, 4, 4]), "must be a whole number"),
    "an input of truths": (image("shape", [True, 4, 4]), "must be a whole number"),
    "other channels": (
        image("shape", [3, 4, 4]),
        "node 0 .convolution -> 't1'.: .* have 2 channels, got 3",
    ),
    "a mean without std": (image("mean", [0.5, 0.5]), "both"),
    "means of other channels": (lambda p: (image("mean", [0.5])(p), image("std", [1.0])(p)), "each of 2 channels"),
    "a std that float32 does not hold": (
        lambda p: (image("mean", [0, 0])(p), image("std", [1, 1e-50])(p)),
        "std positive in float32",
    ),
    "a mean that float32 does not hold": (
        lambda p: (image("mean", [0, 1e39])(p), image("std", [1, 1])(p)),
        "must be finite",
    ),
    "a std of zero": (lambda p: (image("mean", [0, 0])(p), image("std", [1, 0])(p)), "std positive"),
    "an endless mean": (image("mean", [1e999, 0]), "Infinity is no number"),
    "a long mean": (image("mean", [10**4000, 0]), "must be a number that a float holds"),
    "a mean of texts": (image("mean", ["0.5", "0.5"]), "mean 0 must be a number, got '0.5'"),
    "a mean of truths": (image("mean", [True, False]), "mean 0 must be a number, got True"),
    "a std of nothing": (image("std", [1, None]), "std 1 must be a number, got None"),
    "an unknown operation": (node("relu", "op", "gelu"), "node 2 must have an op of convolution, linear, .*got 'gelu'"),
    "an unknown field": (node("relu", "slope", 1), "node 2 .relu. has an unknown key 'slope'"),
    "a missing field": (lambda parts: parts.node("convolution").pop("stride"), "lacks the key 'stride'"),
    "an input from the future": (node("relu", "inputs", ["t9"]), "its input 't9' is not computed before it"),
    "a node of its own output": (node("relu", "inputs", ["t3"]), "its input 't3' is not computed before it"),
    "two values of one name": (node("relu", "output", "t1"), "there is a value 't1' already"),
    "a node that makes the input": (node("relu", "output", "input"), "there is a value 'input' already"),
    "a value without a name": (node("relu", "output", ""), "node 2 .relu.: the name of its output must not be empty"),
    "an input without a name": (node("add", "inputs", ["t5", ""]), "its input '' is not computed before it"),
    "too many inputs": (node("relu", "inputs", ["t1", "t1"]), "relu takes 1 inputs, got 2"),
    "a pool of two maps": (node("max_pool", "inputs", ["t3", "t3"]), "max_pool takes 1 inputs, got 2"),
    "a sum of one value": (node("add", "inputs", ["t5"]), "add takes 2 inputs, got 1"),
    "a sum of three values": (node("add", "inputs", ["t5"] * 3), "add takes 2 inputs, got 3"),
    "a sum of two shapes": (node("add", "inputs", ["t4", "t5"]), "the inputs of a sum must have one shape"),
    "maps of two sizes side by side": (node("concatenate", "inputs", ["t4", "t5"]), "must differ in channels only"),
    "three inputs": (node("convolution", "inputs", ["input"] * 3), "convolution takes 1 to 2 inputs, got 3"),
    "a residual of another shape": (node("linear", "inputs", ["t8", "t8"]), "the residual must have the shape"),
    "too few inputs": (node("concatenate", "inputs", ["t1"]), "concatenate takes"),
    "no stride": (node("convolution", "stride", [0, 1]), "stride must be 1 to"),
    "a negative padding": (node("convolution", "padding", [-1, 1]), "padding must be 0 to"),
    "a stride of three": (node("convolution", "stride", [1, 1, 1]), "a list of two whole numbers"),
    "an absurd padding": (node("convolution", "padding", [2**26, 2**26]), "may hold"),
    "an endless padding": (node("convolution", "padding", [2**70, 1]), "padding must be 0 to"),
    "an absurd kernel": (node("convolution", "kernel", [LARGEST, LARGEST]), "weight must be"),
    "groups that do not divide": (node("convolution", "groups", 3), "must be a multiple of groups = 3"),
    "no groups": (node("convolution", "groups", 0), "groups must be 1 to"),
    "other outputs": (node("convolution", "out_channels", 3), "must be .* got"),
    "a lying width": (node("linear", "in_features", 17), "weight must be"),
    "no outputs": (node("linear", "out_features", 0), "out_features must be 1 to"),
    "no channels": (node("affine", "channels", 0), "channels must be 1 to"),
    "channels of another map": (later("affine", inputs=["t7"]), "the input must have 2 channels, got 4"),
    "an unknown kind": (node("convolution", "kind", "ternary"), "kind must be one of binary, float"),
    "the other kind": (node("convolution", "kind", "float"), "weight must be float32"),
    "relu as a number": (node("convolution", "relu", 1), "must be true or false"),
    "a scale of nobody": (node("linear", "scale", "t9.gain"), "must name a tensor of the file, got 't9.gain'"),
    "a scale that is null": (node("linear", "scale", None), "must name a tensor of the file"),
    "a scale of other length": (node("convolution", "scale", "t1.weight"), "scale must be float32"),
    "a wide pool padding": (node("max_pool", "padding", [2, 0]), "at most half the kernel"),
    "a pool wider than the map": (node("max_pool", "kernel", [9, 2]), "does not fit into"),
    "a pool of a flat value": (later("max_pool", inputs=["t8"]), "the input must be a map .*, got .16,."),
    "a flat value made flat": (later("flatten", inputs=["t8"]), "the input must be a map .*, got .16,."),
    "a pool without a window": (node("max_pool", "kernel", [2, 0]), "kernel must be 1 to"),
    "doubling values": (huge, "may hold 134217728 numbers"),
    "a set bit behind the last": (spare_bit, "behind the last of"),
    "an infinite scale": (floats("t2.scale", float("inf")), "scale must hold finite numbers"),
    "a NaN in a shift": (floats("t2.shift", float("nan")), "shift must hold finite numbers"),
    "a tensor nobody uses": (lambda parts: parts.node("affine").pop("shift"), "no node uses the tensor 't2.shift'"),
    "a tensor that is missing": (lambda parts: parts.tensors.pop("t2.shift"), "leaves a gap|belong to no tensor"),
    "an unknown dtype": (tensor("t2.scale", "dtype", "F16"), "dtype of tensor 't2.scale' must be one of F32, U8"),
    "a dtype that is none": (tensor("t2.scale", "dtype", ["F32"]), "dtype of tensor"),
    "a lying shape": (tensor("t2.scale", "shape", [3]), "has 12 bytes, its data_offsets .* hold 8"),
    "a negative shape": (tensor("t2.scale", "shape", [-2]), "must have 0 to 4 sides"),
    "an absurd shape": (tensor("t2.scale", "shape", [2**27 + 1, 0]), "must have 0 to 4 sides of at most 134217728"),
    "a shape of five sides": (tensor("t2.scale", "shape", [1, 1, 1, 1, 2]), "must have 0 to 4 sides"),
    "a shape that is none": (tensor("t2.scale", "shape", "2"), "must have 0 to 4 sides"),
    "offsets the other way": (tensor("t2.scale", "data_offsets", [8, 0]), "a begin and an end"),
    "offsets beyond the end": (tensor("t2.scale", "data_offsets", [10**9, 10**9 + 8]), "truncated"),
    "overlapping tensors": (tensor("t2.scale", "data_offsets", [4, 12]), "overlaps|leaves a gap"),
    "a gap": (gap, "leaves a gap before it"),
    "an entry without offsets": (lambda parts: parts.tensors["t2.scale"].pop("data_offsets"), "must have a dtype"),
    "an entry that is none": (lambda parts: parts.tensors.__setitem__("t2.scale", 1), "must have a dtype"),
}


@pytest.mark.parametrize("name", SAID_WRONG)
def test_a_file_that_says_something_wrong_is_refused(name: str) -> None:
    change, words = SAID_WRONG[name]
    parts = taken_apart(WHOLE)
    change(parts)
    with pytest.raises(ValueError, match=words):
        from_bytes(parts.bytes())


def test_a_number_too_large_for_a_float_is_infinite_and_refused() -> None:
    text, tensors = read_container(TINY)
    with pytest.raises(ValueError, match="mean and std must be finite"):
        from_bytes(write_container(text.replace("0.25", "1e999"), tensors))


def test_the_error_names_the_file(tmp_path) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(TINY[:-1])
    with pytest.raises(ValueError, match=r"broken\.safetensors: the file is truncated"):
        adaste.load_packed(path)


@pytest.mark.parametrize("letter", ["\x1b", "\n", "\0", "\x85", "\u202e"])
def test_errors_escape_what_a_file_says(letter: str) -> None:
    name = f"a{letter}b" + 1000 * "x"
    for change in (
        fact("format", name),
        fact("output", name),
        fact(name, 1),
        node("relu", "op", name),
        node("relu", name, 1),
        node("relu", "inputs", [name]),
        node("add", "output", name),
        node("convolution", "kind", name),
        node("linear", "scale", name),
        lambda parts: parts.tensors.__setitem__(name, 1),
        tensor("t2.scale", "dtype", name),
    ):
        parts = taken_apart(WHOLE)
        change(parts)
        with pytest.raises(ValueError) as caught:
            from_bytes(parts.bytes())
        assert str(caught.value).isprintable() and len(str(caught.value)) < 400
