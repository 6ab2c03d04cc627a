"""Crops, flips and the resized crop, each a map from the pixels of the result to those of the source.

All of them together are one gather: each axis of the result knows which pixels of the source it is read from.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require_count, require_kind
from adaste.data.augment.transform import Draws, Epoch, Size, Transform, require_number
from adaste.estimators.noise import Noise

OUTSIDE = -1
"""The index of what lies outside of the image: a zero."""


@dataclass(frozen=True)
class IndexMap:
    """The pixels of the source that an axis of n pixels is read from: indices (b, n), for each image its own.

    Where `second` is given, a pixel lies between two of the source: (1 - weight) first + weight second.
    """

    first: Tensor
    second: Tensor | None = None
    weight: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of pixels."""
        return self.first.shape[1]

    def take(self, index: Tensor) -> "IndexMap":
        """Return the map whose pixel i is pixel `index[:, i]` of this one, or a zero if that lies outside."""
        inside = (index >= 0) & (index < self.length)
        near = index.clamp(0, self.length - 1)

        def pick(values: Tensor) -> Tensor:
            return torch.where(inside, values.gather(1, near), OUTSIDE)

        if self.second is None or self.weight is None:
            return IndexMap(pick(self.first))
        return IndexMap(pick(self.first), pick(self.second), self.weight.gather(1, near))

    def blend(self, low: Tensor, high: Tensor, weight: Tensor) -> "IndexMap":
        """Return the map whose pixels lie between pixels `low` and `high` of this one."""
        return IndexMap(self.take(low).first, self.take(high).first, weight)


def identity_maps(images: Tensor) -> tuple[IndexMap, IndexMap]:
    """Return the maps that leave the rows and the columns of images (b, h, w, c) as they are."""
    count, height, width, _ = images.shape

    def every(length: int) -> IndexMap:
        return IndexMap(torch.arange(length, device=images.device).expand(count, length))

    return every(height), every(width)


def gather(images: Tensor, rows: IndexMap, columns: IndexMap) -> Tensor:
    """Return images (b, h, w, c) read at the given rows and columns: of their own type, or float32 if blended."""
    number = torch.arange(images.shape[0], device=images.device)[:, None, None]

    def pixels(row: Tensor, column: Tensor) -> Tensor:
        row, column = row[:, :, None], column[:, None, :]
        inside = (row != OUTSIDE) & (column != OUTSIDE)
        found = images[number, row.clamp(min=0), column.clamp(min=0)]
        return torch.where(inside[..., None], found, 0)

    def along_columns(row: Tensor) -> Tensor:
        return _blend(lambda column: pixels(row, column), columns, (slice(None), None, slice(None), None))

    return _blend(along_columns, rows, (slice(None), slice(None), None, None))


def _blend(at: Callable[[Tensor], Tensor], axis: IndexMap, spread: tuple[slice | None, ...]) -> Tensor:
    """Return what `at` gives along `axis`; `spread` says which dimension of the result that is."""
    if axis.second is None or axis.weight is None:
        return at(axis.first)
    return torch.lerp(at(axis.first).float(), at(axis.second).float(), axis.weight[spread])


TRIES = 10
"""How often a box that does not fit is drawn again (torchvision's number)."""


@dataclass(frozen=True)
class Spatial(Transform):
    """Moves pixels."""

    def output_size(self, size: Size) -> Size:
        """Return the size it makes of images of `size`. Raise ValueError if they do not fit."""
        return size

    @abstractmethod
    def map_indices(self, rows: IndexMap, columns: IndexMap, draws: Draws) -> tuple[IndexMap, IndexMap]:
        """Return the maps of its result's rows and columns, given those of its input."""

    @property
    def at_evaluation(self) -> "Spatial | None":
        """The transform that evaluation uses in its place; None for none."""
        return None


@dataclass(frozen=True)
class CenterCrop(Spatial):
    """The middle `size` x `size` pixels."""

    size: int

    def __post_init__(self) -> None:
        require_count("size", self.size, least=1)

    def output_size(self, size: Size) -> Size:
        return _square(self, self.size, size)

    def draw(self, epoch: Epoch, size: Size) -> Draws:
        return {}

    def map_indices(self, rows: IndexMap, columns: IndexMap, draws: Draws) -> tuple[IndexMap, IndexMap]:
        def middle(axis: IndexMap) -> IndexMap:
            # Half to even, as torchvision rounds it.
            start = round((axis.length - self.size) / 2)
            return axis.take(_arange(axis, self.size) + start)

        return middle(rows), middle(columns)

    @property
    def at_evaluation(self) -> Spatial:
        return self


@dataclass(frozen=True)
class Crop(Spatial):
    """A random square of `size` (None: a rectangle as large as the image), after `padding` zeros on all sides.

    A zero is a black pixel: the published recipes pad before they normalise.
    """

    names: ClassVar[tuple[str, ...]] = ("offset",)

    padding: int = 4
    size: int | None = None

    def __post_init__(self) -> None:
        require_count("padding", self.padding, least=0)
        if self.size is not None:
            require_count("size", self.size, least=1)

    def output_size(self, size: Size) -> Size:
        return size if self.size is None else _square(self, self.size, size)

    def draw(self, epoch: Epoch, size: Size) -> Draws:
        generator = epoch.generator()
        places = [old + 2 * self.padding - new + 1 for old, new in zip(size, self.output_size(size), strict=True)]
        offsets = [torch.randint(places[axis], epoch.order.shape, generator=generator) for axis in (0, 1)]
        return {"offset": torch.stack(offsets, dim=-1).to(torch.int16)}

    def map_indices(self, rows: IndexMap, columns: IndexMap, draws: Draws) -> tuple[IndexMap, IndexMap]:
        start = draws["offset"].long() - self.padding
        height, width = self.output_size((rows.length, columns.length))
        return (
            rows.take(start[:, :1] + _arange(rows, height)),
            columns.take(start[:, 1:] + _arange(columns, width)),
        )

    @property
    def at_evaluation(self) -> Spatial | None:
        return None if self.size is None else CenterCrop(self.size)


@dataclass(frozen=True)
class Flip(Spatial):
    """Left and right exchanged in half of the images.

    `alternating`: each image has a random first side, fixed by the seed, and swaps sides every epoch, so that any two
    epochs in a row show both sides of every image.
    """

    names: ClassVar[tuple[str, ...]] = ("mirrored",)

    alternating: bool = False

    def __post_init__(self) -> None:
        require_kind("alternating", self.alternating, bool)

    def draw(self, epoch: Epoch, size: Size) -> Draws:
        if not self.alternating:
            return {"mirrored": torch.randint(2, epoch.order.shape, generator=epoch.generator(), dtype=torch.uint8)}
        # The numbers of Noise depend on the image alone, however many images an epoch shows.
        noise = Noise(epoch.generator(epoch=0).initial_seed())
        first_side = noise.uniform(torch.empty(int(epoch.order.max()) + 1))[epoch.order] < 0.5
        return {"mirrored": (first_side ^ bool(epoch.number % 2)).to(torch.uint8)}

    def map_indices(self, rows: IndexMap, columns: IndexMap, draws: Draws) -> tuple[IndexMap, IndexMap]:
        forward = _arange(columns, columns.length)
        return rows, columns.take(torch.where(draws["mirrored"][:, None] > 0, columns.length - 1 - forward, forward))


@dataclass(frozen=True)
class RandomResizedCrop(Spatial):
    """A box of random area (`scale`, a share of the image) and shape (`ratio`, width by height), resized to `size`.

    The distribution is torchvision's: ten tries for a box inside the image, then the largest central one of an
    allowed shape. Bilinear without antialiasing, so a box much larger than `size` is better shrunk beforehand.
    """

    names: ClassVar[tuple[str, ...]] = ("box",)

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        require_count("size", self.size, least=1)
        for name, ends in (("scale", self.scale), ("ratio", self.ratio)):
            if not isinstance(ends, tuple) or len(ends) != 2:
                raise ValueError(f"{name} must be a pair (smallest, largest), got {ends!r}")
            for end in ends:
                require_number(name, end, above=0)
            if ends[0] > ends[1]:
                raise ValueError(f"{name} must be a pair (smallest, largest), got {ends!r}")
        if self.scale[1] > 1:
            raise ValueError(f"scale must be at most 1 (it is a share of the image's area), got {self.scale!r}")

    def output_size(self, size: Size) -> Size:
        return _square(self, self.size, size)

    def draw(self, epoch: Epoch, size: Size) -> Draws:
        """Draw boxes (top, left, height, width)."""
        generator = epoch.generator()

        def between(low: float, high: float) -> Tensor:
            return torch.rand((TRIES, *epoch.order.shape), generator=generator) * (high - low) + low

        area = between(*self.scale) * (size[0] * size[1])
        ratio = between(math.log(self.ratio[0]), math.log(self.ratio[1])).exp()
        tried = [(area / ratio).sqrt().round().int(), (area * ratio).sqrt().round().int()]
        fits = torch.stack([(length > 0) & (length <= room) for length, room in zip(tried, size, strict=True)]).all(0)
        first = fits.int().argmax(0, keepdim=True)
        corners, lengths = [], []
        for length, room, fallback in zip(tried, size, self._largest(size), strict=True):
            length = torch.where(fits.any(0), length.gather(0, first)[0], fallback)
            start = torch.rand(epoch.order.shape, generator=generator, dtype=torch.float64) * (room - length + 1)
            corners.append(torch.where(fits.any(0), start.int(), (room - length) // 2))
            lengths.append(length)
        return {"box": torch.stack([*corners, *lengths], dim=-1).to(torch.int16)}

    def _largest(self, size: Size) -> Size:
        """Return the size of the largest box of an allowed shape."""
        height, width = size
        if width < height * self.ratio[0]:
            return min(height, round(width / self.ratio[0])), width
        if width > height * self.ratio[1]:
            return height, min(width, round(height * self.ratio[1]))
        return size

    def map_indices(self, rows: IndexMap, columns: IndexMap, draws: Draws) -> tuple[IndexMap, IndexMap]:
        top, left, height, width = draws["box"].long()[:, :, None].unbind(1)
        return self._resize(rows, top, height), self._resize(columns, left, width)

    def _resize(self, axis: IndexMap, start: Tensor, length: Tensor) -> IndexMap:
        """Map pixel centres onto pixel centres; nothing outside of the box is read."""
        centre = (_arange(axis, self.size) + 0.5) * (length / self.size) - 0.5
        centre = centre.clamp(min=0)
        low = torch.minimum(centre.long(), length - 1)
        high = torch.minimum(low + 1, length - 1)
        return axis.blend(start + low, start + high, centre - low)

    @property
    def at_evaluation(self) -> Spatial:
        return CenterCrop(self.size)


def _square(transform: Spatial, side: int, size: Size) -> Size:
    """Return the size of a square that is cut out of images of `size`. Raise ValueError if they are smaller."""
    # Also where padding or a resize could make it larger: evaluation takes the middle of the image as it is.
    if side > min(size):
        raise ValueError(f"{transform} needs images of at least {side} x {side}, got {size[0]} x {size[1]}")
    return side, side


def _arange(axis: IndexMap, length: int) -> Tensor:
    """Return 0, 1, ... for each image."""
    return torch.arange(length, device=axis.first.device).expand(axis.first.shape[0], length)
