"""One gather for any chain of crops, flips and a resize: each axis of the result knows where it comes from."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

OUTSIDE = -1
"""The index of what lies outside of the image: a zero."""


@dataclass(frozen=True)
class Axis:
    """For each image, the indices (b, n) inside the source that an axis of n pixels is read from.

    Where `second` is given, a pixel lies between two of the source: (1 - weight) first + weight second.
    """

    first: Tensor
    second: Tensor | None = None
    weight: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of pixels."""
        return self.first.shape[1]

    def take(self, index: Tensor) -> "Axis":
        """The axis whose pixel i is pixel `index[:, i]` of this one, or a zero where that lies outside."""
        inside = (index >= 0) & (index < self.length)
        near = index.clamp(0, self.length - 1)

        def pick(values: Tensor) -> Tensor:
            return torch.where(inside, values.gather(1, near), OUTSIDE)

        if self.second is None or self.weight is None:
            return Axis(pick(self.first))
        return Axis(pick(self.first), pick(self.second), self.weight.gather(1, near))

    def blend(self, low: Tensor, high: Tensor, weight: Tensor) -> "Axis":
        """The axis whose pixels lie between pixels `low` and `high` of this one."""
        return Axis(self.take(low).first, self.take(high).first, weight)


def whole(images: Tensor) -> tuple[Axis, Axis]:
    """The rows and columns of images (b, h, w, c) as they are."""
    count, height, width, _ = images.shape

    def every(length: int) -> Axis:
        return Axis(torch.arange(length, device=images.device).expand(count, length))

    return every(height), every(width)


def read(images: Tensor, rows: Axis, columns: Axis) -> Tensor:
    """Images (b, h, w, c) read at the given rows and columns: of their own type, or float32 where blended."""
    number = torch.arange(images.shape[0], device=images.device)[:, None, None]

    def pixels(row: Tensor, column: Tensor) -> Tensor:
        row, column = row[:, :, None], column[:, None, :]
        inside = (row != OUTSIDE) & (column != OUTSIDE)
        found = images[number, row.clamp(min=0), column.clamp(min=0)]
        return torch.where(inside[..., None], found, 0)

    def along_columns(row: Tensor) -> Tensor:
        return _blended(lambda column: pixels(row, column), columns, (slice(None), None, slice(None), None))

    return _blended(along_columns, rows, (slice(None), slice(None), None, None))


def _blended(at: Callable[[Tensor], Tensor], axis: Axis, spread: tuple[slice | None, ...]) -> Tensor:
    """What `at` gives along `axis`; `spread` says which dimension of the result that is."""
    if axis.second is None or axis.weight is None:
        return at(axis.first)
    return torch.lerp(at(axis.first).float(), at(axis.second).float(), axis.weight[spread])
