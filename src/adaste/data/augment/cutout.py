"""Cutout (DeVries and Taylor, 2017): a square of every image hidden."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require_count
from adaste.data.augment.base import Draws, Epoch, Pixels, Size


@dataclass(frozen=True)
class Cutout(Pixels):
    """A square of zeros (the mean, since images are normalised) around a random centre, clipped at the border."""

    names: ClassVar[tuple[str, ...]] = ("centre",)

    size: int

    def __post_init__(self) -> None:
        require_count("size", self.size, least=1)

    def draw(self, epoch: Epoch, size: Size) -> Draws:
        generator = epoch.generator()
        centre = [torch.randint(size[axis], epoch.order.shape, generator=generator) for axis in (0, 1)]
        return {"centre": torch.stack(centre, dim=-1).to(torch.int16)}

    def change(self, images: Tensor, draws: Draws) -> Tensor:
        start = draws["centre"].long() - self.size // 2

        def hidden(axis: int) -> Tensor:
            place = torch.arange(images.shape[1 + axis], device=images.device) - start[:, axis, None]
            return (place >= 0) & (place < self.size)

        return torch.where(hidden(0)[:, :, None, None] & hidden(1)[:, None, :, None], 0, images)
