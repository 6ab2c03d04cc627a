"""What a transform is: frozen settings, numbers drawn on the host, and (by its kind) a pure function of tensors.

There are three kinds, and a batch passes them in this order:

    Spatial   where each pixel of the result comes from; all of them together are one gather
    Pixels    what is done to the normalised pixels of each image alone
    Pair      what is done to an image and its partner in the batch, and to their labels

A draw of one dimension, (steps,), holds one number per step; every other, (steps, batch, ...), is per image.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require
from adaste.data.augment.index_map import Axis
from adaste.data.augment.randomness import generator
from adaste.estimators.schedules import Schedule

Size = tuple[int, int]
"""Height and width."""

Draws = dict[str, Tensor]
"""Random numbers by name."""


@dataclass(frozen=True)
class Batch:
    """What a training step computes with."""

    images: Tensor
    """(b, c, h, w) in channels_last memory format, normalised."""
    labels: Tensor
    """(b,) int64."""
    partners: Tensor | None = None
    """(b,) int64: the labels of the images mixed in."""
    share: Tensor | None = None
    """The weight of `labels`, a tensor without dimensions; `partners` have the rest."""


@dataclass(frozen=True)
class Epoch:
    """For whom a transform draws: an epoch of (steps, batch) images, and its position among the transforms."""

    seed: int
    number: int
    order: Tensor
    ranks: int
    position: int

    def generator(self, *, epoch: int | None = None) -> torch.Generator:
        """The random numbers of this transform alone, in this epoch or in another one."""
        return generator(self.seed, self.number if epoch is None else epoch, f"transform {self.position}")

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.order.shape[0]

    @property
    def batch(self) -> int:
        """Images in a step, of all ranks together."""
        return self.order.shape[1]


@dataclass(frozen=True)
class Transform(ABC):
    """A change of training images. Frozen: its fields are its configuration, checked when it is made."""

    names: ClassVar[tuple[str, ...]] = ()
    """What `draw` draws."""

    @abstractmethod
    def draw(self, epoch: Epoch, size: Size) -> Draws:
        """Its random numbers for images of `size`, as host tensors of small types with leading dimension `steps`."""


@dataclass(frozen=True)
class Spatial(Transform):
    """Moves pixels."""

    def output_size(self, size: Size) -> Size:
        """The size it makes of images of `size`, or an error where it cannot."""
        return size

    @abstractmethod
    def place(self, rows: Axis, columns: Axis, draws: Draws) -> tuple[Axis, Axis]:
        """Where the rows and columns of its result come from, given where those of its input come from."""

    @property
    def settled(self) -> "Spatial | None":
        """What evaluation does in its place; None where nothing."""
        return None


@dataclass(frozen=True)
class Pixels(Transform):
    """Changes the normalised pixels of each image."""

    @abstractmethod
    def change(self, images: Tensor, draws: Draws) -> Tensor:
        """Images of shape (b, h, w, c), changed."""


@dataclass(frozen=True)
class Pair(Transform):
    """Mixes each image with another one of its batch."""

    names: ClassVar[tuple[str, ...]] = ("partner", "share")

    @abstractmethod
    def mix(self, images: Tensor, partners: Tensor, draws: Draws) -> Tensor:
        """Images of shape (b, h, w, c), mixed with their partners by `share`."""


def require_number(name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf) -> None:
    """Check that `value` is a plain number: a transform does not change during training."""
    if isinstance(value, Schedule | Tensor):
        raise ValueError(f"{name} must be a plain number (a transform follows no schedule), got {value!r}")
    require(name, value, above=above, least=least)
