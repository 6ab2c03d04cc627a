"""Changes of normalised pixels: Cutout, of each image alone; Mixup and CutMix, of pairs, and the loss for these.

Cutout: DeVries and Taylor, 2017. Mixup: Zhang et al., 2018. CutMix: Yun et al., 2019. The partners are a permutation of
the batch; with several ranks, of the images of each rank. So a run on N ranks has other partners than one process, and
the same of everything else.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy
import torch
from torch import Tensor
from torch.nn import functional as F

from adaste._util.checks import require, require_count
from adaste.data.augment.transform import Draws, Epoch, Size, Targets, Transform, generator, require_number


@dataclass(frozen=True)
class Pixels(Transform):
    """Changes the normalised pixels of each image."""

    @abstractmethod
    def change(self, images: Tensor, draws: Draws) -> Tensor:
        """Return images of shape (b, h, w, c), changed."""


@dataclass(frozen=True)
class Pair(Transform):
    """Mixes each image with another one of its batch."""

    names: ClassVar[tuple[str, ...]] = ("partner", "share")

    @abstractmethod
    def mix(self, images: Tensor, partners: Tensor, draws: Draws) -> Tensor:
        """Return images of shape (b, h, w, c), mixed with their partners by `share`."""


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


@dataclass(frozen=True)
class Mixup(Pair):
    """share x + (1 - share) x', with one share ~ Beta(alpha, alpha) per step."""

    alpha: float = 0.2

    def __post_init__(self) -> None:
        require_number("alpha", self.alpha, above=0)

    def draw(self, epoch: Epoch, size: Size) -> Draws:
        generator = epoch.generator()
        return {"partner": _partners(epoch, generator), "share": _beta(self.alpha, epoch, generator).float()}

    def mix(self, images: Tensor, partners: Tensor, draws: Draws) -> Tensor:
        return torch.lerp(partners, images, draws["share"])


@dataclass(frozen=True)
class CutMix(Pair):
    """A box of the partner's image in place of one's own; one box per step.

    The box has 1 - Beta(alpha, alpha) of the image's area around a random centre and is clipped at the border; the
    share of the labels is what is left of the image.
    """

    names: ClassVar[tuple[str, ...]] = (*Pair.names, "top", "bottom", "left", "right")

    alpha: float = 1.0

    def __post_init__(self) -> None:
        require_number("alpha", self.alpha, above=0)

    def draw(self, epoch: Epoch, size: Size) -> Draws:
        generator = epoch.generator()
        partner = _partners(epoch, generator)
        side = (1 - _beta(self.alpha, epoch, generator)).sqrt()
        ends = []
        for room in size:
            length = (side * room).long()
            start = torch.randint(room, (epoch.steps,), generator=generator) - length // 2
            ends += [start.clamp(min=0), (start + length).clamp(max=room)]
        top, bottom, left, right = ends
        share = 1 - ((bottom - top) * (right - left)).double() / (size[0] * size[1])
        box = {name: end.to(torch.int16) for name, end in zip(("top", "bottom", "left", "right"), ends, strict=True)}
        return {"partner": partner, "share": share.float(), **box}

    def mix(self, images: Tensor, partners: Tensor, draws: Draws) -> Tensor:
        row = torch.arange(images.shape[1], device=images.device)[:, None, None]
        column = torch.arange(images.shape[2], device=images.device)[:, None]
        inside = (row >= draws["top"]) & (row < draws["bottom"]) & (column >= draws["left"]) & (column < draws["right"])
        return torch.where(inside, partners, images)


@dataclass(frozen=True)
class MixupOrCutMix(Pair):
    """CutMix in a random part of the steps, `cutmix_rate`, and Mixup in the others."""

    names: ClassVar[tuple[str, ...]] = (*CutMix.names, "blend")

    mixup_alpha: float = 0.2
    cutmix_alpha: float = 1.0
    cutmix_rate: float = 0.5

    def __post_init__(self) -> None:
        for name in ("mixup_alpha", "cutmix_alpha"):
            require_number(name, getattr(self, name), above=0)
        require_number("cutmix_rate", self.cutmix_rate, least=0)
        require("cutmix_rate", self.cutmix_rate, most=1)

    def draw(self, epoch: Epoch, size: Size) -> Draws:
        choice = generator(epoch.seed, epoch.number, f"choice of transform {epoch.position}")
        cuts = torch.rand(epoch.steps, generator=choice) < self.cutmix_rate
        cut, mixed = CutMix(self.cutmix_alpha).draw(epoch, size), Mixup(self.mixup_alpha).draw(epoch, size)
        # Every step does both: one of the two with an empty box, or with all of the image, leaves it as it is.
        box = {name: torch.where(cuts, cut[name], 0) for name in ("top", "bottom", "left", "right")}
        share = torch.where(cuts, cut["share"], mixed["share"])
        return {"partner": cut["partner"], "share": share, "blend": torch.where(cuts, 1, mixed["share"]), **box}

    def mix(self, images: Tensor, partners: Tensor, draws: Draws) -> Tensor:
        blended = torch.lerp(partners, images, draws["blend"])
        return CutMix(self.cutmix_alpha).mix(blended, partners, draws)


def loss(logits: Tensor, targets: Targets, label_smoothing: float = 0.0) -> Tensor:
    """Return the mean cross-entropy in float32: share H(logits, labels) + (1 - share) H(logits, partners)."""
    logits = logits.float()
    own = F.cross_entropy(logits, targets.labels, label_smoothing=label_smoothing)
    if targets.partners is None or targets.share is None:
        return own
    return torch.lerp(F.cross_entropy(logits, targets.partners, label_smoothing=label_smoothing), own, targets.share)


def _partners(epoch: Epoch, generator: torch.Generator) -> Tensor:
    """Draw the index of every image's partner among the images of the same rank."""
    keys = torch.rand(epoch.steps, epoch.ranks, epoch.batch // epoch.ranks, generator=generator)
    return keys.argsort(dim=-1, stable=True).view(epoch.steps, epoch.batch).to(torch.int32)


def _beta(alpha: float, epoch: Epoch, generator: torch.Generator) -> Tensor:
    """Draw one number ~ Beta(alpha, alpha) per step. From numpy: torch draws no Beta from a given generator."""
    return torch.from_numpy(numpy.random.default_rng(generator.initial_seed()).beta(alpha, alpha, epoch.steps))
