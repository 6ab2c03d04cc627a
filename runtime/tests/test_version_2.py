"""Files of version 2: each rule has a file that breaks it, and the message that says so."""

import json

import adaste_runtime
import numpy as np
import pytest
from packing import Packing, container

RANDOM = np.random.default_rng(0)


class Packing2(Packing):
    """A file of version 2 in the making."""

    def __init__(self, **inputs):
        super().__init__()
        ports = [
            {"name": name, "shape": list(shape), "type": kind, "mean": None, "std": None}
            for name, (kind, *shape) in inputs.items()
        ]
        facts = {key: self.facts[key] for key in ("format", "bit_order", "classes", "recipe", "producer", "nodes")}
        self.facts = {**facts, "version": 2, "inputs": ports, "output": ports[0]["name"]}

    def content(self):
        facts = {key: value for key, value in self.facts.items() if key != "output"}
        facts.setdefault("outputs", [{"name": "out", "value": self.facts["output"]}])
        return container({"adaste": json.dumps(facts)}, self.tensors)


def floats(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


def block():
    """A small network with tokens and maps, all of whose parts the cases below spoil."""
    packing = Packing2(x=("float", 4, 6, 5), t=("integer", 5))
    packing.node("embedding", ["t"], count=9, width=6, weight=floats(9, 6))
    packing.node("layer_norm", axes=1, center=True, epsilon=1e-5, scale=floats(6), shift=floats(6))
    packing.node("attention", ["t1", "t1", "t1"], scale=0.5, causal=True)
    packing.node("constant", [], sides=[5, 6], value=floats(30))
    packing.node("combine", ["t2", "t3"], function="add")
    packing.node("reshape", sides=[6, 5])
    packing.node("transpose", axes=[1, 0])
    packing.node("slice", axis=0, start=1, count=2, step=2)
    packing.node("expand", sides=[3, 2, 6])
    packing.node("reduce", function="mean", axes=[0, 1], keep=False)
    packing.node("group_norm", ["x"], groups=2, epsilon=1e-5)
    packing.node("function", function="elu", parameter=0.5)
    packing.node("resize", size=[3, 3], step=[2.0, 1.5], linear=True, corners=False)
    packing.node("spread", step=[2, 1])
    packing.node("pad", before=[0, 1, 1], after=[0, 0, 1], mode="reflect", value=0)
    packing.node("softmax", axis=2)
    packing.node("matmul", ["t15", "t13"])
    packing.node("concatenate", ["t16", "t16"], axis=1)
    packing.node("max_pool", kernel=[2, 2], stride=[2, 2], padding=[0, 0], ceil=True)
    packing.node("number", ["t"])
    packing.node("combine", ["t19", "t19"], function="less")
    packing.facts["outputs"] = [{"name": "rows", "value": "t9"}, {"name": "map", "value": "t18"}]
    return packing


def test_a_network_of_version_2_says_what_it_takes_and_gives():
    net = adaste_runtime.load_bytes(block().content(), threads=2)
    assert net.input_types == {"x": "float32", "t": "int32"}
    assert net.input_shapes == {"x": (4, 6, 5), "t": (5,)}
    found = net(floats(3, 4, 6, 5), t=np.zeros((3, 5), np.int64))
    assert {name: value.shape for name, value in found.items()} == {"rows": (3, 6), "map": (3, 4, 6, 2)}
    facts = net.describe()
    assert facts["inputs"]["t"] == {"type": "int32", "shape": [5]} and facts["results"] == {
        "rows": [6],
        "map": [4, 6, 2],
    }
    assert [node["op"] for node in facts["nodes"]] == [node["op"] for node in block().nodes]
    assert "t: (5,)" in repr(net) or "'t': (5,)" in repr(net)
    for use in (lambda: net.input_shape, lambda: net.outputs):
        with pytest.raises(ValueError, match=r"this network does not"):
            use()


def test_8_bit_networks_are_calibrated_by_inputs_as_in_a_call():
    packing = Packing2(x=("float", 7), t=("integer", 5))
    packing.node("embedding", ["t"], count=9, width=7, weight=floats(9, 7))
    packing.node("combine", ["t0", "x"], function="add")
    packing.linear(RANDOM.choice(np.array([-1, 1], np.int8), (5, 7)), ["t1"])
    net, fresh = (adaste_runtime.load_bytes(packing.content(), int8=True) for _ in range(2))
    x, t = floats(3, 7), RANDOM.integers(0, 9, (3, 5))
    net.calibrate(x[:1], t=t[:1])
    np.testing.assert_array_equal(net(x[:1], t[:1]), fresh(x[:1], t[:1]))  # whose range is its own
    assert (net(x, t) != fresh(x, t)).any()
    for given, words in (
        ([x], "the network takes x, t, got 1 arrays"),
        ([x, t[:1]], "all inputs must have one batch"),
        ([x * np.float32(np.nan), t], "'x' holds numbers that are not finite"),
    ):
        with pytest.raises(ValueError, match=words):
            net.calibrate(*given)
    with pytest.raises(ValueError, match="only a network loaded with int8 can be calibrated"):
        adaste_runtime.load_bytes(packing.content()).calibrate(x, t)


def test_truth_is_taken_as_whole_numbers():
    net, x = adaste_runtime.load_bytes(block().content()), floats(1, 4, 6, 5)
    truth = np.array([[True, False, True, True, False]])
    for name, value in net(x, truth).items():
        np.testing.assert_array_equal(value, net(x, truth.astype(np.int64))[name])


@pytest.mark.parametrize(("features", "group"), [(200, 64), (384, 128), (96, 32)])
def test_a_layer_with_a_scale_per_group_of_inputs_is_a_sum_of_layers(features, group):
    signs = np.where(floats(7, features) > 0, np.int8(1), np.int8(-1))
    scales, shift, x = floats(7, -(-features // group)), floats(7), floats(2, 5, features)
    packing = Packing2(x=("float", 5, features))
    so_far = []
    for place, start in enumerate(range(0, features, group)):
        part = signs[:, start : start + group]
        packing.node("slice", ["x"], axis=1, start=start, count=part.shape[1], step=1)
        inputs = [packing.facts["output"], *so_far]
        so_far = [packing.linear(part, inputs, scale=scales[:, place].copy(), shift=None if so_far else shift)]
    found = adaste_runtime.load_bytes(packing.content(), threads=2)(x)
    weight = signs * np.repeat(scales, group, axis=1)[:, :features]
    np.testing.assert_allclose(found, x @ weight.T + shift, rtol=1e-4, atol=1e-4)


def test_an_embedding_and_a_layer_may_have_one_tensor():
    packing = Packing2(t=("integer", 5))
    table = floats(9, 6)
    packing.node("embedding", ["t"], count=9, width=6, weight=table)
    packing.linear(table)
    shared = packing.nodes[0]["weight"]
    del packing.tensors[packing.nodes[1]["weight"]]
    packing.nodes[1]["weight"] = shared
    tokens = RANDOM.integers(0, 9, (2, 5))
    found = adaste_runtime.load_bytes(packing.content(), threads=1)(tokens)
    np.testing.assert_allclose(found, table[tokens] @ table.T, rtol=1e-5, atol=1e-5)


def test_the_answer_does_not_depend_on_threads_or_the_rest_of_the_batch():
    content = block().content()
    one, two = (adaste_runtime.load_bytes(content, threads=count) for count in (1, 2))
    x, t = floats(70, 4, 6, 5), RANDOM.integers(0, 9, (70, 5))
    together = two(x, t)
    for place in (0, 33, 69):
        alone = one(x[place : place + 1], t[place : place + 1])
        for name, value in alone.items():
            np.testing.assert_array_equal(value[0], together[name][place])


def node(place, **changes):
    return lambda packing: packing.nodes[place].update(changes)


def port(key, place, **changes):
    return lambda packing: packing.facts[key][place].update(changes)


BAD = {
    "an input without a name": (port("inputs", 0, name=""), "input 0 has an empty name"),
    "two inputs of one name": (port("inputs", 1, name="x"), "two inputs 'x'"),
    "a type that is none": (port("inputs", 0, type="bool"), "type 'float' or 'integer', got 'bool'"),
    "an input of nine axes": (port("inputs", 0, shape=[1] * 9), "may have 7 axes"),
    "a mean of tokens": (port("inputs", 1, mean=[0.5]), "'mean' of input 1 must be null"),
    "a huge input": (port("inputs", 0, shape=[2**20, 2**20, 2**20]), "at most"),
    "no inputs": (lambda p: p.facts.update(inputs=[]), "inputs must be a list of 1 to 64"),
    "no outputs": (lambda p: p.facts.update(outputs=[]), "outputs must be a list of 1 to 64"),
    "an output of nobody": (port("outputs", 0, value="t99"), "the output 't99' is computed by no node"),
    "an output that is constant": (port("outputs", 0, value="t3"), "must be computed from the inputs"),
    "an output of tokens": (port("outputs", 0, value="t"), "must be computed from the inputs"),
    "two outputs of one name": (port("outputs", 0, name="map"), "two outputs 'map'"),
    "an output without a name": (port("outputs", 0, name=""), "output 0 has an empty name"),
    "classes of two outputs": (lambda p: p.facts.update(classes=["a"]), "classes must be null"),
    "keys of version 1": (lambda p: p.facts.update(input={}), "unknown key 'input'"),
    "tokens in arithmetic": (node(4, inputs=["t", "t"]), "whole numbers are for embeddings and for number"),
    "real numbers of real ones": (node(19, inputs=["x"]), "its input 'x' is real already"),
    "an unknown key of number": (node(19, axis=0), "unknown key 'axis'"),
    "an unknown combination": (node(20, function="greater"), "unknown function 'greater'"),
    "truth of other shapes": (node(20, inputs=["t2", "x"]), "do not fit each other"),
    "another table": (node(0, count=8), "weight must be float32 of the shape"),
    "an unknown function": (node(11, function="cube"), "unknown function 'cube'"),
    "a parameter too many": (node(11, function="tanh"), "elu and leaky_relu have a parameter"),
    "a parameter of a double": (node(11, parameter=1e39), "must be a number that float32 holds"),
    "no parameter": (lambda p: p.nodes[11].pop("parameter"), "elu and leaky_relu have a parameter"),
    "shapes that do not fit": (node(4, inputs=["t2", "x"]), "do not fit each other"),
    "too many inputs": (node(15, inputs=["t14", "t14"]), "must have 1 to 1 inputs, got 2"),
    "a constant of inputs": (node(3, inputs=["t2"]), "must have 0 to 0 inputs"),
    "a constant of another size": (node(3, sides=[5, 5]), "value must be float32 of the shape"),
    "axes of another value": (node(1, axes=3), "'axes' of node 1"),
    "a negative epsilon": (node(1, epsilon=-1), "epsilon must be from 0"),
    "scales of another norm": (node(1, scale="t3.value"), "scale must be float32 of the shape"),
    "groups that do not divide": (node(10, groups=3), "must be a multiple of groups = 3"),
    "an axis twice": (node(9, axes=[0, 0]), "axes must be different ones"),
    "no axis": (node(9, axes=[]), "there must be an axis"),
    "an axis beyond": (node(15, axis=3), "'axis' of node 15"),
    "a shape of other size": (node(5, sides=[6, 6]), "has not as many numbers as"),
    "a shape of no numbers": (node(5, sides=[0, 6]), "'sides' of node 5"),
    "a shape of nine axes": (node(5, sides=[6, 5, 1, 1, 1, 1, 1, 1, 1]), "a value may have 7 axes"),
    "axes that are not all": (node(6, axes=[0, 0]), "must be all of"),
    "a place beyond": (node(7, count=4), "the last place would be 7, the axis has 5"),
    "a repetition that does not fit": (node(8, sides=[3, 3, 6]), "do not fit each other|cannot be repeated"),
    "a repetition without end": (node(8, sides=[2**27, 2, 6]), "a value may hold"),
    "an unknown mode": (node(14, mode="mirror"), "unknown mode 'mirror'"),
    "a mirror beyond the map": (node(14, before=[0, 9, 1]), "can be padded by"),
    "padding of other axes": (node(14, before=[0, 1]), "a number for each axis"),
    "padding without end": (node(14, before=[0, 2**27, 1], mode="edge"), "a side may have|a value may hold"),
    "zeros without end": (node(13, step=[2**27, 1]), "a side may have|a value may hold"),
    "a size of nothing": (node(12, size=[0, 3]), "'size' of node 12"),
    "a negative step": (node(12, step=[-1, 1]), "step must be from 0"),
    "three steps": (node(12, step=[1, 1, 1]), "step must be a list of two numbers"),
    "matrices that do not fit": (node(16, inputs=["t15", "t15"]), "cannot be multiplied"),
    "queries of other features": (node(2, inputs=["t1", "x", "x"]), "do not fit each other"),
    "a mask of another size": (node(2, inputs=["t1", "t1", "t1", "x"]), "do not fit each other|does not fit scores"),
    "maps of other sizes side by side": (node(17, inputs=["t16", "t15"], axis=0), "must differ in channels only"),
    "a pool of an unknown key": (node(18, dilation=[2, 2]), "unknown key 'dilation'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(name):
    change, words = BAD[name]
    packing = block()
    change(packing)
    with pytest.raises(ValueError, match=words):
        adaste_runtime.load_bytes(packing.content())


@pytest.mark.parametrize(
    "op, fields",
    [
        ("function", {"function": "tanh"}),
        ("reshape", {"sides": [360, 1]}),
        ("concatenate", {"axis": 1}),
        ("max_pool", {"kernel": [1, 1], "stride": [1, 1], "padding": [0, 0], "ceil": False}),
    ],
)
def test_version_1_has_none_of_it(op, fields):
    packing = Packing((3, 12, 10))
    packing.node(op, ["input", "input"] if op == "concatenate" else None, **fields)
    packing.node("flatten")
    with pytest.raises(ValueError, match=r"unknown op|unknown key"):
        adaste_runtime.load_bytes(packing.content())


@pytest.mark.parametrize("width", [1, 8, 15, 16, 17, 22, 32, 39])
def test_products_of_matrices_are_right_at_every_width(width):
    packing = Packing2(a=("float", 6, 5), b=("float", 5, width))  # vectors of rows begin anywhere
    packing.node("matmul", ["a", "b"])
    a, b = floats(2, 6, 5), floats(2, 5, width)
    np.testing.assert_allclose(adaste_runtime.load_bytes(packing.content())(a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_a_network_that_needs_too_much_is_refused_before_it_runs():
    packing = Packing2(x=("float", 4096, 4096))
    packing.node("matmul", ["x", "x"])
    packing.node("matmul", ["t0", "x"])
    packing.node("matmul", ["t1", "x"])
    with pytest.raises(ValueError, match=r"needs more than .* multiply-adds"):
        adaste_runtime.load_bytes(packing.content())
    scores = Packing2(x=("float", 60_000, 1))
    scores.node("attention", ["x", "x", "x"], scale=1.0, causal=False)
    with pytest.raises(ValueError, match="bytes of scratch memory"):
        adaste_runtime.load_bytes(scores.content())


def test_repeated_calls_do_not_need_more_memory():
    net = adaste_runtime.load_bytes(block().content())
    x, t = floats(40, 4, 6, 5), np.zeros((40, 5), np.int32)
    net(x, t)
    held = net.memory_bytes
    for count in (1, 40, 7, 40):
        net(x[:count], t[:count])
    assert net.memory_bytes == held
