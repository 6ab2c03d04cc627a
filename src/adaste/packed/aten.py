"""The table from operations of torch to functions that add their nodes."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from adaste.packed import aten_layers as layers
from adaste.packed import aten_math as maths
from adaste.packed import aten_shapes as shapes
from adaste.packed.graph import Call

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
    _aten.clamp.Tensor: maths.clamp_by_tensors,
    _aten.gelu.default: maths.gelu,
    _aten.elu.default: maths.elu,
    _aten.selu.default: maths.selu,
    _aten.celu.default: maths.celu,
    _aten.leaky_relu.default: maths.function("leaky_relu", "negative_slope"),
    _aten.rrelu.default: maths.rrelu,
    _aten.prelu.default: maths.prelu,
    _aten.glu.default: maths.glu,
    _aten.softplus.default: maths.softplus,
    _aten.log_sigmoid.default: maths.log_sigmoid,
    _aten.sign.default: maths.sign,
    **{
        getattr(_aten, name).default: maths.function(name)
        for name in (
            *("abs", "erf", "exp", "hardsigmoid", "hardswish", "log", "mish", "reciprocal", "rsqrt"),
            *("sigmoid", "silu", "sqrt", "tanh"),
        )
    },
    _aten.softmax.int: maths.softmax,
    _aten._softmax.default: maths.softmax,
    _aten.log_softmax.int: maths.log_softmax,
    _aten._log_softmax.default: maths.log_softmax,
    _aten.logsumexp.default: maths.log_sum_exp,
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
    _aten.var_mean.correction: maths.variance_and_mean,
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
    getattr(getattr(_aten, name), kind): maths.comparison(function, swap=swap, opposite=opposite)
    for name, (function, swap, opposite) in {
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
"""The end of a message about operations that cannot be packed, but for what is nearest to them."""


@dataclass(frozen=True)
class Nearest:
    """What cannot be packed, and the nearest thing that can: a row of the table in docs/deployment.md.

    Args:
        what: What is not possible.
        nearest: The nearest thing that is.
        operations: The names of operations, without the library's; one with a dot is a single overload.
    """

    what: str
    nearest: str
    operations: str = ""

    @property
    def advice(self) -> str:
        """The row as a sentence, for the end of a message."""
        return f"Instead of {self.what}, use {self.nearest}"


SORTING = Nearest(
    "sorting, `topk`, `argmax`, `nonzero`, non-maximum suppression, `grid_sample`, region pooling",
    "a step behind the network's outputs",
    "sort argsort msort topk kthvalue median mode quantile argmax argmin nonzero unique_dim _unique2 grid_sampler "
    "affine_grid_generator nms roi_align roi_pool ps_roi_align ps_roi_pool",
)
BRANCHES = Nearest("branches on values (`if tensor:`)", "`torch.where`")

NEAREST: tuple[Nearest, ...] = (
    Nearest(
        "recurrent layers (RNN, LSTM, GRU)",
        "`Conv1d` or attention",
        "rnn_tanh rnn_relu lstm gru rnn_tanh_cell rnn_relu_cell lstm_cell gru_cell",
    ),
    SORTING,
    Nearest(
        "`gather` from computed values, indexing by computed places other than rows of a table, by more than one list, "
        "or by lists that fall into more than 64 slices",
        "slices, `where` with a comparison, or an embedding of computed places",
        "gather index index_select take take_along_dim",
    ),
    Nearest("`unfold` and `fold` of maps with windows that overlap", "convolutions", "im2col col2im unfold"),
    Nearest(
        "a cumulative sum of more than 4,096 places, cumulative products, `einsum` of other than two tensors, Fourier "
        "transforms",
        "`matmul`",
        "cumsum cumprod logcumsumexp einsum stft istft fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 "
        "fft_rfft2 fft_irfft2 fft_fftn fft_ifftn fft_rfftn fft_irfftn",
    ),
    Nearest(
        "whole numbers from real ones (rounding), division without remainder, and whole numbers beyond 2^24, which "
        "float32 does not hold",
        "real numbers",
        "round floor ceil trunc frac fmod remainder floor_divide div.Tensor_mode div.Scalar_mode",
    ),
    Nearest(
        "trigonometric functions, logarithms to other bases, `log1p`, `expm1`, `prod`, `any`, `all`, `isnan`, "
        "`diagonal`, distances of all pairs, `EmbeddingBag`, `Bilinear`",
        "`log`, `exp`, sums, maxima and products of tensors",
        "sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh sinc log2 log10 log1p exp2 expm1 logaddexp erfc "
        "erfinv lgamma digamma hypot prod any all isnan isinf isfinite nan_to_num nanmean diagonal cdist embedding_bag "
        "bilinear",
    ),
    Nearest(
        "powers but for 2, 3, 0.5, -0.5 and -1, norms but for the Euclidean one, products with a vector, average pools "
        "with a divisor of their own, adaptive max pools with windows of different sizes",
        "products, roots, a matrix of one column, and pools with windows of one size",
        "pow linalg_vector_norm matmul mv avg_pool2d adaptive_max_pool1d adaptive_max_pool2d",
    ),
    Nearest(
        "three-dimensional convolutions, dilated max pools, bicubic or exact-nearest resizing",
        "two-dimensional ones, `nearest` or `bilinear`",
        "conv3d conv_transpose3d max_pool2d max_pool3d avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d "
        "upsample_bicubic2d upsample_trilinear3d upsample_nearest3d _upsample_nearest_exact1d "
        "_upsample_nearest_exact2d",
    ),
    Nearest(
        "BatchNorm without running statistics, random numbers",
        "evaluation mode, with statistics",
        "batch_norm rand_like randn_like bernoulli multinomial normal exponential",
    ),
    BRANCHES,
    Nearest("computation in other types than float32", "the model as `model.float()`", "wrap_with_autocast"),
)
"""All rows of the table that are about operations."""

_BY_NAME = {name: row for row in NEAREST for name in row.operations.split()}


def find_nearest(operation: Any) -> Nearest | None:
    """Return the row of the table for an operation of torch, or None if there is none."""
    name = str(operation).partition(".")[2] or str(operation)  # "lstm.input" of aten.lstm.input
    return _BY_NAME.get(name) or _BY_NAME.get(name.partition(".")[0])
