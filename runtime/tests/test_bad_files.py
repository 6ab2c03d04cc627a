"""Whatever is wrong with a file, loading it is a ValueError that says what."""

import json
import os
import struct

import adaste_runtime
import numpy as np
import pytest
from networks import forcible_kernels, residual_network
from packing import Packing, container


def good():
    return residual_network(np.random.default_rng(0))[0]


def refused(tmp_path, content, match):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match) as caught:
        adaste_runtime.load(path)
    assert str(caught.value).startswith(str(path))


def spoiled(node, **changes):
    packing = good()
    packing.nodes[node].update(changes)
    return packing.content()


def without(node, key):
    packing = good()
    del packing.nodes[node][key]
    return packing.content()


def described(**changes):
    packing = good()
    packing.facts.update(changes)
    return packing.content()


def with_tensor(name, value):
    packing = good()
    packing.tensors[name] = value
    return packing.content()


def with_header(change):
    return container({"adaste": json.dumps(good().facts)}, good().tensors, header=[change])


def with_text(text):
    return container({"adaste": text}, {})


def with_entry(**changes):
    return with_header(lambda header: header["t0.weight"].update(changes))


def long_header(text):
    return struct.pack("<Q", len(text)) + text


NAN = np.full(16, np.nan, np.float32)
CONTENTS = {
    "empty": (b"", "has 0 bytes"),
    "short": (b"\x01\x00", "has 2 bytes"),
    "header longer than the file": (struct.pack("<Q", 1000) + b"{}", "cut off or no safetensors"),
    "huge header": (struct.pack("<Q", 2**63) + b"{}", "allowed are"),
    "no JSON": (long_header(b"{abc"), "not valid JSON: a key that is no string at byte 1"),
    "no value": (long_header(b'{"a":b}'), "not valid JSON: something that is no value at byte 5"),
    "deep JSON": (long_header(b'{"a":' + b"[" * 100000), "too many levels"),
    "many values": (long_header(b'{"a":[' + b"0," * 600000 + b"0]}"), "too many values"),
    "a key twice": (long_header(b'{"a":1,"a":2}'), "a key for the second time"),
    "text behind": (long_header(b"{} {}"), "text after the value"),
    "not UTF-8": (long_header(b'{"\xff":1}'), "not UTF-8"),
    "half a surrogate": (long_header(b'{"\\ud800":1}'), "surrogate"),
    "bad escape": (long_header(b'{"\\x":1}'), "unknown escape"),
    "control character": (long_header(b'{"\n":1}'), "control character"),
    "leading zero": (long_header(b'{"a":01}'), "leading zero"),
    "number without end": (long_header(b'{"a":1.'), "without digits after its point"),
    "exponent without end": (long_header(b'{"a":1e'), "without digits in its exponent"),
    "huge number": (long_header(b'{"a":1e999}'), "too large"),
    "string without end": (long_header(b'{"a'), "a string without end"),
    "list": (long_header(b"[]"), "does not begin with"),
    "space before": (long_header(b" {}"), "does not begin with"),
    "no header": (long_header(b""), "does not begin with"),
    "no metadata": (long_header(b"{}"), "has no __metadata__"),
    "metadata of numbers": (long_header(b'{"__metadata__":{"adaste":1}}'), "'adaste' of __metadata__ must be a string"),
    "metadata is a list": (long_header(b'{"__metadata__":[]}'), "__metadata__ must be an object"),
    "metadata with more": (with_header(lambda h: h["__metadata__"].update(more="")), "unknown key 'more'"),
    "no checksum": (with_header(lambda h: h["__metadata__"].pop("crc32")), "lacks the key 'crc32'"),
    "long checksum": (with_header(lambda h: h["__metadata__"].update(crc32="0" * 99)), "the file is damaged"),
    "cut": (good().content()[:-1], "data_offsets"),
    "longer": (good().content() + b"x", "unused bytes after the last tensor"),
    "damaged": (good().content()[:-1] + b"\x55", "the file is damaged"),
    "no description": (with_text("{"), "not valid JSON"),
    "description is a list": (with_text("[]"), "the description must be an object"),
    "empty description": (with_text("{}"), "lacks the key 'format'"),
    "dtype": (with_tensor("t0.weight", np.zeros((16, 3, 3, 3))), "dtype F64"),
    "tensor is a number": (with_header(lambda header: header.update({"t0.weight": 1})), "must be an object"),
    "tensor with more": (with_entry(more=1), "unknown key 'more'"),
    "negative offset": (with_entry(data_offsets=[-1, 4]), "whole numbers from 0"),
    "fraction": (with_entry(data_offsets=[0.5, 4]), "whole numbers from 0"),
    "three offsets": (with_entry(data_offsets=[0, 1, 2]), "two data_offsets"),
    "offsets reversed": (with_entry(data_offsets=[8, 4]), "data_offsets 8 to 4"),
    "offset far away": (with_entry(data_offsets=[0, 2**52]), "data end at"),
    "shape of another size": (with_entry(shape=[16, 3, 3, 2]), "its shape needs 1152"),
    "shape that overflows": (with_entry(shape=[2**32, 2**32, 2**32]), "larger than the file"),
    "many dimensions": (with_entry(shape=[1] * 5), "more than 4"),
    "tensor of nobody": (with_tensor("extra", np.zeros(3, np.float32)), "no node uses the tensor 'extra'"),
    "whole number with a point": (spoiled(0, groups=1.0), "'groups' of node 0 .* must be a whole number"),
    "recipe": (described(recipe=1), "'recipe' of the description must be a string"),
    "producer": (described(producer=None), "'producer' of the description must be a string"),
    "overlap": (with_header(lambda h: h["t1.weight"].update(data_offsets=[1, 289])), "overlaps"),
    "format": (described(format="onnx"), "format must be 'adaste-packed', got 'onnx'"),
    "version": (described(version=3), "version must be 1 or 2.*got 3"),
    "bit order": (described(bit_order="big"), "bit_order must be 'little'"),
    "unknown key": (described(extra=1), "unknown key 'extra'"),
    "output of nobody": (described(output="t99"), "'t99' is computed by no node"),
    "output is a map": (described(output="t3"), "the output must be flat"),
    "classes": (described(classes=["a"]), "a name for each of 7 classes, got 1"),
    "classes of numbers": (described(classes=[1] * 7), "a list of strings"),
    "input shape": (described(input={"shape": [3, 12], "mean": None, "std": None}), "it has 2 numbers"),
    "input of zero": (described(input={"shape": [3, 0, 1], "mean": None, "std": None}), "must be 1 to"),
    "huge input": (
        described(input={"shape": [3, 2**26, 2**26], "mean": None, "std": None}),
        "at most 134217728 numbers",
    ),
    "mean": (described(input={"shape": [3, 12, 10], "mean": [0.5], "std": [1.0]}), "each of 3 channels, got 1"),
    "std of zero": (described(input={"shape": [3, 12, 10], "mean": [0] * 3, "std": [0] * 3}), "positive"),
    "mean alone": (described(input={"shape": [3, 12, 10], "mean": [0] * 3, "std": None}), "both"),
    "nodes": (described(nodes={}), "the nodes must be a list"),
    "node is a number": (described(nodes=[1]), "node 0 must be an object"),
    "many nodes": (described(nodes=[{}] * 10001), "may have 10000 nodes"),
    "op": (spoiled(0, op="softmax"), "node 0 has an unknown op 'softmax'"),
    "input unknown": (spoiled(1, inputs=["t7"]), r"node 1 \(convolution\): its input 't7' is not computed before it"),
    "no inputs": (spoiled(1, inputs=[]), "must have 1 to 2 inputs, got 0"),
    "three inputs": (spoiled(2, inputs=["t0", "t0", "t0"]), "must have 1 to 2 inputs, got 3"),
    "output twice": (spoiled(1, output="t0"), "there is a value 't0' already"),
    "output is the input": (spoiled(0, output="input"), "there is a value 'input' already"),
    "no name": (spoiled(1, output=""), "empty name"),
    "relu is a number": (spoiled(0, relu=1), "'relu' of node 0 .* must be true or false"),
    "relu missing": (without(0, "relu"), "lacks the key 'relu'"),
    "unknown field": (spoiled(0, dilation=[1, 1]), "unknown key 'dilation'"),
    "kernel of one number": (spoiled(0, kernel=[3]), "two whole numbers"),
    "kernel of zero": (spoiled(0, kernel=[0, 3]), "must be 1 to"),
    "kernel too large": (spoiled(3, kernel=[20, 20]), "a kernel of 20 does not fit into 12 padded by 0"),
    "stride of zero": (spoiled(0, stride=[0, 1]), "must be 1 to"),
    "padding too large": (spoiled(3, padding=[2, 2]), "at most half the kernel"),
    "huge padding": (spoiled(0, padding=[2**27, 2**27]), "the padded input has more"),
    "groups": (spoiled(0, groups=5), "must be multiples of groups = 5"),
    "channels": (spoiled(0, in_channels=4), "must have 4 channels, got 3"),
    "weight missing": (spoiled(0, weight="nothing"), "there is no tensor 'nothing' for its weight"),
    "weight of another node": (spoiled(1, weight="t0.weight"), "another type or shape"),
    "kind": (spoiled(1, kind="ternary"), "kind must be 'binary' or 'float', got 'ternary'"),
    "wrong kind": (spoiled(1, kind="float"), "another type or shape"),
    "scale of another size": (spoiled(1, scale="t10.scale"), "the scale must be float32 with 16 numbers"),
    "NaN": (with_tensor("t1.scale", NAN), "the scale holds numbers that are not finite"),
    "infinite weight": (with_tensor("t11.weight", np.full((7, 24), np.inf, np.float32)), "not finite"),
    "unused bits": (with_tensor("t4.weight", np.full((16, 1), 255, np.uint8)), "unused bits of the weight must be 0"),
    "residual": (spoiled(2, inputs=["t1", "input"]), "the residual must have the shape"),
    "linear on a map": (spoiled(10, inputs=["t8"]), "the input must be flat"),
    "convolution of a flat value": (spoiled(0, inputs=["t0"]), "is not computed before"),
    "add of two shapes": (spoiled(7, inputs=["t6", "t0"]), "must have one shape"),
    "concatenation of two sizes": (spoiled(8, inputs=["t7", "t0"]), "must differ in channels only"),
    "affine": (spoiled(6, channels=3), r"must have 3 channels, got \(16, 6, 5\)"),
    "flatten with a key": (spoiled(9, relu=True), "unknown key 'relu'"),
}


@pytest.mark.parametrize("content, match", CONTENTS.values(), ids=CONTENTS)
def test_a_bad_file_is_refused(tmp_path, content, match):
    refused(tmp_path, content, match)


@pytest.mark.parametrize("op", ["max_pool", "convolution"])
def test_a_network_of_too_much_work_is_refused(tmp_path, op):
    packing = Packing((1, 8192, 8192))
    if op == "convolution":
        weight = np.zeros((1, 128), np.uint8)
        sizes = {"out_channels": 1, "in_channels": 1, "groups": 1, "relu": False, "kind": "binary", "weight": weight}
    else:
        sizes = {}
    packing.node(op, kernel=[32, 32], stride=[1, 1], padding=[16, 16], **sizes)
    packing.node(op, ["t0"], kernel=[64, 64], stride=[1, 1], padding=[0, 0], **sizes)
    if op == "convolution":
        packing.nodes[1]["kernel"] = [32, 32]
        for _ in range(2):
            packing.node(op, kernel=[32, 32], stride=[1, 1], padding=[16, 16], **sizes)
    packing.node("flatten")
    refused(tmp_path, packing.content(), "more than 137438953472 multiply-adds")


def test_a_network_of_too_much_memory_is_refused(tmp_path):
    packing = Packing((1, 8192, 8192))
    names = [packing.node("relu", ["input"]) for _ in range(4)]
    for name in names:
        packing.node("add", [name, packing.facts["output"]], relu=False)
    packing.node("flatten")
    refused(tmp_path, packing.content(), "bytes for the activations of one image")


def test_weights_that_become_too_large_are_refused_before_any_is_made(tmp_path, monkeypatch):
    if "avx2-depthwise" not in forcible_kernels(monkeypatch):
        pytest.skip("no kernel makes weights much larger")
    packing = Packing((8256, 64, 64))
    packing.convolution(np.ones((8256, 1, 64, 64), np.int8), groups=8256)
    for _ in range(7):
        packing.nodes.append({**packing.nodes[0], "output": f"u{len(packing.nodes)}"})
    packing.node("flatten")
    refused(tmp_path, packing.content(), "the network needs more than 1073741824 bytes for its weights")


def test_one_small_weight_cannot_stand_for_many(tmp_path):
    packing = Packing((256, 1, 1))
    packing.convolution(np.ones((256, 256, 1, 1), np.int8))
    for _ in range(20):
        packing.nodes.append(
            {**packing.nodes[-1], "inputs": [packing.facts["output"]], "output": f"u{len(packing.nodes)}"}
        )
        packing.facts["output"] = packing.nodes[-1]["output"]
    packing.node("flatten")
    refused(tmp_path, packing.content(), "too many nodes use the same weights")


BEGINNINGS = {
    "a PNG": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "a JPEG": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "ONNX": b"\x08\x08\x12\x0cadaste 0.1.0:",
    "ONNX without a producer": b"\x08\x0a\x3a\xff\x01\x0a\x02\x12\x03",
    "a ZIP archive, such as a checkpoint of torch: use `adaste export`": b"PK\x03\x04\0\0\x08\x08\0\0\0\0",
    "a numpy array": b"\x93NUMPY\x01\0v\0",
    "text": b"nothing of the kind, but a text of some length",
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\n",
}


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_a_file_of_another_kind_is_called_by_its_name(tmp_path, kind):
    wanted = rf"not a safetensors file \(it begins like {kind.removesuffix(' without a producer')}"
    refused(tmp_path, BEGINNINGS[kind] + bytes(100), wanted)
    refused(tmp_path, BEGINNINGS[kind], wanted)
    with pytest.raises(ValueError, match=wanted):
        adaste_runtime.load_bytes(BEGINNINGS[kind])


def of_run(facts, **more):
    """The last.safetensors of a run: tensors as torch has them, and what is known of the training."""
    header = {
        "__metadata__": {"adaste": json.dumps(facts), **more},
        "norm.num_batches_tracked": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
    }
    return long_header(json.dumps(header).encode()) + bytes(8)


def test_the_network_of_a_run_is_called_a_checkpoint(tmp_path):
    content = of_run({"recipe": {}, "record": {"epoch": 1}, "classes": ["a"]})
    refused(tmp_path, content, "this is a checkpoint of a run, not a packed network: use `adaste export`")
    refused(tmp_path, of_run({"recipe": {}}), "dtype I64")
    refused(tmp_path, of_run([]), "dtype I64")
    refused(tmp_path, of_run({"record": 1}, crc32="0"), "dtype I64")
    other = {"__metadata__": {"format": "pt"}, "w": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}
    refused(tmp_path, long_header(json.dumps(other).encode()) + b"\0\0", "its __metadata__ lacks the key 'adaste'")


def test_packed_weights_are_called_that(tmp_path):
    words = r"these are the packed weights of a model \(adaste\.save_packed\), .*load_into\(model, path\) reads them"
    for facts in ('{"format":"adaste-state","version":1}', '{"version":1,"format":"adaste-state"}'):
        refused(tmp_path, with_header(lambda header, facts=facts: header["__metadata__"].update(adaste=facts)), words)
    assert adaste_runtime.load_bytes(described(recipe='"format":"adaste-state"'))


@pytest.mark.parametrize("letter", ["\x1b", "\n", "\0", "\x7f", "\x85", "\u202e", "\u2028", "\ufeff"])
def test_messages_escape_what_a_file_says(tmp_path, letter):
    for content in (
        spoiled(0, op=f"a{letter}b"),
        spoiled(0, **{f"a{letter}b": 1}),
        spoiled(1, inputs=[f"a{letter}b"]),
        described(output=f"a{letter}b"),
        described(**{f"a{letter}b": 1}),
        with_tensor(f"a{letter}b", np.zeros(3, np.float32)),
        with_header(lambda header: header.update({f"a{letter}b": 1})),
        with_header(lambda header: header["__metadata__"].update(crc32=f"a{letter}b")),
        with_entry(dtype=f"a{letter}b"),
    ):
        code = ord(letter)
        escape = rf"\x{code:02x}" if code < 0x100 else rf"\u{code:04x}"
        with pytest.raises(ValueError) as caught:
            adaste_runtime.load_bytes(content)
        assert str(caught.value).isprintable() and f"a{escape}b" in str(caught.value)


def test_messages_quote_at_most_100_bytes_of_a_name():
    for content in (spoiled(0, **{1000 * "x": 1}), with_header(lambda header: header.update({1000 * "é": {}}))):
        with pytest.raises(ValueError, match=r"\.\.\.'") as caught:
            adaste_runtime.load_bytes(content)
        assert len(str(caught.value)) < 200


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no such file"):
        adaste_runtime.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is no regular file"):
        adaste_runtime.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="is no regular file"):
            adaste_runtime.load(tmp_path / "pipe")
    path = good().write(tmp_path)
    with pytest.raises(ValueError, match="path must be text without NUL"):
        adaste_runtime.load(f"{path}\0.txt")
    for content in (good().content(), bytearray(5), memoryview(b"abc")):
        with pytest.raises(ValueError, match=r"got (bytes|bytearray|memoryview); load_bytes takes the content of a"):
            adaste_runtime.load(content)


@pytest.mark.parametrize(
    "name", ["with a space", "größe 日本", *([os.fsdecode(b"\xff")] if os.name == "posix" else [])]
)
def test_files_may_have_any_name(tmp_path, name):
    path = tmp_path / name
    try:
        good().write(tmp_path).rename(path)
    except OSError:
        pytest.skip("this system does not allow such a name")
    assert adaste_runtime.load(path).outputs == adaste_runtime.load(str(path)).outputs
    path.write_bytes(b"")
    with pytest.raises(ValueError) as caught:
        adaste_runtime.load(path)
    assert str(caught.value).startswith(f"{path}: the file has 0 bytes")


@pytest.mark.parametrize("threads", [0, -1, 1025, 1.5, "two"])
def test_bad_threads_are_refused(tmp_path, threads):
    with pytest.raises(ValueError, match="threads must be 1 to 1024"):
        adaste_runtime.load(good().write(tmp_path), threads=threads)
