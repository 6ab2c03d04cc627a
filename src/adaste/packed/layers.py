"""Convolutions, linear layers and BatchNorm of torch as nodes; weights stay real here."""

import numpy as np

from adaste.packed.arithmetic import put_affine
from adaste.packed.building import Arguments, Builder, Value, constant, floats, pair
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
            shift=_bias(a),
            relu=False,
        )
    )


def linear(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.linear."""
    weight = constant(a["weight"], "the weight")
    inputs = (builder.use(a["input"]),)
    output = builder.name_for(weight)
    return builder.put(
        Linear(
            inputs=inputs,
            output=output,
            out_features=len(weight.tensor),
            in_features=weight.tensor.shape[1],
            weight=weight.tensor.numpy(),
            kind="float",
            shift=_bias(a),
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


def _bias(a: Arguments) -> Array | None:
    return None if a["bias"] is None else floats(a["bias"], "the bias")


def _padding(given: str | list[int], kernel: Pair) -> Pair:
    if not isinstance(given, str):
        return pair(given)
    if given == "valid":
        return (0, 0)
    if any(side % 2 == 0 for side in kernel):
        raise ValueError(f"padding 'same' of a kernel {kernel} is not the same on both sides")
    return kernel[0] // 2, kernel[1] // 2
