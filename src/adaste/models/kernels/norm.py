"""relu(BatchNorm(x) + residual) on a GPU: two passes over memory forward, two backward.

For images (n, c, h, w) in channels_last, which in memory is a matrix of n h w rows and c columns; BatchNorm without
scales and shifts. With m and v the mean and (biased) variance of a column, r = 1 / sqrt(v + eps), x' = (x - m) r:

    forward    y = max(0, x' + residual)
    backward   g = dy where y > 0, else 0;    d residual = g;    dx = r (g - mean(g) - x' mean(g x'))
"""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor, nn

from adaste.models.kernels.norm_triton import gradient, gradient_sums, normalise, statistics


class Tiling(NamedTuple):
    """How a kernel divides the matrix: into tiles of rows and columns, each for some warps of 32 threads."""

    rows: int
    columns: int
    warps: int


# The fastest of those tried on an H200, over the four sizes of images in a ResNet-18 (docs/speed.md).
STATISTICS = Tiling(rows=128, columns=32, warps=4)
GRADIENT_SUMS = Tiling(rows=64, columns=32, warps=4)
ELEMENTS = Tiling(rows=64, columns=64, warps=8)
BLOCKS = 512
"""Blocks that sum: enough to keep a GPU busy, few enough for one of them to add their parts quickly."""

WIDTH = 64
"""The number of channels must be a multiple of this."""

MOST_CHANNELS = 4096


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
        statistics[summing.grid](
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
        dy, second = (each.contiguous(memory_format=torch.channels_last) for each in (gradients * 2)[:2])
        twice = len(gradients) == 2
        keeps = twice or (ctx.adds and ctx.relu)
        passed = torch.empty_like(x) if keeps else dy
        sums = torch.empty(2, x.shape[1], dtype=torch.float32, device=x.device)
        summing = _Summing(x, GRADIENT_SUMS)
        gradient_sums[summing.grid](
            dy, second, x, y, passed, mean, variance, sums, summing.parts, arrivals, ctx.eps,
            twice, ctx.adds, ctx.relu, keeps, *summing.sizes, num_warps=GRADIENT_SUMS.warps,
        )  # fmt: skip
        dx = torch.empty_like(x)
        grid, sizes = _tiles(x)
        masks = ctx.relu and not keeps
        gradient[grid](passed, x, dx, mean, variance, sums, ctx.eps, masks, *sizes, num_warps=ELEMENTS.warps)
        return dx, passed if ctx.adds else None, *(None for _ in range(7))


def normalised(x: Tensor, residual: Tensor | None, mean: Tensor, variance: Tensor, eps: float, *, relu: bool) -> Tensor:
    """Return y for given statistics."""
    y = torch.empty_like(x)
    added = x if residual is None else residual.contiguous(memory_format=torch.channels_last)
    grid, sizes = _tiles(x)
    normalise[grid](x, added, y, mean, variance, eps, residual is not None, relu, *sizes, num_warps=ELEMENTS.warps)
    return y


class FastNorm:
    """Computes relu(BatchNorm(x) + residual) of one layer by these kernels."""

    def __init__(self, device: torch.device) -> None:
        self._arrivals = torch.zeros(MOST_CHANNELS // STATISTICS.columns, dtype=torch.int32, device=device)

    def takes(self, x: Tensor) -> bool:
        """Return whether the kernels support these images."""
        return (
            x.is_cuda
            and x.dim() == 4
            and x.shape[1] % WIDTH == 0
            and x.shape[1] <= MOST_CHANNELS
            and x.is_contiguous(memory_format=torch.channels_last)
            and x.numel() < 2**31
        )

    def __call__(self, layer: Any, x: Tensor, residual: Tensor | None) -> Tensor | tuple[Tensor, Tensor]:
        """Return the output of `layer`, a Norm, for x; in training, update its running statistics."""
        norm: nn.BatchNorm2d = layer.batch_norm
        mean, variance = norm.running_mean, norm.running_var
        assert mean is not None and variance is not None
        if not layer.training:
            return normalised(x, residual, mean, variance, norm.eps, relu=layer.relu)
        twice = layer.users == 2 and torch.is_grad_enabled()
        result: Tensor | tuple[Tensor, Tensor] = Norm.apply(
            x, residual, mean, variance, self._arrivals, norm.momentum, norm.eps, layer.relu, twice
        )  # type: ignore[no-untyped-call]
        return result


class _Summing:
    """The division of the rows among blocks that sum, and a buffer for their parts."""

    def __init__(self, x: Tensor, tiling: Tiling) -> None:
        rows, channels = _matrix(x)
        columns = channels // tiling.columns
        count = min(max(BLOCKS // columns, 1), triton.cdiv(rows, tiling.rows))
        self.grid = (count, columns)
        self.parts = torch.empty(2 * count, channels, dtype=torch.float32, device=x.device)
        self.sizes = (rows, channels, count, triton.next_power_of_2(count), tiling.rows, tiling.columns)


def _tiles(x: Tensor) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    """Return the grid and the size arguments of an element-wise kernel."""
    rows, channels = _matrix(x)
    grid = triton.cdiv(rows, ELEMENTS.rows), channels // ELEMENTS.columns
    return grid, (rows, channels, ELEMENTS.rows, ELEMENTS.columns)


def _matrix(x: Tensor) -> tuple[int, int]:
    """Return the rows and columns of images in channels_last."""
    return x.numel() // x.shape[1], x.shape[1]
