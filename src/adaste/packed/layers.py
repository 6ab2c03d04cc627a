"""Convolutions, linear layers and BatchNorm of torch as nodes; weights stay real here."""

import numpy as np
from torch import Tensor

from adaste.packed.arithmetic import put_affine
from adaste.packed.graph_builder import Arguments, Builder, Constant, Value, constant, floats, pair
from adaste.packed.node import Array, Pair
from adaste.packed.nodes import Convolution, Linear


def convolution(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.conv2d and aten.convolution."""
    weight = constant(a["weight"], "the weight")
    if a.get("transposed") or len(weight.tensor.shape) != 4:
        raise ValueError("a convolution must be of maps and not transposed")
    if pair(a["dilation"]) != (1, 1):
        raise ValueError(f"dilation must be 1, got {a['dilation']}")
    inputs = (builder.use(a["input"]),)
    output = builder.name_for(weight)
    kernel = pair(weight.tensor.shape[2:])
    return builder.put(
        Convolution(
            inputs=inputs,
            output=output,
            out_channels=len(weight.tensor),
            in_channels=a["input"].shape[0],
            kernel=kernel,
            stride=pair(a["stride"]),
            padding=_padding(a["padding"], kernel),
            groups=a["groups"],
            weight=weight.tensor.numpy(),
            kind="float",
            shift=_bias(a["bias"]),
            relu=False,
        )
    )


def linear(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.linear."""
    weight = constant(a["weight"], "the weight")
    return _put_linear(builder, a["input"], weight, weight.tensor, _bias(a["bias"]))


def product(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.mm and aten.matmul: a linear layer whose weight is (inputs, outputs)."""
    weight = constant(a["mat2"] if "mat2" in a else a["other"], "the second factor of a product")
    if weight.tensor.dim() != 2:
        raise ValueError(f"the second factor of a product must be a matrix, got {tuple(weight.tensor.shape)}")
    return _put_linear(builder, a["self"], weight, weight.tensor.T, None)


def shifted_product(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.addmm, as transformers' Conv1D has it: the same with a bias."""
    if (a["alpha"], a["beta"]) != (1, 1):
        raise ValueError(f"alpha and beta of addmm must be 1, got {a['alpha']} and {a['beta']}")
    weight = constant(a["mat2"], "the second factor of a product")
    bias = _bias(a["self"])
    if bias is not None and bias.shape != (weight.tensor.shape[1],):
        raise ValueError(f"the bias must be ({weight.tensor.shape[1]},), got {bias.shape}")
    return _put_linear(builder, a["mat1"], weight, weight.tensor.T, bias)


def _put_linear(builder: Builder, given: Value, weight: Constant, by_output: Tensor, shift: Array | None) -> Value:
    """A linear layer with a weight of the model, which is (outputs, inputs) in `by_output`."""
    inputs = (builder.use(given),)
    output = builder.name_for(weight)
    return builder.put(
        Linear(
            inputs=inputs,
            output=output,
            out_features=by_output.shape[0],
            in_features=by_output.shape[1],
            weight=by_output.contiguous().numpy(),
            kind="float",
            shift=shift,
            relu=False,
        )
    )


def batch_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.batch_norm: a scale and a shift per channel."""
    if a.get("training") or a["running_mean"] is None:
        raise ValueError("a BatchNorm without running statistics lets an image depend on the others of its batch")
    scale = 1 / np.sqrt(floats(a["running_var"], "the variance") + a["eps"])
    if a["weight"] is not None:
        scale = scale * floats(a["weight"], "the scale")
    shift = -floats(a["running_mean"], "the mean") * scale
    if a["bias"] is not None:
        shift = shift + floats(a["bias"], "the bias")
    return put_affine(builder, a["input"], scale, shift)


def functional_batch_norm(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> tuple[Value, None, None]:
    """aten._native_batch_norm_legit_no_training, which gives more than anybody needs."""
    return batch_norm(builder, a, shape), None, None


def _bias(given: Constant | None) -> Array | None:
    return None if given is None else floats(given, "the bias")


def _padding(given: str | list[int], kernel: Pair) -> Pair:
    if not isinstance(given, str):
        return pair(given)
    if given == "valid":
        return (0, 0)
    if any(side % 2 == 0 for side in kernel):
        raise ValueError(f"padding 'same' of a kernel {kernel} is not the same on both sides")
    return kernel[0] // 2, kernel[1] // 2
