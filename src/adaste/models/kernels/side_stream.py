"""Convolutions whose weight gradients are computed on a second stream.

The backward pass continues with the gradient of the input and needs the gradient of a weight only in the update: on a
GPU the two are computed at the same time.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALIGNMENT = 8


class SideStream:
    """A second stream for weight gradients; they are complete after `join`."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._used: list[Tensor] = []

    def convolution(self, x: Tensor, weight: nn.Parameter, stride: Any, padding: Any) -> Tensor:
        """Return a convolution without bias whose weight gradient is computed on this stream."""
        y: Tensor = _Convolution.apply(x, weight, stride, padding, self)  # type: ignore[no-untyped-call]
        return y

    def weight_gradient(self, dy: Tensor, x: Tensor, weight: nn.Parameter, stride: Any, padding: Any) -> None:
        """Compute `weight.grad` after all earlier work of the current stream."""
        self._stream.wait_stream(torch.cuda.current_stream())
        # Keeps the memory from being reused while this stream reads it. From here on there is something to join,
        # whatever happens: a capture with a stream that is never joined cannot be ended.
        self._used += [dy, x]
        with torch.cuda.stream(self._stream):
            gradient = _backward(dy, x, _aligned(weight), stride, padding, wanted=(False, True))[1]
            weight.grad = gradient[:, : weight.shape[1]].contiguous(memory_format=torch.channels_last)

    def join(self) -> None:
        """Let the current stream wait for all weight gradients."""
        if self._used:  # else this stream is not part of a capture
            torch.cuda.current_stream().wait_stream(self._stream)
        self._used.clear()


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: nn.Parameter, stride: Any, padding: Any, side_stream: SideStream
    ) -> Tensor:
        x = _aligned(x)
        ctx.save_for_backward(x)
        ctx.weight, ctx.stride, ctx.padding, ctx.side_stream = weight, stride, padding, side_stream
        return F.conv2d(x, _aligned(weight), stride=stride, padding=padding)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        ctx.side_stream.weight_gradient(dy, x, ctx.weight, ctx.stride, ctx.padding)
        dx = None
        if ctx.needs_input_grad[0]:
            dx = _backward(dy, x, _aligned(ctx.weight), ctx.stride, ctx.padding, wanted=(True, False))[0]
            dx = dx[:, : ctx.weight.shape[1]]
        return dx, None, None, None, None


def _backward(
    dy: Tensor, x: Tensor, weight: Tensor, stride: Any, padding: Any, *, wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor]:
    dx, dw, _ = torch.ops.aten.convolution_backward(
        dy, x, weight, None, stride, padding, (1, 1), False, (0, 0), 1, (*wanted, False)
    )
    return dx, dw


def _aligned(tensor: Tensor) -> Tensor:
    """Return `tensor` with channels of zeros up to the next multiple of eight, as tensor cores need."""
    missing = -tensor.shape[1] % ALIGNMENT
    if not missing:
        return tensor
    return F.pad(tensor, (0, 0, 0, 0, 0, missing)).contiguous(memory_format=torch.channels_last)
