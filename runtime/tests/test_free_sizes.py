"""Networks whose inputs decide on sizes: each is planned, some plans are kept, and every broken rule is refused."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import adaste_runtime
import numpy as np
import pytest
from test_c_tensors import Array, Tensor, array, library, load, run  # noqa: F401
from test_version_2 import Packing2

RANDOM = np.random.default_rng(0)
SIGNS = RANDOM.choice(np.array([-1, 1], np.int8), (6, 6))
TABLE, PLACES = RANDOM.standard_normal((2, 9, 6), np.float32)[0], RANDOM.standard_normal((8, 6), np.float32)


def rule(at, of, times=1, plus=0):
    return {"at": list(at), "of": list(of), "times": times, "plus": plus}


def sized():
    """Maps of height 2 a and width b beside a + 1 tokens; the largest are 8 x 5 and 5."""
    packing = Packing2(x=("float", 3, 8, 5), t=("integer", 5))
    packing.node("reshape", ["x"], sides=[3, 40])
    packing.node("softmax", axis=1)
    packing.node("embedding", ["t"], count=9, width=6, weight=TABLE)
    packing.node("constant", [], sides=[8, 6], value=PLACES.ravel())
    packing.node("slice", ["t3"], axis=0, start=0, count=5, step=1)
    packing.node("combine", ["t2", "t4"], function="add")
    packing.linear(SIGNS, ["t5"])
    packing.node("pad", ["x"], before=[0, 1, 0], after=[0, 7, 1], mode="constant", value=2.0)
    packing.facts["outputs"] = [
        {"name": "shares", "value": "t1"}, {"name": "rows", "value": "t6"}, {"name": "map", "value": "t7"}
    ]  # fmt: skip
    packing.facts["free"] = {"a": 4, "b": 5}
    packing.facts["sizes"] = [
        rule(("x", "shape", 1), "a", 2), rule(("x", "shape", 2), "b"), rule(("t", "shape", 0), "a", 1, 1),
        rule(("t0", "sides", 1), "ab", 2), rule(("t4", "count", None), "a", 1, 1), rule(("t7", "after", 1), "a", 2, -1),
    ]  # fmt: skip
    return packing


CONTENT = sized().content()


def inputs(a, b, count=2, seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal((count, 3, 2 * a, b), np.float32), random.integers(0, 9, (count, a + 1))


def expected(x, t):
    powers = np.exp(x.reshape(len(x), 3, -1))
    rows = TABLE[t] + PLACES[: t.shape[1]]
    height = x.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (1, height - 1), (0, 1)), constant_values=2)
    return {"shares": powers / powers.sum(2, keepdims=True), "rows": rows @ SIGNS.T, "map": padded}


def assert_right(found, x, t):
    wanted = expected(x, t)
    for name, value in wanted.items():
        assert found[name].shape == value.shape
        np.testing.assert_allclose(found[name], value, atol=1e-5)


@pytest.mark.parametrize(("a", "b"), [(4, 5), (3, 5), (4, 1), (1, 1), (2, 3)])
def test_inputs_of_each_size_are_computed(a, b):
    net = adaste_runtime.load_bytes(CONTENT, threads=2)
    assert net.free_sizes == {"a": 4, "b": 5} and net.input_shapes == {"x": (3, 8, 5), "t": (5,)}
    for count in (1, 3, 70):
        x, t = inputs(a, b, count)
        assert_right(net(x, t), x, t)


def test_images_of_bytes_have_their_channels_last_at_every_size():
    packing = Packing2(x=("float", 3, 8, 5))
    packing.node("relu", ["x"])
    packing.facts.update(free={"a": 8, "b": 5}, sizes=[rule(("x", "shape", 1), "a"), rule(("x", "shape", 2), "b")])
    net = adaste_runtime.load_bytes(packing.content())
    pixels = RANDOM.integers(0, 256, (2, 4, 3, 3), np.uint8)
    np.testing.assert_allclose(net(pixels), pixels.transpose(0, 3, 1, 2) / np.float32(255), atol=1e-6)
    with pytest.raises(ValueError, match=r"dimension 2 of 'x' must be 'a' with 'a' from 1 to 8, got 9"):
        net(np.zeros((1, 9, 5, 3), np.uint8))


@pytest.mark.parametrize(
    ("x", "t", "words"),
    [
        ((3, 9, 5), 5, "dimension 2 of 'x' must be 2 'a' with 'a' from 1 to 4, got 9"),
        ((3, 10, 5), 6, "dimension 2 of 'x' must be 2 'a' with 'a' from 1 to 4, got 10"),
        ((3, 8, 6), 5, "dimension 3 of 'x' must be 'b' with 'b' from 1 to 5, got 6"),
        ((3, 8, 0), 5, "got 0"),
        ((3, 8, 5), 4, "all inputs must have one 'a', got 4 and 3"),
        ((3, 8, 5), 1, "dimension 1 of 't' must be 'a' \\+ 1 with 'a' from 1 to 4, got 1"),
        ((4, 8, 5), 5, r"x must be float32 \(N, 3, 8, 5\)"),
    ],
)
def test_inputs_of_other_sizes_are_refused(x, t, words):
    net = adaste_runtime.load_bytes(CONTENT)
    with pytest.raises(ValueError, match=words):
        net(np.zeros((2, *x), np.float32), np.zeros((2, t), np.int64))


def test_few_plans_are_kept():
    net = adaste_runtime.load_bytes(CONTENT)
    one = adaste_runtime.load_bytes(CONTENT)
    one(*inputs(4, 5, 8))
    for _ in range(3):
        for a in range(1, 5):
            for b in range(1, 6):
                net(*inputs(a, b, 8))
    assert net.memory_bytes <= 5 * one.memory_bytes


STATISTICS = Path("/proc/self/statm")


def held_bytes():
    return int(STATISTICS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not STATISTICS.exists(), reason="the memory of a process is asked for as Linux has it")
def test_plans_share_tables_and_weights():
    packing = Packing2(t=("integer", 16))
    packing.node("embedding", ["t"], count=2**18, width=32, weight=np.zeros((2**18, 32), np.float32))
    packing.linear(np.ones((2**18, 32), np.float32))
    packing.node("reduce", function="mean", axes=[1], keep=False)
    packing.facts.update(free={"length": 16}, sizes=[rule(("t", "shape", 0), ["length"])])
    net = adaste_runtime.load_bytes(packing.content())
    net(np.zeros((1, 16), np.int32))
    before = held_bytes()
    for length in range(1, 6):
        net(np.zeros((1, length), np.int32))
    table = 4 * 32 * 2**18
    assert held_bytes() - before < table  # four plans with weights of their own would need eight times that


def test_a_copy_of_a_network_takes_all_sizes():
    import pickle

    net = pickle.loads(pickle.dumps(adaste_runtime.load_bytes(CONTENT)))
    x, t = inputs(2, 4)
    assert_right(net(x, t), x, t)


KERNELS = (
    RANDOM.choice(np.array([-1, 1], np.int8), (6, 3, 3, 3)),
    RANDOM.choice(np.array([-1, 1], np.int8), (6, 6, 3, 3)),
)


def classifier(height=8, width=5, free=True):
    """Three layers of one-bit weights for images of these sides, or of at most these."""
    packing = Packing2(x=("float", 3, height, width))
    for kernel in KERNELS:
        packing.convolution(kernel, padding=(1, 1), relu=True)
    packing.node("reduce", function="mean", axes=[1, 2], keep=False)
    packing.linear(SIGNS)
    if free:
        packing.facts.update(free={"a": height, "b": width})
        packing.facts["sizes"] = [rule(("x", "shape", 1), "a"), rule(("x", "shape", 2), "b")]
    return packing.content()


def images(*sides, seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal((3, 3, *sides), np.float32) * np.float32([0.5, 1, 2])[:, None, None, None]


def with_ranges_of(net, *sides):
    """The network packed for images of one size, with the ranges of another network."""
    fixed = adaste_runtime.load_bytes(classifier(*sides, free=False), int8=True)
    fixed.__setstate__(net.__reduce__()[2])
    return fixed


@pytest.mark.parametrize("calibrating", [(8, 5), (6, 4), (1, 1)])
def test_ranges_that_one_size_shows_are_those_of_every_size(calibrating):
    net, own = (adaste_runtime.load_bytes(classifier(), threads=2, int8=True) for _ in range(2))
    kept, others = (6, 4), [(8, 5), (6, 4), (7, 5), (8, 2), (1, 1), (5, 5), (4, 4), (3, 3)]
    net(images(*kept))  # planned before it is calibrated
    net.calibrate(images(*calibrating, seed=1))
    for sides in others:
        x = images(*sides)
        found = net(x)
        np.testing.assert_array_equal(found, with_ranges_of(net, *sides)(x))
        assert (found != own(x)).any()  # each of these had a range of its own


def test_ranges_are_those_of_the_same_network_of_one_size():
    net, fixed = (
        adaste_runtime.load_bytes(classifier(), int8=True),
        with_ranges_of(adaste_runtime.load_bytes(classifier(), int8=True), 6, 4),
    )
    net.calibrate(images(6, 4))
    fixed.calibrate(images(6, 4))
    assert net.__reduce__()[2] == fixed.__reduce__()[2] != []


def test_the_last_calibration_counts_whatever_its_size():
    net, once = (adaste_runtime.load_bytes(classifier(), int8=True) for _ in range(2))
    net.calibrate(5 * images(8, 5))
    net.calibrate(images(3, 4))
    once.calibrate(images(3, 4))
    np.testing.assert_array_equal(net(images(7, 2)), once(images(7, 2)))


def test_bytes_calibrate_at_every_size():
    net, floats = (adaste_runtime.load_bytes(classifier(), int8=True) for _ in range(2))
    pixels = RANDOM.integers(0, 256, (2, 6, 4, 3), np.uint8)
    net.calibrate(pixels)
    floats.calibrate(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)) / np.float32(255))
    np.testing.assert_allclose(net(images(5, 3)), floats(images(5, 3)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ones((1, 3, 9, 5), np.float32), "dimension 2 of 'x' must be 'a' with 'a' from 1 to 8, got 9"),
        (np.ones((1, 4, 6, 4), np.float32), r"images must be float32 \(N, 3, 6, 4\)"),
        (np.ones((3, 6, 4), np.float32), r"images must be float32 \(N, 3, 8, 5\)"),
        (np.ones((1, 3, 6, 4), np.float64), r"images must be float32 \(N, 3, 6, 4\)"),
        (np.ones((2, 3, 6, 4), np.float32), "which those of one colour do not"),
        (np.ones((0, 3, 6, 4), np.float32), "calibration needs at least one image"),
        (images(6, 4) * np.float32(np.nan), "the images hold numbers that are not finite"),
    ],
)
def test_a_calibration_that_is_refused_leaves_the_ranges_of_all_sizes(given, words):
    net = adaste_runtime.load_bytes(classifier(), int8=True)
    net.calibrate(images(7, 5))
    before = [net(images(*sides)) for sides in ((8, 5), (6, 4))]
    with pytest.raises(ValueError, match=words):
        net.calibrate(given)
    for sides, found in zip(((8, 5), (6, 4)), before, strict=True):
        np.testing.assert_array_equal(net(images(*sides)), found)


def test_a_copy_of_a_network_has_its_ranges_at_all_sizes():
    import pickle

    net = adaste_runtime.load_bytes(classifier(), int8=True)
    net.calibrate(images(6, 4))
    other = pickle.loads(pickle.dumps(net))
    for sides in ((8, 5), (6, 4), (2, 3)):
        np.testing.assert_array_equal(other(images(*sides)), net(images(*sides)))


def test_a_call_of_any_size_is_computed_before_a_calibration_or_after_it():
    net = adaste_runtime.load_bytes(classifier(), threads=2, int8=True)
    shown, asked = [images(6, 4), images(3, 5) * np.float32(0.2)], [images(8, 5), images(6, 4), images(2, 2)]
    allowed = []
    for each in shown:
        net.calibrate(each)
        allowed.append([net(x).tobytes() for x in asked])

    def call(number):
        if number % 4 == 0:
            net.calibrate(shown[number // 4 % 2])
        which = number % 3
        return net(asked[which]).tobytes() in [each[which] for each in allowed]

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(call, range(200)))


def test_c_calibrates_with_inputs_of_any_size(library, load):  # noqa: F811
    handle, net = load(classifier(), int8=1), adaste_runtime.load_bytes(classifier(), int8=True)
    net.calibrate(images(6, 4))
    assert library.adaste_calibrate_tensors(handle, (Array * 1)(array("x", images(6, 4))), 1) == 0
    for sides in ((8, 5), (6, 4), (2, 3)):
        x, found = images(*sides), np.empty((3, 6), np.float32)
        assert run(library, handle, [array("x", x)], [array("out", found)]) == (0, "")
        np.testing.assert_array_equal(found, net(x))
    assert library.adaste_calibrate_tensors(handle, (Array * 1)(array("x", images(9, 4))), 1) == -1
    assert library.adaste_last_error() == b"dimension 2 of 'x' must be 'a' with 'a' from 1 to 8, got 9"


def test_c_calibrates_texts_of_any_length(library, load):  # noqa: F811
    packing = Packing2(t=("integer", 16))
    packing.node("embedding", ["t"], count=9, width=6, weight=TABLE)
    packing.linear(SIGNS)
    packing.node("reduce", function="mean", axes=[0], keep=False)
    packing.facts.update(free={"length": 16}, sizes=[rule(("t", "shape", 0), ["length"])])
    handle, texts = load(packing.content(), int8=1), {length: np.full((2, length), 3) for length in (16, 5)}
    texts[5][:, 0] = 7

    def results():
        found = np.empty((2, 2, 6), np.float32)
        for each, text in zip(found, texts.values(), strict=True):
            assert run(library, handle, [array("t", text)], [array("out", each)]) == (0, "")
        return found

    before = results()
    assert library.adaste_calibrate_tensors(handle, (Array * 1)(array("t", texts[5])), 1) == 0
    first = results()
    assert (first[0] != before[0]).any()  # the text of 16 had a range of its own
    assert library.adaste_calibrate_tensors(handle, (Array * 1)(array("t", texts[16])), 1) == 0
    assert (results()[1] != first[1]).any()


def test_many_callers_with_inputs_of_many_sizes_get_what_each_would_get_alone():
    net = adaste_runtime.load_bytes(CONTENT, threads=3)

    def check(seed):
        x, t = inputs(1 + seed % 4, 1 + seed // 4 % 5, 1 + seed % 3, seed)
        assert_right(net(x, t), x, t)

    with ThreadPoolExecutor(6) as callers:
        list(callers.map(check, range(120)))


def test_a_network_that_half_of_a_size_is_too_small_for_runs_with_others(library, load):  # noqa: F811
    packing = Packing2(x=("float", 1, 1, 8))
    packing.convolution(RANDOM.choice(np.array([-1, 1], np.int8), (2, 1, 1, 5)), ["x"])
    packing.facts.update(free={"length": 8}, sizes=[rule(("x", "shape", 2), ["length"])])
    net, fixed = adaste_runtime.load_bytes(packing.content()), RANDOM.standard_normal((3, 1, 1, 8), np.float32)
    np.testing.assert_allclose(net(fixed[..., :7]), net(fixed)[..., :3], atol=1e-5)
    with pytest.raises(ValueError, match=r"cannot be run with 'length' = 4: .* a kernel of 5 does not fit into 4"):
        net(fixed[..., :4])
    tensor = Tensor()
    assert library.adaste_describe_output(load(packing.content()), 0, ctypes.byref(tensor)) == 0
    assert list(tensor.shape)[:4] == [-1, 2, 1, -1]


def test_c_says_which_sizes_are_free_and_runs_them(library, load):  # noqa: F811
    handle = load(CONTENT)
    tensor = Tensor()
    assert library.adaste_describe_input(handle, 0, ctypes.byref(tensor)) == 0
    assert list(tensor.shape)[:4] == [-1, 3, -1, -1]
    shapes = []
    for number in range(3):
        assert library.adaste_describe_output(handle, number, ctypes.byref(tensor)) == 0
        shapes.append(list(tensor.shape)[: tensor.dimensions])
    assert shapes == [[-1, 3, -1], [-1, -1, 6], [-1, 3, -1, -1]]
    x, t = inputs(3, 2, 4)
    given = (Array * 2)(array("x", x), array("t", t))
    described = (Tensor * 3)()
    for each in given:
        each.data = None  # which is not needed here
    assert library.adaste_describe_outputs_for(handle, given, 2, described, 3) == 0
    outputs = {each.name.decode(): np.empty(list(each.shape)[: each.dimensions], np.float32) for each in described}
    assert {name: value.shape for name, value in outputs.items()} == {
        "shares": (4, 3, 12), "rows": (4, 4, 6), "map": (4, 3, 12, 3)
    }  # fmt: skip
    arrays = [array(name, value) for name, value in outputs.items()]
    assert run(library, handle, [array("x", x), array("t", t)], arrays) == (0, "")
    assert_right(outputs, x, t)
    arrays[0] = array("shares", np.empty((4, 3, 40), np.float32))
    assert run(library, handle, [array("x", x), array("t", t)], arrays) == (
        -1, "'shares' must be float32 (any, 3, 12), got float32 (4, 3, 40)"
    )  # fmt: skip
    for arguments, words in (
        ((None, given, 2, described, 3), "the network is NULL"),
        ((handle, None, 2, described, 3), "the array of inputs is NULL"),
        ((handle, given, 2, None, 3), "the array of outputs is NULL"),
        ((handle, given, 2, described, 2), "the network has 3 outputs, got 2"),
    ):
        assert library.adaste_describe_outputs_for(*arguments) == -1
        assert library.adaste_last_error().decode() == words


def changed(place, **changes):
    return lambda packing: packing.facts["sizes"][place].update(changes)


BAD = {
    "no sizes": (lambda p: p.facts.pop("sizes"), "both free and sizes, or neither"),
    "nothing free": (lambda p: p.facts.pop("free"), "both free and sizes, or neither"),
    "an empty object": (lambda p: p.facts.update(free={}), "free must be an object of 1 to 64 sizes"),
    "a list": (lambda p: p.facts.update(free=["a"]), "free must be an object of 1 to 64 sizes"),
    "no name": (lambda p: p.facts.update(free={"": 3}), "a free size has an empty name"),
    "nothing at most": (lambda p: p.facts["free"].update(a=0), "'a' of free must be 1 to 134217728, got 0"),
    "another most": (lambda p: p.facts["free"].update(a=3), "the size at 'x', 'shape' is 8, not 6 as its rule says"),
    "an unused size": (lambda p: p.facts["free"].update(c=3), "no input has the free size 'c'"),
    "another name": (changed(0, of=["c"]), "size 0 follows from 'c', which is not free"),
    "no names": (changed(0, of=[]), "'of' of size 0 must be one or two names"),
    "three names": (changed(3, of=["a", "b", "a"]), "'of' of size 3 must be one or two names"),
    "two names of an input": (changed(1, of=["a", "b"]), "must follow from one alone"),
    "a factor of 0": (changed(0, times=0), "'times' of size 0 must be 1 to"),
    "a fraction": (changed(0, times=1.5), "'times' of size 0 must be a whole number"),
    "another rest": (changed(5, plus=0), "the size at 't7', 'after' is 7, not 8 as its rule says"),
    "a huge product": (changed(3, times=2**27), "'t0', 'sides' is 40, not"),
    "an unknown key": (changed(0, most=3), "size 0 has an unknown key 'most'"),
    "a place that is none": (changed(3, at=["t0", "sides", 2]), "'t0', 'sides' has no such place"),
    "a negative place": (changed(3, at=["t0", "sides", -1]), "the place of size 3 must be a whole number from 0 on"),
    "a place of one number": (changed(4, at=["t4", "count", 0]), "'t4', 'count' has no such place"),
    "all places": (changed(3, at=["t0", "sides", None]), "'t0', 'sides' has no such place"),
    "a field that there is not": (changed(3, at=["t0", "size", 0]), "'t0', 'size' has no such place"),
    "a field that is never free": (changed(3, at=["t1", "axis", None]), "'t1', 'axis' is not there, or no size"),
    "the shape of a node": (changed(3, at=["t0", "shape", 0]), "'t0', 'shape' is not there, or no size"),
    "a node that there is not": (changed(3, at=["t9", "sides", 0]), "'t9', 'sides' is not there"),
    "a short place": (changed(3, at=["t0", "sides"]), "'at' of size 3 must be a name, a key and a place"),
    "a number as a name": (changed(3, at=[0, "sides", 1]), "'at' of size 3 must be a name, a key and a place"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_rule_is_refused(name):
    change, words = BAD[name]
    packing = sized()
    change(packing)
    with pytest.raises(ValueError, match=words):
        adaste_runtime.load_bytes(packing.content())


def test_a_size_for_which_nodes_do_not_fit_is_refused_by_name():
    packing = sized()
    packing.facts["sizes"].pop(3)  # the reshape keeps its 40 numbers
    with pytest.raises(ValueError, match=r"node 0 \(reshape\): \(3, 4, 5\) has not as many numbers as \(3, 40\)"):
        adaste_runtime.load_bytes(packing.content())


def test_version_1_has_no_free_sizes():
    from networks import residual_network

    packing = residual_network(np.random.default_rng(0))[0]
    packing.facts.update(free={"a": 12}, sizes=[rule(("input", "shape", 1), "a")])
    with pytest.raises(ValueError, match="unknown key 'free'"):
        adaste_runtime.load_bytes(packing.content())
