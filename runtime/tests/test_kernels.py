"""Every kernel against plain numpy, and every fast kernel against the scalar one."""

from dataclasses import dataclass, replace

import numpy as np
import plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import BINARY, FLOAT, INT8, LIBRARY, convolve_once


@dataclass(frozen=True)
class Case:
    """A convolution with random numbers."""

    batch: int
    size: tuple[int, int]
    channels: int  # of a group
    outputs: int  # of a group
    groups: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    scale: bool
    shift: bool
    residual: bool
    relu: bool
    seed: int

    @property
    def out_size(self):
        sides = zip(self.size, self.kernel, self.stride, self.padding, strict=True)
        return tuple((side + 2 * pad - kernel) // stride + 1 for side, kernel, stride, pad in sides)

    @property
    def sizes(self):
        ends = (self.channels * self.groups, *self.out_size, self.outputs * self.groups)
        return (self.batch, *self.size, *ends, *self.kernel, *self.stride, *self.padding, self.groups)

    def numbers(self):
        rng = np.random.default_rng(self.seed)
        out = self.outputs * self.groups
        x = rng.standard_normal((self.batch, self.channels * self.groups, *self.size), np.float32)
        signs = rng.choice(np.array([-1, 1], np.int8), (out, self.channels, *self.kernel))
        floats = rng.standard_normal(signs.shape, np.float32)
        ends = {
            "scale": rng.standard_normal(out, np.float32) if self.scale else None,
            "shift": rng.standard_normal(out, np.float32) if self.shift else None,
            "residual": rng.standard_normal((self.batch, out, *self.out_size), np.float32) if self.residual else None,
            "relu": self.relu,
        }
        return x, signs, floats, ends

    def expected(self, x, weight, ends):
        return plain.finished(plain.convolution(x, weight, self.stride, self.padding, self.groups), **ends)

    def run(self, kernel, x, weight, ends, quantisation=None, threads=1):
        """The kernel's result in torch's order, or None where it does not support the shape."""
        y = np.full((self.batch, *self.out_size, self.outputs * self.groups), np.nan, np.float32)
        rows = weight.reshape(len(weight), -1)
        rows = rows.view(np.uint8) if weight.dtype == np.float32 else np.packbits(rows > 0, axis=1, bitorder="little")
        residual = None if ends["residual"] is None else channels_last(ends["residual"])
        done = convolve_once(
            kernel, self.sizes, channels_last(x), rows, ends["scale"], ends["shift"], residual, ends["relu"],
            quantisation, threads, y,
        )  # fmt: skip
        return y.transpose(0, 3, 1, 2) if done else None


def channels_last(x):
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


@st.composite
def cases(draw):
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    padding = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    size = tuple(max(draw(st.integers(1, 9)), k - 2 * p) for k, p in zip(kernel, padding, strict=True))
    flags = [draw(st.booleans()) for _ in range(4)]
    return Case(
        draw(st.integers(1, 3)), size, draw(st.integers(1, 20)), draw(st.integers(1, 40)), draw(st.integers(1, 3)),
        kernel, draw(st.tuples(st.integers(1, 3), st.integers(1, 3))), padding, *flags, draw(st.integers(0, 2**32)),
    )  # fmt: skip


def deep(**changes):
    values = {
        "batch": 2, "size": (5, 6), "channels": 64, "outputs": 64, "groups": 1, "kernel": (3, 3), "stride": (1, 1),
        "padding": (1, 1), "scale": True, "shift": True, "residual": True, "relu": True, "seed": 0,
    }  # fmt: skip
    return Case(**(values | changes))


DEEP = {
    "64 channels": deep(),
    "stride 2": deep(stride=(2, 2), outputs=136),
    "65 channels": deep(channels=65, outputs=67),
    "128 channels, 512 outputs": deep(channels=128, outputs=512, size=(2, 2), batch=1),
    "more outputs than a task holds": deep(channels=32, outputs=1100, size=(4, 5), batch=1),
    "linear": deep(size=(1, 1), kernel=(1, 1), padding=(0, 0), channels=300, outputs=130),
    "linear, one image": deep(size=(1, 1), kernel=(1, 1), padding=(0, 0), channels=300, outputs=130, batch=1),
    "linear, 40 images": deep(size=(1, 1), kernel=(1, 1), padding=(0, 0), channels=100, outputs=10, batch=40),
    "depthwise": deep(channels=1, outputs=1, groups=37),
    "depthwise, 7x7": deep(channels=1, outputs=1, groups=80, size=(7, 15), kernel=(7, 7), padding=(3, 3)),
    "depthwise, stride 2": deep(channels=1, outputs=1, groups=24, size=(17, 29), stride=(2, 2)),
    "depthwise, two outputs": deep(channels=1, outputs=2, groups=37, stride=(2, 1)),
    "groups": deep(channels=16, outputs=24, groups=4),
    "1x1 of stride 2": deep(kernel=(1, 1), stride=(2, 2), padding=(0, 0)),
    "padding beyond the kernel": deep(kernel=(1, 2), padding=(3, 2), channels=8),
    "one row": deep(size=(1, 30), kernel=(1, 5), padding=(0, 2)),
    "16 rows": deep(size=(16, 19), channels=64, outputs=24),
    "14 rows, two groups": deep(size=(14, 3), channels=64, outputs=150, groups=2, batch=3),
    "31 rows of stride 2": deep(size=(31, 8), channels=128, outputs=9, stride=(2, 1), batch=1),
    "30 rows, wide kernel": deep(size=(30, 17), kernel=(2, 5), padding=(2, 3), outputs=8, batch=1),
    "large images": deep(size=(33, 32), batch=1, channels=16, outputs=32),
}


def check_floats(case, kernels, binary):
    x, signs, floats, ends = case.numbers()
    weight = signs if binary else floats
    expected = case.expected(x, weight, ends)
    size = np.sqrt(case.channels * case.kernel[0] * case.kernel[1]) * (
        1.0 if ends["scale"] is None else np.abs(ends["scale"]).max()
    )
    for kernel in kernels:
        found = case.run(kernel, x, weight, ends)
        if found is not None:
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=3e-5 * size, err_msg=kernel)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_binary_kernels_agree_with_numpy(case):
    check_floats(case, BINARY, binary=True)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_float_kernels_agree_with_numpy(case):
    check_floats(case, FLOAT, binary=False)


@pytest.mark.parametrize("case", DEEP.values(), ids=DEEP)
def test_kernels_agree_with_numpy_on_shapes_of_networks(case):
    check_floats(case, BINARY, binary=True)
    check_floats(case, FLOAT, binary=False)


@pytest.mark.parametrize("threads", range(2, 8))
def test_parts_for_more_threads_need_no_more_memory(threads):
    case = deep(size=(25, 17), outputs=129, kernel=(4, 1), padding=(1, 2))
    x, signs, floats, ends = case.numbers()
    for kernels, weight in ((BINARY, signs), (INT8, signs), (FLOAT, floats)):
        for kernel in kernels:
            case.run(kernel, x, weight, ends, threads=threads)


def quantised(x, low, high):
    """kernels/int8/levels.h once more: levels and the values they stand for, in float32."""
    low, high = np.float32(min(low, 0)), np.float32(max(high, 0))
    scale = np.float32((high - low) / np.float32(255))
    if not scale > 0:
        return np.zeros_like(x)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    return scale * (np.rint(np.clip(x * (np.float32(1) / scale) + zero, 0, 255)) - zero)


def check_int8(case, range_):
    x, signs, _, ends = case.numbers()
    near = np.stack([quantised(image, *(range_ or (image.min(), image.max()))) for image in x])
    expected = case.expected(near, signs, ends)
    reference = case.run(INT8[-1], x, signs, ends, range_)
    size = np.sqrt(case.channels * case.kernel[0] * case.kernel[1])
    np.testing.assert_allclose(reference, expected, rtol=2e-5, atol=5e-5 * size)
    for kernel in INT8[:-1]:
        found = case.run(kernel, x, signs, ends, range_)
        if found is not None:  # integers do not round: the same bits
            np.testing.assert_array_equal(found, reference, err_msg=kernel)


@settings(max_examples=150, deadline=None)
@given(cases(), st.sampled_from([None, (-1.0, 1.5), (0.0, 2.0), (-3.0, 0.0)]))
def test_8_bit_kernels_agree_with_numpy_and_each_other(case, range_):
    check_int8(case, range_)


@pytest.mark.parametrize("case", DEEP.values(), ids=DEEP)
def test_8_bit_kernels_agree_on_shapes_of_networks(case):
    check_int8(case, None)


@pytest.mark.parametrize("level", [0, 255])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_8_bit_sums_do_not_overflow(level, sign):
    case = deep(channels=300, outputs=130, scale=False, shift=False, residual=False, relu=False, batch=1)
    x, signs, _, ends = case.numbers()
    x, signs = np.full_like(x, level), np.full_like(signs, sign)
    expected = case.expected(x - 100, signs, ends)
    for kernel in INT8:
        if (y := case.run(kernel, x - 100, signs, ends, (-100.0, 155.0))) is not None:
            np.testing.assert_array_equal(y, expected, err_msg=kernel)


@pytest.fixture(params=[*BINARY, *INT8, *FLOAT])
def supported(request):
    """A kernel, and those of a few shapes that it supports; at least one."""
    shapes = {"batch": 5, "size": (3, 5), "residual": False}
    cases = [
        deep(**shapes, channels=33, outputs=40),
        deep(**shapes, channels=9, outputs=21, groups=2),
        deep(**shapes, channels=1, outputs=1, groups=37),
        deep(**shapes | {"size": (15, 5)}, outputs=24),
        deep(**shapes, channels=21, outputs=100),
    ]
    found = []
    for case in cases:
        x, signs, floats, ends = case.numbers()
        weight = floats if request.param in FLOAT else signs
        if (y := case.run(request.param, x, weight, ends)) is not None:
            found.append((case, x, weight, ends, y))
    assert found
    return request.param, found


def test_the_number_of_threads_does_not_change_a_bit(supported):
    kernel, cases = supported
    for case, x, weight, ends, expected in cases:
        for threads in (2, 3):
            np.testing.assert_array_equal(case.run(kernel, x, weight, ends, threads=threads), expected)


def test_an_image_gives_the_same_bits_in_every_batch(supported):
    kernel, cases = supported
    for case, x, weight, ends, expected in cases:
        alone = replace(case, batch=1)
        for image in range(case.batch):
            np.testing.assert_array_equal(alone.run(kernel, x[image : image + 1], weight, ends)[0], expected[image])


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("size", [(1, 1), (4, 4), (14, 14)])
def test_the_sign_of_zero_depends_on_no_kernel_and_no_number_of_threads(size, threads):
    padding = (1, 1) if size > (1, 1) else (0, 0)
    kernel = (3, 3) if size > (1, 1) else (1, 1)
    case = deep(
        size=size, kernel=kernel, padding=padding, outputs=200, batch=1, shift=False, residual=False, relu=False
    )
    check_sign_of_zero(case, threads)


def test_the_sign_of_zero_of_a_depthwise_layer_depends_on_no_kernel():
    check_sign_of_zero(deep(channels=1, outputs=1, groups=37, shift=False, residual=False, relu=False), 1)


def check_sign_of_zero(case, threads):
    x, signs, _, ends = case.numbers()
    for name in BINARY + INT8:
        y = case.run(name, np.zeros_like(x), signs, ends, threads=threads)
        assert y is None or not np.signbit(y).any(), name


@pytest.mark.parametrize(
    "limit, processors",
    [("max 100000", 0), ("", 0), ("-1 100000", 0), ("150000 100000", 1), ("400000 100000", 4), ("20000 100000", 1)],
)
def test_a_limit_of_processor_time_is_a_number_of_whole_processors(limit, processors):
    assert LIBRARY.adaste_processors_of_limit(limit.encode()) == processors
