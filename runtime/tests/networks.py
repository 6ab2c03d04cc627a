"""Whole networks for tests: as a file, and as a function of plain numpy."""

import re

import adaste_runtime
import numpy as np
import plain
import pytest
from packing import Packing


def signs(rng, *shape):
    return rng.choice(np.array([-1, 1], np.int8), shape)


def floats(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def forcible_kernels(monkeypatch):
    """The kernels that ADASTE_RUNTIME_KERNEL may name on this processor."""
    with monkeypatch.context() as context, pytest.raises(ValueError, match="ADASTE_RUNTIME_KERNEL") as error:
        context.setenv("ADASTE_RUNTIME_KERNEL", "none")
        adaste_runtime.load_bytes(residual_network(np.random.default_rng(0))[0].content())
    return re.fullmatch(r".* must be one of (.*), got 'none'", str(error.value))[1].split(", ")


def residual_network(rng, shape=(3, 12, 10), classes=7, width=16):
    """A float layer, a block with a residual, pools, a concatenation, and linear layers."""
    packing = Packing(
        shape, mean=[0.5] * shape[0], std=[0.25] * shape[0], classes=[f"class {i}" for i in range(classes)]
    )
    first = floats(rng, width, shape[0], 3, 3) * np.float32(0.3)
    inner = signs(rng, width, width, 3, 3)
    second = signs(rng, width, width, 3, 3)
    scale = floats(rng, width) * np.float32(0.1)
    shift = floats(rng, width)
    side = signs(rng, width, width // 4, 1, 1)
    flat = 2 * width * (shape[1] // 2) * (shape[2] // 2)
    hidden = signs(rng, 24, flat)
    last = floats(rng, classes, 24) * np.float32(0.05)

    a = packing.convolution(first, ["input"], padding=(1, 1), shift=shift, relu=True)
    b = packing.convolution(inner, [a], padding=(1, 1), scale=scale, shift=shift, relu=True)
    c = packing.convolution(second, [b, a], padding=(1, 1), scale=scale, shift=shift, relu=True)
    d = packing.node("max_pool", [c], kernel=[2, 2], stride=[2, 2], padding=[0, 0])
    e = packing.convolution(side, [c], stride=(2, 2), groups=4, scale=scale)
    f = packing.node("average_pool", [e], kernel=[3, 3], stride=[1, 1], padding=[1, 1], count_padding=False)
    g = packing.node("affine", [f, d], channels=width, scale=scale, shift=shift, relu=False)
    h = packing.node("add", [g, d], relu=True)
    packing.node("concatenate", [h, d])
    packing.node("flatten")
    packing.linear(hidden, scale=np.full(24, 0.02, np.float32), relu=True)
    packing.linear(last)

    def compute(x):
        one = ((1, 1), (1, 1))
        a = plain.finished(plain.convolution(x, first, *one), shift=shift, relu=True)
        b = plain.finished(plain.convolution(a, inner, *one), scale, shift, relu=True)
        c = plain.finished(plain.convolution(b, second, *one), scale, shift, a, relu=True)
        d = plain.max_pool(c, (2, 2), (2, 2), (0, 0))
        e = plain.finished(plain.convolution(c, side, (2, 2), (0, 0), 4), scale)
        f = plain.average_pool(e, (3, 3), (1, 1), (1, 1), False)
        g = plain.finished(f, scale, shift, d)
        h = np.maximum(g + d, 0)
        y = np.concatenate([h, d], axis=1).reshape(len(x), -1)
        return np.maximum(y @ hidden.T * 0.02, 0) @ last.T

    return packing, compute
