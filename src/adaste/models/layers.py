"""Layers that compute what torch's own would, and can be told to do it in a faster way on a GPU."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Shared = Tensor | tuple[Tensor, Tensor]
"""A tensor with two users, or one tensor for each of them, so that their gradients need not be added separately."""


class Convolution(nn.Conv2d):
    """A convolution. `faster`, where given, is called in training instead: (x, weight, stride, padding)."""

    faster: Callable[..., Tensor] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if self.faster is None or not torch.is_grad_enabled():
            return super().forward(input)
        return self.faster(input, self.weight, self.stride, self.padding)


class Norm(nn.Module):
    """relu(BatchNorm(x) + residual); the residual may be missing, and so may the ReLU.

    users   how many layers use the result; with two it may come as a pair.
    faster  where given, is called instead if it takes the input: (norm, x, residual).
    """

    def __init__(self, batch_norm: nn.BatchNorm2d, *, relu: bool = True, users: int = 1) -> None:
        super().__init__()
        self.batch_norm, self.relu, self.users = batch_norm, relu, users
        self.faster: Any = None

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Shared:
        if self.faster is not None and self.faster.takes(x):
            result: Shared = self.faster(self, x, residual)
            return result
        y = self.batch_norm(x)
        if residual is not None:
            y = y + residual
        return F.relu(y) if self.relu else y


def for_two(x: Shared) -> tuple[Tensor, Tensor]:
    """`x` for each of its two users."""
    return x if isinstance(x, tuple) else (x, x)
