"""The table from operations of torch to functions that add their nodes."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch

from adaste.packed import aten_layers as layers
from adaste.packed import aten_math as maths
from adaste.packed import aten_shapes as shapes
from adaste.packed.graph import Arguments, Builder

Call = Callable[[Builder, Arguments, tuple[int, ...]], Any]
"""Adds the nodes of an operation: takes its arguments and the shape of its result, with the batch."""

_aten = torch.ops.aten

_LAYERS: dict[Any, Call] = {
    _aten.conv1d.default: layers.convolution,
    _aten.conv1d.padding: layers.convolution,
    _aten.conv2d.default: layers.convolution,
    _aten.conv2d.padding: layers.convolution,
    _aten.convolution.default: layers.convolution,
    _aten.conv_transpose1d.default: layers.transposed_convolution,
    _aten.conv_transpose2d.input: layers.transposed_convolution,
    _aten.linear.default: layers.linear,
    _aten.addmm.default: layers.shifted_product,
    _aten.embedding.default: shapes.embedding,
    _aten.batch_norm.default: layers.batch_norm,
    _aten._native_batch_norm_legit_no_training.default: layers.functional_batch_norm,
    _aten.layer_norm.default: layers.layer_norm,
    _aten.rms_norm.default: layers.root_mean_square_norm,
    _aten.group_norm.default: layers.group_norm,
    _aten.instance_norm.default: layers.instance_norm,
    _aten.max_pool1d.default: layers.max_pool,
    _aten.max_pool2d.default: layers.max_pool,
    _aten.max_pool2d_with_indices.default: layers.max_pool_with_places,
    _aten.avg_pool1d.default: layers.average_pool,
    _aten.avg_pool2d.default: layers.average_pool,
    _aten.adaptive_max_pool1d.default: layers.adaptive_max_pool,
    _aten.adaptive_max_pool2d.default: layers.adaptive_max_pool,
    _aten.adaptive_avg_pool1d.default: layers.adaptive_average_pool,
    _aten.adaptive_avg_pool2d.default: layers.adaptive_average_pool,
    _aten._adaptive_avg_pool2d.default: layers.adaptive_average_pool,
    _aten.upsample_nearest1d.vec: shapes.resize(linear=False),
    _aten.upsample_nearest1d.default: shapes.resize(linear=False),
    _aten.upsample_nearest2d.vec: shapes.resize(linear=False),
    _aten.upsample_nearest2d.default: shapes.resize(linear=False),
    _aten.upsample_linear1d.vec: shapes.resize(linear=True),
    _aten.upsample_linear1d.default: shapes.resize(linear=True),
    _aten.upsample_bilinear2d.vec: shapes.resize(linear=True),
    _aten.upsample_bilinear2d.default: shapes.resize(linear=True),
    _aten.pixel_shuffle.default: shapes.pixel_shuffle,
    _aten.pixel_unshuffle.default: shapes.pixel_unshuffle,
    _aten.channel_shuffle.default: shapes.channel_shuffle,
    _aten.native_channel_shuffle.default: shapes.channel_shuffle,
    _aten.scaled_dot_product_attention.default: maths.attention,
}

_FUNCTIONS: dict[Any, Call] = {
    _aten.relu.default: maths.relu,
    _aten.relu6.default: maths.relu6,
    _aten.hardtanh.default: maths.hardtanh,
    _aten.clamp.default: maths.clamp,
    _aten.clamp_min.default: maths.clamp,
    _aten.clamp_max.default: maths.clamp,
    _aten.gelu.default: maths.gelu,
    _aten.elu.default: maths.elu,
    _aten.selu.default: maths.selu,
    _aten.celu.default: maths.function("elu", "alpha"),
    _aten.leaky_relu.default: maths.function("leaky_relu", "negative_slope"),
    _aten.prelu.default: maths.prelu,
    _aten.glu.default: maths.glu,
    _aten.softplus.default: maths.softplus,
    **{
        getattr(_aten, name).default: maths.function(name)
        for name in (
            *("abs", "erf", "exp", "hardsigmoid", "hardswish", "log", "mish", "reciprocal", "rsqrt"),
            *("sigmoid", "silu", "sqrt", "tanh"),
        )
    },
    _aten.softmax.int: maths.softmax,
    _aten._softmax.default: maths.softmax,
}

_ARITHMETIC: dict[Any, Call] = {
    _aten.add.Tensor: maths.combination("add"),
    _aten.add.Scalar: maths.combination("add"),
    _aten.sub.Tensor: maths.combination("subtract"),
    _aten.sub.Scalar: maths.combination("subtract"),
    _aten.rsub.Scalar: maths.subtract_from,
    _aten.rsub.Tensor: maths.subtract_from,
    _aten.mul.Tensor: maths.combination("multiply"),
    _aten.mul.Scalar: maths.combination("multiply"),
    _aten.div.Tensor: maths.combination("divide"),
    _aten.div.Scalar: maths.combination("divide"),
    _aten.maximum.default: maths.combination("maximum"),
    _aten.minimum.default: maths.combination("minimum"),
    _aten.neg.default: maths.negate,
    _aten.pow.Tensor_Scalar: maths.power,
    _aten.square.default: maths.square,
    _aten.multiply.Tensor: maths.combination("multiply"),
    _aten.divide.Tensor: maths.combination("divide"),
    _aten.subtract.Tensor: maths.combination("subtract"),
    _aten.masked_fill.Scalar: maths.masked_fill,
    _aten.masked_fill.Tensor: maths.masked_fill,
    _aten.where.self: maths.where,
    _aten.where.ScalarOther: maths.where,
    _aten.where.ScalarSelf: maths.where,
    _aten.mm.default: maths.product,
    _aten.bmm.default: maths.product,
    _aten.matmul.default: maths.product,
    _aten.baddbmm.default: maths.shifted_batch_product,
    _aten.einsum.default: maths.einsum,
    _aten.addcmul.default: maths.sum_with_product,
    _aten.cumsum.default: maths.cumulative_sum,
    _aten.mean.dim: layers.reduction("mean"),
    _aten.sum.dim_IntList: layers.reduction("sum"),
    _aten.amax.default: layers.reduction("max"),
    _aten.amin.default: layers.reduction("min"),
    _aten.linalg_vector_norm.default: maths.vector_norm,
    _aten.var.correction: maths.variance,
    _aten.var.dim: maths.variance,
    _aten.max.dim: layers.extreme("max"),
    _aten.min.dim: layers.extreme("min"),
}

_TRUTH: dict[Any, Call] = {
    **dict.fromkeys((_aten.__and__.Tensor, _aten.bitwise_and.Tensor, _aten.logical_and.default), maths.both),
    **dict.fromkeys(
        (_aten.__or__.Tensor, _aten.bitwise_or.Tensor, _aten.logical_or.default), maths.combination("maximum")
    ),
    **dict.fromkeys((_aten.bitwise_not.default, _aten.logical_not.default), maths.denial),
}

_COMPARISONS: dict[Any, Call] = {
    getattr(getattr(_aten, name), kind): maths.comparison(function, turned=turned, denied=denied)
    for name, (function, turned, denied) in {
        "eq": ("equal", False, False),
        "ne": ("equal", False, True),
        "lt": ("less", False, False),
        "gt": ("less", True, False),
        "ge": ("less", False, True),
        "le": ("less", True, True),
    }.items()
    for kind in ("Scalar", "Tensor")
}

_CASTS: dict[Any, Call] = dict.fromkeys(
    (
        *(_aten.clone.default, _aten.contiguous.default, _aten.detach.default, _aten.alias.default),
        *(_aten.lift_fresh_copy.default, _aten.to.dtype, _aten.to.device, _aten.to.dtype_layout),
        *(_aten._to_copy.default, _aten.type_as.default),
    ),
    maths.identity,
)

_VIEWS: dict[Any, Call] = dict.fromkeys(
    (
        *(_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default, _aten.flatten.using_ints),
        *(_aten.unflatten.int, _aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims, _aten.unsqueeze.default),
        *(_aten.reshape_as.default, _aten.view_as.default),
    ),
    maths.view,
)

_SHAPES: dict[Any, Call] = {
    _aten.cat.default: shapes.concatenate,
    _aten.stack.default: shapes.stack,
    _aten.roll.default: shapes.roll,
    _aten.permute.default: shapes.permute,
    _aten.transpose.int: shapes.transpose,
    _aten.t.default: shapes.transpose,
    _aten.swapaxes.default: shapes.transpose,
    _aten.swapdims.default: shapes.transpose,
    _aten.expand.default: shapes.expand,
    _aten.expand_as.default: shapes.expand,
    _aten.repeat.default: shapes.repeat,
    _aten.slice.Tensor: shapes.part,
    _aten.narrow.default: shapes.narrow,
    _aten.select.int: shapes.select,
    _aten.split.Tensor: shapes.parts,
    _aten.split.sizes: shapes.parts,
    _aten.split_with_sizes.default: shapes.parts,
    _aten.chunk.default: shapes.parts,
    _aten.unbind.int: shapes.unbind,
    _aten.pad.default: shapes.pad,
    _aten.constant_pad_nd.default: shapes.pad,
    _aten.reflection_pad1d.default: shapes.padding("reflect"),
    _aten.reflection_pad2d.default: shapes.padding("reflect"),
    _aten.replication_pad1d.default: shapes.padding("replicate"),
    _aten.replication_pad2d.default: shapes.padding("replicate"),
    _aten._pad_circular.default: shapes.padding("circular"),
    _aten.zeros_like.default: shapes.filled(0),
    _aten.ones_like.default: shapes.filled(1),
    _aten.full_like.default: shapes.filled(None),
    _aten.new_zeros.default: shapes.filled(0),
    _aten.new_ones.default: shapes.filled(1),
    _aten.new_full.default: shapes.filled(None),
    _aten.index.Tensor: shapes.index,
    _aten.index_select.default: shapes.index_select,
    _aten.gather.default: shapes.gather,
    _aten.flip.default: shapes.flip,
    _aten.unfold.default: shapes.windows,
    _aten.im2col.default: shapes.blocks,
    _aten.col2im.default: shapes.joined_blocks,
    **dict.fromkeys(
        (_aten.dropout.default, _aten.feature_dropout.default, _aten.alpha_dropout.default), maths.identity
    ),
}

CALLS: MappingProxyType[Any, Call] = MappingProxyType(
    {**_LAYERS, **_FUNCTIONS, **_ARITHMETIC, **_TRUTH, **_COMPARISONS, **_SHAPES, **_CASTS, **_VIEWS}
)
"""All operations of torch that can be packed."""

CASTS, OF_TRUTH = frozenset(_CASTS), frozenset(_TRUTH)
"""Copies, perhaps of another type; and operations on truth values alone."""

TAKE_WHOLE = frozenset((_aten.embedding.default, *_CASTS, *_VIEWS))
"""Operations that take the whole numbers of an input as they are; for others these become real."""

SUPPORTED = (
    "A packed network may have convolutions, also transposed and of rows, linear layers, embeddings, the usual norms, "
    "activations, pools and attention, Upsample (nearest, bilinear), sums, products, comparisons, means and maxima, "
    "and changes of shape that leave the inputs of a batch apart"
)

_SOFTMAX = "Leave out a log_softmax at the end: a packed network gives logits, whose largest is at the same class"
ADVICE: MappingProxyType[Any, str] = MappingProxyType(
    {_aten.log_softmax.int: _SOFTMAX, _aten._log_softmax.default: _SOFTMAX}
)
"""The end of a message about operations that cannot be packed."""
