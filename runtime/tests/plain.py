"""The operations in plain numpy, in float64 and in torch's order (N, C, H, W): what every kernel is compared to."""

import numpy as np


def windows(x, kernel, stride, padding, fill=0.0):
    """(N, C, out_h, out_w, kh, kw)"""
    (ph, pw), (sh, sw) = padding, stride
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))[:, :, ::sh, ::sw]


def convolution(x, weight, stride=(1, 1), padding=(0, 0), groups=1):
    view = windows(x.astype(np.float64), weight.shape[2:], stride, padding)
    parts = zip(np.split(view, groups, axis=1), np.split(weight.astype(np.float64), groups), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", part, w, optimize=True) for part, w in parts], axis=1)


def finished(y, scale=None, shift=None, residual=None, relu=False):
    per_channel = (1, -1) + (1,) * (y.ndim - 2)
    y = y * (1.0 if scale is None else scale.reshape(per_channel)) + (
        0.0 if shift is None else shift.reshape(per_channel)
    )
    y = y if residual is None else y + residual
    return np.maximum(y, 0) if relu else y


def max_pool(x, kernel, stride, padding):
    return windows(x, kernel, stride, padding, fill=-np.inf).max(axis=(4, 5))


def average_pool(x, kernel, stride, padding, count_padding):
    sums = windows(x.astype(np.float64), kernel, stride, padding).sum(axis=(4, 5))
    counts = windows(np.ones_like(x), kernel, stride, padding, fill=float(count_padding)).sum(axis=(4, 5))
    return sums / counts
