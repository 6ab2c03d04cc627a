"""Single operations of torch: which nodes they add, and which arguments they refuse."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from adaste.packed.aten import CALLS
from adaste.packed.graph import BATCH, Builder, Constant, Input, Value
from adaste.packed.nodes import Affine, AveragePool, Convolution, MaxPool

ATEN = torch.ops.aten
X = Value("input", (4, 6, 6))
WINDOW = {"kernel_size": [2], "stride": [], "padding": [0], "ceil_mode": False}
TURNED = Value("input", (4, 6, 6), batch=1)
LAST = Value("input", (4, 36), batch=2)
FILTER = {"input": X, "stride": [1], "padding": [0], "dilation": [1], "groups": 1, "bias": None}


def constant(*shape: int) -> Constant:
    return Constant(torch.randn(*shape), "a constant")


def call(operation: Any, arguments: dict[str, Any], *shape: int) -> tuple[Any, Builder]:
    """What the operation gives for a map (4, 6, 6), and the builder with its nodes."""
    builder = Builder((Input(shape=(4, 6, 6)),))
    return CALLS[operation](builder, arguments, (BATCH, *shape)), builder


@pytest.mark.parametrize(
    ("operation", "arguments", "shape", "words"),
    [
        (ATEN.add.Tensor, {"self": X, "other": constant(3, 1, 1)}, (4, 6, 6), "does not fit a value"),
        (ATEN.add.Tensor, {"self": X, "other": constant(3, 4, 6, 6)}, (4, 6, 6), "the same for all inputs of a batch"),
        (
            ATEN.add.Tensor,
            {"self": X, "other": constant(BATCH, 4, 6, 6)},
            (4, 6, 6),
            "the same for all inputs of a batch",
        ),
        (ATEN.add.Tensor, {"self": X, "other": constant(2, 1, 4, 6, 6)}, (4, 6, 6), "does not fit a value"),
        (ATEN.add.Tensor, {"self": X, "other": TURNED}, (4, 6, 6), "must have their batch in one place"),
        (ATEN.div.Tensor, {"self": X, "other": 2, "rounding_mode": "floor"}, (4, 6, 6), "must not be rounded"),
        (ATEN.pow.Tensor_Scalar, {"self": X, "exponent": 2.5}, (4, 6, 6), "an exponent must be 2, 3 or one of 0.5"),
        (ATEN.softplus.default, {"self": X, "beta": 1, "threshold": 3}, (4, 6, 6), "must be 20 or more, got 3"),
        (ATEN.clamp.Tensor, {"self": constant(1), "min": X}, (4, 6, 6), "what is clamped must depend on the inputs"),
        (
            ATEN.rrelu.default,
            {"self": X, "lower": 0.1, "upper": 0.2, "training": True},
            (4, 6, 6),
            "random slopes are not possible",
        ),
        (ATEN.clamp.default, {"self": X, "min": 6, "max": 0}, (4, 6, 6), r"must rise .* got \[6, 0\]"),
        (ATEN.clamp_max.default, {"self": X, "max": float("inf")}, (4, 6, 6), r"be finite, got \[inf\]"),
        (ATEN.select.int, {"self": X, "dim": 0, "index": 0}, (4, 6), "inputs must be left apart"),
        (ATEN.cat.default, {"tensors": [X, X], "dim": 0}, (4, 6, 6), "inputs must be left apart"),
        (ATEN.cat.default, {"tensors": [X, TURNED], "dim": 1}, (8, 6, 6), "if they have the batch in one place"),
        (ATEN.dropout.default, {"input": X, "p": 0.5, "train": True}, (4, 6, 6), "dropout that is on"),
        (ATEN._to_copy.default, {"self": X, "dtype": torch.float16}, (4, 6, 6), "values are float32, got"),
        (ATEN.view.default, {"self": X}, (4, 6, 3), "leave the inputs of a batch apart"),
        (ATEN.softmax.int, {"self": X, "dim": 0}, (4, 6, 6), "inputs must be left apart"),
        (ATEN.conv2d.default, {**FILTER, "weight": X}, (4, 6, 6), "the weight must not depend on the image"),
        (ATEN.conv2d.default, {**FILTER, "weight": constant(4, 4, 7, 7)}, (4, 1, 1), "does not fit into"),
        (
            ATEN.conv2d.default,
            {**FILTER, "input": TURNED, "weight": constant(4, 4, 1, 1)},
            (4, 6, 6),
            "a layer of maps",
        ),
        (ATEN.convolution.default, {**FILTER, "weight": constant(4, 4, 3, 3, 3)}, (4, 8, 8), "of rows or maps"),
        (
            ATEN.linear.default,
            {"input": LAST, "weight": constant(4, 2), "bias": None},
            (6, 4),
            "inputs must be left apart",
        ),
        (ATEN.matmul.default, {"self": X, "other": constant(6)}, (4, 6), "must be a matrix"),
        (ATEN.max_pool2d.default, {**WINDOW, "self": X, "dilation": [2]}, (4, 4, 4), "dilation must be 1"),
        (ATEN.avg_pool2d.default, {**WINDOW, "self": X, "divisor_override": 3}, (4, 3, 3), "divisor_override"),
        (ATEN.adaptive_max_pool2d.default, {"self": X}, (4, 4, 4), "from 6 to 4 pixels has windows of different sizes"),
        (ATEN.adaptive_max_pool2d.default, {"self": Value("input", (4, 1, 1))}, (4, 7, 7), "from 1 to 7 pixels would"),
        (ATEN.adaptive_avg_pool2d.default, {"self": Value("input", (144,))}, (24, 2, 2), "a layer of maps"),
        (ATEN.mean.dim, {"self": X, "dim": None, "keepdim": False}, (), "inputs must be left apart"),
        (ATEN.amax.default, {"self": X, "dim": [], "keepdim": False}, (), "inputs must be left apart"),
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


@pytest.mark.parametrize("size", range(1, 12))
def test_an_adaptive_pool_is_a_pool_where_its_windows_are_of_one_size(size: int) -> None:
    numbers = torch.arange(1.0, size + 1).pow(3).view(1, 1, size, 1)
    for count in range(1, 2 * size):
        _, builder = pooled(size, count)
        kinds = {type(node) for node in builder.nodes}
        wanted = F.adaptive_avg_pool2d(numbers, (count, 1))
        means = {(k, s): F.avg_pool2d(numbers, (k, 1), (s, 1)) for k in range(1, size + 1) for s in range(1, size + 1)}
        same = [
            place for place, found in means.items() if found.shape == wanted.shape and torch.allclose(found, wanted)
        ]
        assert (AveragePool in kinds) == bool(same)


def pooled(size: int, count: int) -> tuple[Any, Builder]:
    builder = Builder((Input(shape=(1, size, 1)),))
    arguments = {"self": Value("input", (1, size, 1))}
    return CALLS[ATEN.adaptive_avg_pool2d.default](builder, arguments, (BATCH, 1, count, 1)), builder


def test_padding_in_words_is_padding_in_numbers() -> None:
    for words, side, wanted in (("valid", 3, (0, 0)), ("same", 3, (1, 0)), ("same", 4, (0, 0))):
        arguments = {**FILTER, "weight": constant(5, 4, side, 1), "padding": words}
        _, builder = call(ATEN.conv2d.padding, arguments, 5, 6, 6)
        *before, node = builder.nodes
        assert isinstance(node, Convolution) and node.padding == wanted
        assert [(pad.before, pad.after) for pad in before] == ([((0, 1, 0), (0, 2, 0))] if side == 4 else [])


def test_a_value_is_flattened_once_for_all_its_users() -> None:
    builder = Builder((Input(shape=(4, 6, 6)),))
    flat = Value("input", (144,))
    assert builder.use(flat) == builder.use(flat) == "t1"
    assert [node.op for node in builder.nodes] == ["flatten"]
