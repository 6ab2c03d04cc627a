"""The kernels of `norm`: functions of pointers to matrices of `count` rows and `channels` columns.

The sums over rows are made by blocks that each take a part of them; the last block to arrive adds up the parts, in an
order that does not depend on who was first, so results are the same every time.
"""

import triton
import triton.language as tl


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
    """Return the sum of the parts of one of two sums; all are loaded at once, to wait for memory only once."""
    part = tl.arange(0, room)
    place = parts + (2 * part[:, None] + which) * channels + column[None, :]
    # Written by other blocks of this kernel: read past the nearest cache.
    return tl.sum(tl.load(place, mask=part[:, None] < part_count, other=0.0, cache_modifier=".cg"), axis=0)


@triton.jit
def statistics(
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
    """Write the mean and variance of every column, and from them new running statistics."""
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
def normalise(
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
    """Write max(0, x' + residual), from given statistics."""
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
        value = tl.where(value < 0.0, 0.0, value)  # a maximum would turn NaN into zero, and hide it
    tl.store(y + place, value, mask=inside)


@triton.jit
def _passed(gradient, normal, y, place, inside, adds: tl.constexpr, relu: tl.constexpr):
    """Return the gradient behind the ReLU; without a residual the sign of y is that of x'."""
    if relu:
        if adds:
            normal = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.where(normal > 0, gradient, 0.0)
    return gradient


@triton.jit
def gradient_sums(
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
    """Write the means over rows of g and g x', where g is the part of dy (and of a second gradient) that the ReLU
    passes.
    """
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
def gradient(
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
    """Write dx from g, the sums over it, and x."""
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
