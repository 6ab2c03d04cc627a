"""What torch's operations become: a table from each that can be packed to a function that adds its nodes."""

import math
from types import MappingProxyType
from typing import Any

import torch

from adaste.packed import activations, arithmetic, layers, pools
from adaste.packed.graph_builder import BATCH, Arguments, Builder, Call, Value
from adaste.packed.nodes import Concatenate

SUPPORTED = (
    "A packed network may have convolutions (with groups and zero padding, not dilated), linear layers, BatchNorm, "
    "ReLU and clamps, max and average pools, flattening, dropout, sums and differences, concatenated channels, scales "
    "and shifts per channel"
)


def concatenate(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.cat of channels; of one value alone it is that value, as in the first layers of a DenseNet."""
    if len(a["tensors"]) == 1:
        (alone,) = a["tensors"]
        return view(builder, {"self": alone}, shape)
    if a["dim"] % len(shape) != 1 or not all(isinstance(part, Value) for part in a["tensors"]):
        raise ValueError(f"only channels of values can be concatenated, got dimension {a['dim']}")
    inputs = tuple(builder.use(part) for part in a["tensors"])
    return builder.put(Concatenate(inputs=inputs, output=builder.new_name()))


def view(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """The same numbers in another shape."""
    same = unchanged(builder, a, shape)
    if shape[0] != BATCH or math.prod(shape[1:]) != math.prod(same.shape):
        raise ValueError(f"a change of shape must leave the images of a batch apart, got {same.shape} to {shape}")
    return Value(same.name, tuple(shape[1:]))


def all_of(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """aten.select and aten.slice, as far as they leave nothing out: a side of one pixel goes, or a side stays."""
    if math.prod(shape) != BATCH * math.prod(a["self"].shape):
        raise ValueError(f"only a side of one pixel can be picked out of, got {tuple(shape[1:])} of {a['self'].shape}")
    return view(builder, a, shape)


def unchanged(builder: Builder, a: Arguments, shape: tuple[int, ...]) -> Value:
    """Copies, and dropout in evaluation mode."""
    if a.get("train"):
        raise ValueError("dropout that is on in evaluation mode is not possible")
    if a.get("dtype") not in (None, torch.float32):
        raise ValueError(f"values are float32, got {a['dtype']}")
    same: Value = a["self"] if "self" in a else a["input"]
    return same


_aten = torch.ops.aten
CALLS: MappingProxyType[Any, Call] = MappingProxyType(
    {
        _aten.conv2d.default: layers.convolution,
        _aten.conv2d.padding: layers.convolution,
        _aten.convolution.default: layers.convolution,
        _aten.linear.default: layers.linear,
        _aten.mm.default: layers.product,
        _aten.matmul.default: layers.product,
        _aten.addmm.default: layers.shifted_product,
        _aten.batch_norm.default: layers.batch_norm,
        _aten._native_batch_norm_legit_no_training.default: layers.functional_batch_norm,
        _aten.max_pool2d.default: pools.max_pool,
        _aten.avg_pool2d.default: pools.average_pool,
        _aten.adaptive_max_pool2d.default: pools.adaptive_max_pool,
        _aten.adaptive_avg_pool2d.default: pools.adaptive_average_pool,
        _aten._adaptive_avg_pool2d.default: pools.adaptive_average_pool,
        _aten.mean.dim: pools.mean,
        _aten.amax.default: pools.maximum,
        _aten.max.dim: pools.maximum_of_side,
        _aten.relu.default: activations.relu,
        _aten.relu6.default: activations.relu6,
        _aten.hardtanh.default: activations.hardtanh,
        _aten.clamp.default: activations.clamp,
        _aten.clamp_min.default: activations.clamp,
        _aten.clamp_max.default: activations.clamp,
        _aten.cat.default: concatenate,
        _aten.add.Tensor: arithmetic.add,
        _aten.add.Scalar: arithmetic.add,
        _aten.sub.Tensor: arithmetic.subtract,
        _aten.sub.Scalar: arithmetic.subtract,
        _aten.rsub.Scalar: arithmetic.subtract_from,
        _aten.mul.Tensor: arithmetic.multiply,
        _aten.mul.Scalar: arithmetic.multiply,
        _aten.div.Tensor: arithmetic.divide,
        _aten.div.Scalar: arithmetic.divide,
        _aten.neg.default: arithmetic.negate,
        _aten.view.default: view,
        _aten.reshape.default: view,
        _aten._unsafe_view.default: view,
        _aten.flatten.using_ints: view,
        _aten.squeeze.default: view,
        _aten.squeeze.dim: view,
        _aten.squeeze.dims: view,
        _aten.unsqueeze.default: view,
        _aten.select.int: all_of,
        _aten.slice.Tensor: all_of,
        _aten.clone.default: unchanged,
        _aten.contiguous.default: unchanged,
        _aten.detach.default: unchanged,
        _aten.alias.default: unchanged,
        _aten.lift_fresh_copy.default: unchanged,
        _aten.dropout.default: unchanged,
        _aten.feature_dropout.default: unchanged,
        _aten.alpha_dropout.default: unchanged,
        _aten.to.dtype: unchanged,
        _aten._to_copy.default: unchanged,
    }
)
"""All operations of torch that can be packed."""

_SOFTMAX = "Leave out a softmax at the end: a packed network gives logits, whose largest is at the same class"
ADVICE: MappingProxyType[Any, str] = MappingProxyType(
    {
        _aten.softmax.int: _SOFTMAX,
        _aten._softmax.default: _SOFTMAX,
        _aten.log_softmax.int: _SOFTMAX,
        _aten._log_softmax.default: _SOFTMAX,
    }
)
"""What to do about operations that cannot."""
