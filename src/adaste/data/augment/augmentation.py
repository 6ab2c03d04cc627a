"""A chain of transforms and the normalisation: numbers drawn on the host per epoch, images changed on the device."""

from dataclasses import dataclass

import torch
from torch import Tensor

from adaste._util.checks import require_count
from adaste.data.augment.pixels import Pair, Pixels
from adaste.data.augment.spatial import RandomResizedCrop, Spatial, gather, identity_maps
from adaste.data.augment.transform import Batch, Draws, Epoch, Size, Targets, Transform, require_number

KINDS = (Spatial, Pixels, Pair)
"""The kinds of transforms in the order a batch passes them."""

LARGEST_SIDE = 2**15 - 1
"""Places inside an image are drawn as int16."""


@dataclass(frozen=True)
class Augmentation:
    """The transforms of a step's images, in order, and their normalisation: `mean` and `std` per channel, in 0..1."""

    transforms: tuple[Transform, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_transforms(self.transforms)
        if not isinstance(self.mean, tuple) or not isinstance(self.std, tuple) or not self.mean:
            raise ValueError(f"mean and std must be tuples of one number per channel, got {self.mean!r}, {self.std!r}")
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean and std must have one number per channel each, got {self.mean} and {self.std}")
        for mean, std in zip(self.mean, self.std, strict=True):
            require_number("mean", mean)
            require_number("std", std, above=0)

    def draw(self, *, seed: int, epoch: int, order: Tensor, image_size: Size, ranks: int = 1) -> Draws:
        """Draw all random numbers of an epoch on the host: (steps,) per step, (steps, batch, ...) per image.

        `order` (steps, batch) holds the indices of the images of every step, of all `ranks` together. With a transform
        of pairs the numbers depend on `ranks`, since partners are on the same rank; others do not.
        """
        require_count("ranks", ranks, least=1)
        if order.dtype != torch.int64 or order.dim() != 2:
            raise ValueError(
                f"order must hold indices, int64 (steps, batch), got {order.dtype} of shape {tuple(order.shape)}"
            )
        if order.shape[1] % ranks:
            raise ValueError(f"a batch must divide evenly among ranks, got {order.shape[1]} images for {ranks} ranks")
        size, draws = image_size, dict[str, Tensor]()
        for position, transform in enumerate(self.transforms):
            numbers = transform.draw(Epoch(seed, epoch, order, ranks, position), _check_size(size))
            draws |= {f"{position}.{name}": numbers[name] for name in transform.names}
            size = transform.output_size(size) if isinstance(transform, Spatial) else size
        return draws

    def output_size(self, size: Size) -> Size:
        """Return the size that a network sees of images of `size`, in training and in evaluation."""
        for transform in self.transforms:
            size = transform.output_size(size) if isinstance(transform, Spatial) else size
        return size

    def apply(self, images: Tensor, labels: Tensor, draws: Draws, dtype: torch.dtype) -> Batch:
        """Return the batch of one step from uint8 images (b, h, w, c), their labels, and the draws of that step.

        A pure function that never waits for the device.
        """
        self._check_images(images)
        steps = [
            (transform, self._draws_of(draws, place, len(images))) for place, transform in enumerate(self.transforms)
        ]
        moves = [(transform, numbers) for transform, numbers in steps if isinstance(transform, Spatial)]
        pixels = self._normalise(_move(images, moves))
        partners = share = None
        for transform, numbers in steps:
            if isinstance(transform, Pixels):
                pixels = transform.change(pixels, numbers)
            if isinstance(transform, Pair):
                partner, share = numbers["partner"].long(), numbers["share"]
                pixels, partners = transform.mix(pixels, pixels[partner], numbers), labels[partner]
        return Batch(_channels_first(pixels, dtype), Targets(labels, partners, share))

    def prepare(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Return uint8 images (b, h, w, c) normalised for evaluation: their middle if training crops to a size."""
        self._check_images(images)
        fixed = [transform.at_evaluation for transform in self.transforms if isinstance(transform, Spatial)]
        moves: list[tuple[Spatial, Draws]] = [(transform, {}) for transform in fixed if transform is not None]
        return _channels_first(self._normalise(_move(images, moves)), dtype)

    def _normalise(self, pixels: Tensor) -> Tensor:
        scale = [1 / (255 * std) for std in self.std]
        shift = [-mean / std for mean, std in zip(self.mean, self.std, strict=True)]
        return pixels.float() * _constants(scale, pixels.device) + _constants(shift, pixels.device)

    def _check_images(self, images: Tensor) -> None:
        if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[3] != len(self.mean):
            raise ValueError(
                f"images must be uint8 of shape (b, h, w, {len(self.mean)}) (one mean per channel), "
                f"got {images.dtype} of shape {tuple(images.shape)}"
            )

    def _draws_of(self, draws: Draws, position: int, count: int) -> Draws:
        """Return the draws of the transform at `position`."""
        found = {}
        for name in self.transforms[position].names:
            key = f"{position}.{name}"
            if key not in draws:
                raise ValueError(f"the draws lack {key!r}: draw them with this augmentation, got {sorted(draws)}")
            if draws[key].dim() > 0 and draws[key].shape[0] != count:
                raise ValueError(
                    f"the draws of one step for these {count} images are needed (of_step, of_rank), "
                    f"got {key!r} of shape {tuple(draws[key].shape)}"
                )
            found[name] = draws[key]
        return found


def of_rank(draws: Draws, *, rank: int, ranks: int) -> Draws:
    """Return one rank's part of an epoch's draws: the images [rank b, (rank + 1) b) of every step."""
    require_count("ranks", ranks, least=1)
    if rank not in range(ranks):
        raise ValueError(f"rank must be one of 0 .. {ranks - 1}, got {rank}")

    def part(drawn: Tensor) -> Tensor:
        if drawn.dim() == 1:
            return drawn
        if drawn.shape[1] % ranks:
            raise ValueError(f"a batch must divide evenly among ranks, got {drawn.shape[1]} images for {ranks} ranks")
        return drawn.chunk(ranks, dim=1)[rank]

    return {name: part(drawn) for name, drawn in draws.items()}


def of_step(draws: Draws, step: int) -> Draws:
    """Return the draws of one step of an epoch, as views."""
    return {name: drawn[step] for name, drawn in draws.items()}


def _move(images: Tensor, moves: list[tuple[Spatial, Draws]]) -> Tensor:
    if not moves:
        return images
    rows, columns = identity_maps(images)
    for transform, numbers in moves:
        transform.output_size((rows.length, columns.length))  # an error where it does not fit
        rows, columns = transform.map_indices(rows, columns, numbers)
    return gather(images, rows, columns)


def _channels_first(pixels: Tensor, dtype: torch.dtype) -> Tensor:
    """(b, c, h, w): the memory stays as it is, which is what channels_last means."""
    return pixels.to(dtype).permute(0, 3, 1, 2)


def _constants(values: list[float], device: torch.device) -> Tensor:
    """Return one number per channel."""
    # Computed on the device: a copy from the host could not be captured in a CUDA graph. By `where`, and not by a stack
    # of numbers, which a compiler does not fuse with its use.
    channel = torch.arange(len(values), device=device)
    chosen = torch.full(channel.shape, values[0], dtype=torch.float32, device=device)
    for index, value in enumerate(values[1:], start=1):
        chosen = torch.where(channel == index, value, chosen)
    return chosen


def _check_size(size: Size) -> Size:
    for side in size:
        require_count("every side of image_size", side, least=1)
    if max(size) > LARGEST_SIDE:
        raise ValueError(f"image_size must be at most {LARGEST_SIDE} a side, got {size}")
    return size


def _check_transforms(transforms: tuple[Transform, ...]) -> None:
    if not isinstance(transforms, tuple) or not all(isinstance(transform, KINDS) for transform in transforms):
        raise ValueError(f"transforms must be a tuple of transforms, got {transforms!r}")
    stages = [next(stage for stage, kind in enumerate(KINDS) if isinstance(part, kind)) for part in transforms]
    if stages != sorted(stages):
        raise ValueError(
            f"crops and flips come first, then Cutout, then Mixup or CutMix (they act on what the former made), "
            f"got {transforms}"
        )
    if stages.count(KINDS.index(Pair)) > 1:
        raise ValueError(
            "one of Mixup and CutMix is possible (an image has one partner), or MixupOrCutMix, which takes one of the "
            f"two at every step, got {transforms}"
        )
    if sum(isinstance(transform, RandomResizedCrop) for transform in transforms) > 1:
        raise ValueError(f"one RandomResizedCrop is possible (pixels are interpolated once), got {transforms}")
