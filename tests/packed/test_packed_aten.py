"""Single operations of torch: which nodes they add, and which arguments they refuse."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from adaste.packed.aten import CALLS
from adaste.packed.graph import BATCH, Builder, Constant, Value
from adaste.packed.nodes import Affine, AveragePool, Convolution, MaxPool

ATEN = torch.ops.aten
X = Value("input", (4, 6, 6))
WINDOW = {"kernel_size": [2], "stride": [], "padding": [0], "ceil_mode": False}
FILTER = {"input": X, "stride": [1], "padding": [0], "dilation": [1], "groups": 1, "bias": None}


def constant(*shape: int) -> Constant:
    return Constant(torch.randn(*shape), "a constant")


def call(operation: Any, arguments: dict[str, Any], *shape: int) -> tuple[Any, Builder]:
    """What the operation gives for a map (4, 6, 6), and the builder with its nodes."""
    builder = Builder((4, 6, 6))
    return CALLS[operation](builder, arguments, (BATCH, *shape)), builder


@pytest.mark.parametrize(
    ("operation", "arguments", "shape", "words"),
    [
        (ATEN.mul.Tensor, {"self": X, "other": X}, (4, 6, 6), "a product of two values"),
        (ATEN.div.Tensor, {"self": constant(4, 1, 1), "other": X}, (4, 6, 6), "a division by a value"),
        (ATEN.add.Tensor, {"self": X, "other": constant(3, 1, 1)}, (4, 6, 6), "does not fit a value"),
        (ATEN.add.Tensor, {"self": X, "other": constant(6, 6)}, (4, 6, 6), "the same all over a channel"),
        (ATEN.add.Tensor, {"self": X, "other": Value("input", (4, 36))}, (4, 6, 6), "can be flattened, but not become"),
        (ATEN.clamp.default, {"self": X, "min": 6, "max": 0}, (4, 6, 6), r"must rise, .* got \[6, 0\]"),
        (ATEN.clamp.default, {"self": X, "min": -65504, "max": 65504}, (4, 6, 6), "from -1024 to 1024, got"),
        (ATEN.clamp_max.default, {"self": X, "max": float("inf")}, (4, 6, 6), r"from -1024 to 1024, got \[inf\]"),
        (ATEN.select.int, {"self": X, "dim": 3, "index": 0}, (4, 6), r"one pixel can be .* \(4, 6\) of \(4, 6, 6\)"),
        (ATEN.slice.Tensor, {"self": X, "dim": 2, "step": 2}, (4, 3, 6), r"one pixel can be .*, got \(4, 3, 6\)"),
        (ATEN.cat.default, {"tensors": [X, X], "dim": 2}, (4, 12, 6), "only channels of values"),
        (ATEN.cat.default, {"tensors": [X, constant(2, 4, 6, 6)], "dim": 1}, (8, 6, 6), "only channels of values"),
        (ATEN.dropout.default, {"input": X, "p": 0.5, "train": True}, (4, 6, 6), "dropout that is on"),
        (
            ATEN._to_copy.default,
            {"self": X, "dtype": torch.float16},
            (4, 6, 6),
            "values are float32, got",
        ),
        (ATEN.view.default, {"self": X}, (4, 6, 3), "leave the images of a batch apart"),
        (ATEN.conv2d.default, {**FILTER, "weight": X}, (4, 6, 6), "the weight must not depend on the image"),
        (ATEN.conv2d.default, {**FILTER, "weight": constant(4, 4, 3, 3), "dilation": [2]}, (4, 2, 2), "dilation must"),
        (ATEN.convolution.default, {**FILTER, "weight": constant(4, 4, 3, 3), "transposed": True}, (4, 8, 8), "not tr"),
        (
            ATEN.conv2d.padding,
            {**FILTER, "weight": constant(4, 4, 2, 3), "padding": "same"},
            (4, 6, 6),
            "padding 'same'",
        ),
        (ATEN.conv2d.default, {**FILTER, "weight": constant(4, 4, 7, 7)}, (4, 1, 1), "does not fit into"),
        (ATEN.max_pool2d.default, {**WINDOW, "self": X, "dilation": [2]}, (4, 4, 4), "dilation must be 1"),
        (ATEN.avg_pool2d.default, {**WINDOW, "self": X, "divisor_override": 3}, (4, 3, 3), "divisor_override"),
        (ATEN.adaptive_avg_pool2d.default, {"self": X}, (4, 4, 4), "from 6 to 4 pixels has windows of different sizes"),
        (ATEN.adaptive_avg_pool2d.default, {"self": X}, (4, 12, 12), "from 6 to 12 pixels would repeat pixels"),
        (ATEN.adaptive_max_pool2d.default, {"self": Value("input", (4, 1, 1))}, (4, 7, 7), "from 1 to 7 pixels would"),
        (ATEN.adaptive_avg_pool2d.default, {"self": Value("input", (24, 6))}, (24, 2, 2), "a pool must be of maps"),
        (ATEN.mean.dim, {"self": X, "dim": [1], "keepdim": False}, (6, 6), "over height and width"),
        (ATEN.mean.dim, {"self": X, "dim": None, "keepdim": False}, (), "over height and width"),
        (ATEN.mean.dim, {"self": Value("input", (8, 18)), "dim": [2]}, (8,), "over height and width"),
        (ATEN.amax.default, {"self": X, "dim": [], "keepdim": False}, (), "over height and width"),
        (ATEN.amax.default, {"self": X, "dim": [1, 2, 3], "keepdim": False}, (), r"dimensions \[1, 2, 3\]"),
        (ATEN.max.dim, {"self": X, "dim": 1, "keepdim": False}, (6, 6), r"over height and width .* \[1\]"),
    ],
)
def test_arguments_without_a_place_in_the_file_are_refused(operation, arguments, shape, words) -> None:
    with pytest.raises(ValueError, match=words):
        call(operation, arguments, *shape)


@pytest.mark.parametrize(
    ("operation", "arguments", "scale", "shift"),
    [
        (ATEN.add.Tensor, {"self": X, "other": 2, "alpha": 3}, None, 6),
        (ATEN.add.Tensor, {"self": Constant(torch.tensor(2.0), "c"), "other": X, "alpha": 3}, 3, 2),
        (ATEN.sub.Tensor, {"self": X, "other": 2, "alpha": 1}, None, -2),
        (ATEN.rsub.Scalar, {"self": X, "other": 2, "alpha": 1}, -1, 2),
        (ATEN.mul.Tensor, {"self": Constant(torch.tensor([[[0.5]]]), "c"), "other": X}, 0.5, None),
        (ATEN.div.Tensor, {"self": X, "other": 4}, 0.25, None),
        (ATEN.neg.default, {"self": X}, -1, None),
    ],
)
def test_arithmetic_with_constants_is_a_scale_and_a_shift(operation, arguments, scale, shift) -> None:
    _, builder = call(operation, arguments, 4, 6, 6)
    (node,) = builder.nodes
    assert isinstance(node, Affine)
    for found, wanted in ((node.scale, scale), (node.shift, shift)):
        assert (found is None) == (wanted is None)
        assert found is None or np.array_equal(found, np.full(4, wanted))


@pytest.mark.parametrize("operation", [ATEN.mean.dim, ATEN.amax.default])
@pytest.mark.parametrize(("dimensions", "kernel"), [([2], (6, 1)), ([-1], (1, 6)), ([2, 3], (6, 6)), ([-1, 2], (6, 6))])
def test_means_and_maxima_over_sides_are_pools_of_these(operation, dimensions, kernel) -> None:
    for keep in (False, True):
        shape = torch.zeros(BATCH, *X.shape).amax(dimensions, keepdim=keep).shape
        found, builder = call(operation, {"self": X, "dim": dimensions, "keepdim": keep}, *shape[1:])
        (node,) = builder.nodes
        assert isinstance(node, AveragePool if operation is ATEN.mean.dim else MaxPool)
        assert node.kernel == kernel and found.shape == shape[1:]


def pools_like(numbers: torch.Tensor, wanted: torch.Tensor) -> list[tuple[int, int]]:
    """All kernels and strides that give what is wanted."""
    sides = range(1, numbers.shape[2] + 1)
    means = {(k, s): F.avg_pool2d(numbers, (k, 1), (s, 1)) for k in sides for s in sides}
    return [place for place, found in means.items() if found.shape == wanted.shape and torch.allclose(found, wanted)]


@pytest.mark.parametrize("size", range(1, 12))
def test_an_adaptive_pool_is_refused_only_where_no_pool_does_the_same(size: int) -> None:
    numbers = torch.arange(1.0, size + 1).pow(3).view(1, 1, size, 1)
    for count in range(1, size + 1):
        builder = Builder((1, size, 1))
        arguments = {"self": Value("input", (1, size, 1))}
        same = pools_like(numbers, F.adaptive_avg_pool2d(numbers, (count, 1)))
        try:
            CALLS[ATEN.adaptive_avg_pool2d.default](builder, arguments, (BATCH, 1, count, 1))
        except ValueError:
            assert not same
            continue
        (node,) = builder.nodes
        assert isinstance(node, AveragePool) and (node.kernel[0], node.stride[0]) in same


def test_padding_in_words_is_padding_in_numbers() -> None:
    for words, wanted in (("valid", (0, 0)), ("same", (1, 0))):
        arguments = {**FILTER, "weight": constant(5, 4, 3, 1), "padding": words}
        _, builder = call(ATEN.conv2d.padding, arguments, 5, 6, 6)
        (node,) = builder.nodes
        assert isinstance(node, Convolution) and node.padding == wanted


def test_a_value_is_flattened_once_for_all_its_users() -> None:
    builder = Builder((4, 6, 6))
    flat = Value("input", (144,))
    assert builder.use(flat) == builder.use(flat) == "t1"
    assert [node.op for node in builder.nodes] == ["flatten"]
