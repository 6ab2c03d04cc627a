"""relu(BatchNorm(x) + residual) on a GPU: two passes over memory forward, two backward.

For images (n, c, h, w) in channels_last, which in memory is a matrix of n h w rows and c columns; BatchNorm without
scales and shifts. With m and v the mean and (biased) variance of a column, r = 1 / sqrt(v + eps), x' = (x - m) r:

    forward    y = max(0, x' + residual)
    backward   g = dy where y > 0, else 0;    d residual = g;    dx = r (g - mean(g) - x' mean(g x'))

The sums over rows are made by blocks that each take a part of them; the last block to arrive adds up the parts, in an
order that does not depend on who was first, so results are the same every time.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class Tiling(NamedTuple):
    """How a kernel divides the matrix: tiles of rows and columns, each in the hands of some warps of 32 threads."""

    rows: int
    columns: int
    warps: int


STATISTICS = Tiling(rows=128, columns=64, warps=8)
GRADIENT_SUMS = Tiling(rows=64, columns=64, warps=8)
ELEMENTS = Tiling(rows=64, columns=64, warps=8)
PARTS = 256
"""Into how many parts the rows are divided for sums, at most."""


@triton.jit
def _last_to_arrive(arrivals, block, parts):
    """Whether this is the last of the blocks that share a counter; that one sets it back to zero."""
    tl.debug_barrier()  # all of this block's parts are written before it counts itself
    last = tl.atomic_add(arrivals + block, 1, sem="acq_rel") == parts - 1
    if last:
        tl.store(arrivals + block, 0)
    return last


@triton.jit
def _total(parts, column, which, channels: tl.constexpr, part_count: tl.constexpr, room: tl.constexpr):
    """The sum over all parts of one of the two sums in them; all are loaded at once, to wait for memory only once."""
    part = tl.arange(0, room)
    place = parts + (2 * part[:, None] + which) * channels + column[None, :]
    # Written by other blocks of this kernel: read past the nearest cache.
    return tl.sum(tl.load(place, mask=part[:, None] < part_count, other=0.0, cache_modifier=".cg"), axis=0)


@triton.jit
def _statistics(
    x,
    mean,
    variance,
    running_mean,
    running_variance,
    parts,
    arrivals,
    momentum,
    count,
    channels: tl.constexpr,
    part_count: tl.constexpr,
    room: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    part, block = tl.program_id(0), tl.program_id(1)
    column = block * columns + tl.arange(0, columns)
    pivot = tl.load(x + column).to(tl.float32)  # sums around a typical value lose no digits
    total = tl.zeros([rows, columns], tl.float32)
    squares = tl.zeros([rows, columns], tl.float32)
    for first in range(part * rows, count, part_count * rows):
        row = first + tl.arange(0, rows)
        inside = row[:, None] < count
        value = tl.load(x + row[:, None] * channels + column[None, :], mask=inside, other=0.0).to(tl.float32)
        value = tl.where(inside, value - pivot[None, :], 0.0)
        total += value
        squares += value * value
    tl.store(parts + (2 * part) * channels + column, tl.sum(total, axis=0))
    tl.store(parts + (2 * part + 1) * channels + column, tl.sum(squares, axis=0))
    if _last_to_arrive(arrivals, block, part_count):
        shift = _total(parts, column, 0, channels, part_count, room) / count
        spread = _total(parts, column, 1, channels, part_count, room) / count - shift * shift
        spread = tl.maximum(spread, 0.0)
        tl.store(mean + column, pivot + shift)
        tl.store(variance + column, spread)
        old_mean = tl.load(running_mean + column)
        old_variance = tl.load(running_variance + column)
        unbiased = spread * (count / (count - 1))
        tl.store(running_mean + column, old_mean + momentum * (pivot + shift - old_mean))
        tl.store(running_variance + column, old_variance + momentum * (unbiased - old_variance))


@triton.jit
def _normalise(
    x,
    residual,
    y,
    mean,
    variance,
    eps,
    adds: tl.constexpr,
    relu: tl.constexpr,
    count,
    channels: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    place = row[:, None] * channels + column[None, :]
    inside = row[:, None] < count
    scale = tl.rsqrt(tl.load(variance + column) + eps)
    value = tl.load(x + place, mask=inside).to(tl.float32)
    value = (value - tl.load(mean + column)[None, :]) * scale[None, :]
    if adds:
        value += tl.load(residual + place, mask=inside).to(tl.float32)
    if relu:
        value = tl.maximum(value, 0.0)
    tl.store(y + place, value, mask=inside)


@triton.jit
def _passed(gradient, normal, y, place, inside, adds: tl.constexpr, relu: tl.constexpr):
    """The gradient behind the ReLU; without a residual the sign of y is that of x'."""
    if relu:
        if adds:
            normal = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.where(normal > 0, gradient, 0.0)
    return gradient


@triton.jit
def _gradient_sums(
    dy,
    second,
    x,
    y,
    passed,
    mean,
    variance,
    sums,
    parts,
    arrivals,
    eps,
    twice: tl.constexpr,
    adds: tl.constexpr,
    relu: tl.constexpr,
    keeps: tl.constexpr,
    count,
    channels: tl.constexpr,
    part_count: tl.constexpr,
    room: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    part, block = tl.program_id(0), tl.program_id(1)
    column = block * columns + tl.arange(0, columns)
    centre = tl.load(mean + column)
    scale = tl.rsqrt(tl.load(variance + column) + eps)
    total = tl.zeros([rows, columns], tl.float32)
    products = tl.zeros([rows, columns], tl.float32)
    for first in range(part * rows, count, part_count * rows):
        row = first + tl.arange(0, rows)
        inside = row[:, None] < count
        place = row[:, None] * channels + column[None, :]
        normal = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        normal = (normal - centre[None, :]) * scale[None, :]
        gradient = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
        if twice:
            gradient += tl.load(second + place, mask=inside, other=0.0).to(tl.float32)
        gradient = _passed(gradient, normal, y, place, inside, adds, relu)
        if keeps:
            tl.store(passed + place, gradient, mask=inside)
        total += gradient
        products += gradient * normal
    tl.store(parts + (2 * part) * channels + column, tl.sum(total, axis=0))
    tl.store(parts + (2 * part + 1) * channels + column, tl.sum(products, axis=0))
    if _last_to_arrive(arrivals, block, part_count):
        tl.store(sums + column, _total(parts, column, 0, channels, part_count, room) / count)
        tl.store(sums + channels + column, _total(parts, column, 1, channels, part_count, room) / count)


@triton.jit
def _gradient(
    passed,
    x,
    dx,
    mean,
    variance,
    sums,
    eps,
    relu: tl.constexpr,
    count,
    channels: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    place = row[:, None] * channels + column[None, :]
    inside = row[:, None] < count
    scale = tl.rsqrt(tl.load(variance + column) + eps)
    normal = (tl.load(x + place, mask=inside, other=0.0).to(tl.float32) - tl.load(mean + column)[None, :]) * scale
    gradient = tl.load(passed + place, mask=inside, other=0.0).to(tl.float32)
    gradient = _passed(gradient, normal, x, place, inside, False, relu)
    offset = tl.load(sums + column)[None, :] + normal * tl.load(sums + channels + column)[None, :]
    tl.store(dx + place, (gradient - offset) * scale[None, :], mask=inside)


class Norm(torch.autograd.Function):
    """y, from x and a residual or None; updates the running statistics. `arrivals` are zeros, and so afterwards.

    `twice`: y as two values, for two users; their gradients are then added here, and not in a pass of their own.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        residual: Tensor | None,
        running_mean: Tensor,
        running_variance: Tensor,
        arrivals: Tensor,
        momentum: float,
        eps: float,
        relu: bool,
        twice: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        mean, variance = torch.empty_like(running_mean), torch.empty_like(running_variance)
        summing = _Summing(x, STATISTICS)
        _statistics[summing.grid](
            x, mean, variance, running_mean, running_variance, summing.parts, arrivals, momentum, *summing.sizes,
            num_warps=STATISTICS.warps,
        )  # fmt: skip
        y = normalised(x, residual, mean, variance, eps, relu=relu)
        adds = residual is not None
        ctx.save_for_backward(x, y if adds else x, mean, variance, arrivals)
        ctx.eps, ctx.adds, ctx.relu = eps, adds, relu
        return (y, y.view_as(y)) if twice else y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, y, mean, variance, arrivals = ctx.saved_tensors
        dy, second = (gradient.contiguous(memory_format=torch.channels_last) for gradient in (gradients * 2)[:2])
        twice = len(gradients) == 2
        keeps = twice or (ctx.adds and ctx.relu)
        passed = torch.empty_like(x) if keeps else dy
        sums = torch.empty(2, x.shape[1], dtype=torch.float32, device=x.device)
        summing = _Summing(x, GRADIENT_SUMS)
        _gradient_sums[summing.grid](
            dy, second, x, y, passed, mean, variance, sums, summing.parts, arrivals, ctx.eps,
            twice, ctx.adds, ctx.relu, keeps, *summing.sizes, num_warps=GRADIENT_SUMS.warps,
        )  # fmt: skip
        dx = torch.empty_like(x)
        grid, sizes = _tiles(x)
        masks = ctx.relu and not keeps
        _gradient[grid](passed, x, dx, mean, variance, sums, ctx.eps, masks, *sizes, num_warps=ELEMENTS.warps)
        return dx, passed if ctx.adds else None, *(None for _ in range(7))


def normalised(x: Tensor, residual: Tensor | None, mean: Tensor, variance: Tensor, eps: float, *, relu: bool) -> Tensor:
    """Y for given statistics."""
    y = torch.empty_like(x)
    added = x if residual is None else residual.contiguous(memory_format=torch.channels_last)
    grid, sizes = _tiles(x)
    _normalise[grid](x, added, y, mean, variance, eps, residual is not None, relu, *sizes, num_warps=ELEMENTS.warps)
    return y


def takes(x: Tensor) -> bool:
    """Whether the kernels can work on such images."""
    return (
        x.is_cuda
        and x.dim() == 4
        and x.shape[1] % 64 == 0
        and x.is_contiguous(memory_format=torch.channels_last)
        and x.numel() < 2**31
    )


class _Summing:
    """How the rows are divided among blocks that make sums, and room for what each of them finds."""

    def __init__(self, x: Tensor, tiling: Tiling) -> None:
        rows, channels = _matrix(x)
        count = min(PARTS, triton.cdiv(rows, tiling.rows))
        self.grid = (count, channels // tiling.columns)
        self.parts = torch.empty(2 * count, channels, dtype=torch.float32, device=x.device)
        self.sizes = (rows, channels, count, triton.next_power_of_2(count), tiling.rows, tiling.columns)


def _tiles(x: Tensor) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    """The grid of an element-wise kernel, and the sizes it is told."""
    rows, channels = _matrix(x)
    grid = triton.cdiv(rows, ELEMENTS.rows), channels // ELEMENTS.columns
    return grid, (rows, channels, ELEMENTS.rows, ELEMENTS.columns)


def _matrix(x: Tensor) -> tuple[int, int]:
    """Rows and columns of images in channels_last."""
    return x.numel() // x.shape[1], x.shape[1]
