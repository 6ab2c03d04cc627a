"""The base class of transforms, and the random numbers of an epoch.

A transform has frozen settings, draws its random numbers on the host, and (by its kind) is a pure function of tensors.
There are three kinds, and a batch passes them in this order:

    Spatial   where each pixel of the result comes from; all of them together are one gather (spatial.py)
    Pixels    a change of the normalised pixels of each image alone (pixels.py)
    Pair      a mixture of an image with its partner in the batch, and of their labels (pixels.py)

A draw of one dimension, (steps,), holds one number per step; every other, (steps, batch, ...), is per image.
Generators depend on (seed, epoch, purpose) and on nothing else.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from adaste._util.checks import require, require_count
from adaste.estimators.schedules import Schedule


def generator(seed: int, epoch: int, purpose: str) -> torch.Generator:
    """Return a generator on the host; other seeds, epochs or purposes give independent numbers."""
    require_count("seed", seed, least=0)
    require_count("epoch", epoch, least=0)
    # Hashed, because neighbouring seeds must not give related streams.
    digest = hashlib.sha256(f"{seed}/{epoch}/{purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def steps_of_epoch(*, count: int, batch: int) -> int:
    """Return the number of whole batches in `count` images. Raise ValueError if there is none."""
    require_count("batch", batch, least=1)
    require_count("count", count, least=1)
    if count < batch:
        raise ValueError(
            f"an epoch needs at least one whole batch (the last incomplete one is dropped), "
            f"got {count} images for batches of {batch}: take smaller ones (--set batch=N)"
        )
    return count // batch


def order_of_epoch(*, seed: int, epoch: int, count: int, batch: int) -> Tensor:
    """Return the images of an epoch's steps, (steps, batch): a random permutation without its last incomplete batch.

    Every epoch drops other images.
    """
    steps = steps_of_epoch(count=count, batch=batch)
    return torch.randperm(count, generator=generator(seed, epoch, "order"))[: steps * batch].view(steps, batch)


Size = tuple[int, int]
"""Height and width."""

Draws = dict[str, Tensor]
"""Random numbers by name."""


class Targets(NamedTuple):
    """The classes that a loss compares logits with.

    Args:
        labels: (b,) int64.
        partners: (b,) int64, the labels of the images mixed in; None if images are not mixed.
        share: The weight of `labels`, a tensor without dimensions; `partners` have the rest.
    """

    labels: Tensor
    partners: Tensor | None = None
    share: Tensor | None = None


class Batch(NamedTuple):
    """The input and the targets of a training step; images are (b, c, h, w) in channels_last, normalised."""

    images: Tensor
    targets: Targets


@dataclass(frozen=True)
class Epoch:
    """An epoch of (steps, batch) images, and the position of the transform that draws for it."""

    seed: int
    number: int
    order: Tensor
    ranks: int
    position: int

    def generator(self, *, epoch: int | None = None) -> torch.Generator:
        """Return the generator of this transform alone, in this epoch or in another one."""
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
    """The names of the numbers that `draw` returns."""

    @abstractmethod
    def draw(self, epoch: Epoch, size: Size) -> Draws:
        """Draw its numbers for images of `size`, as host tensors of small types with leading dimension `steps`."""


def require_number(name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf) -> None:
    """Check that `value` is a plain number: a transform does not change during training."""
    if isinstance(value, Schedule | Tensor):
        raise ValueError(f"{name} must be a plain number (a transform follows no schedule), got {value!r}")
    require(name, value, above=above, least=least)
