"""Augmentations that all tests share, and how they are drawn."""

import pytest
import torch
from hypothesis import settings

from adaste.data.augment import (
    Augmentation,
    CenterCrop,
    Crop,
    CutMix,
    Cutout,
    Flip,
    Mixup,
    MixupOrCutMix,
    RandomResizedCrop,
)

modest = settings(deadline=None, derandomize=True, max_examples=40)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.25)
CHAINS = {
    "none": (),
    "crop": (Crop(padding=4),),
    "crop and flip": (Crop(padding=3), Flip()),
    "flip and crop": (Flip(alternating=True), Crop(padding=0, size=7)),
    "two crops": (Crop(padding=2), Crop(padding=2)),
    "two flips": (Flip(), Flip()),
    "centre": (CenterCrop(8), Flip()),
    "resized": (RandomResizedCrop(6),),
    "resized and all others": (Crop(padding=3), Flip(), RandomResizedCrop(8), Crop(padding=2, size=7), Flip()),
    "cutout": (Crop(padding=1), Cutout(5)),
    "mixup": (Crop(padding=2), Flip(), Mixup(alpha=1.0)),
    "cutmix": (RandomResizedCrop(9), Cutout(2), CutMix()),
    "mixup or cutmix": (Crop(padding=2), MixupOrCutMix(mixup_alpha=1.0)),
}
every_chain = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
random_chain = pytest.mark.parametrize(
    "chain", [c for name, c in CHAINS.items() if name != "none"], ids=[name for name in CHAINS if name != "none"]
)


def augmentation(*transforms):
    return Augmentation(transforms, MEAN, STD)


def random_images(count, height=11, width=10, channels=3):
    source = torch.Generator().manual_seed(3)
    return torch.randint(256, (count, height, width, channels), generator=source, dtype=torch.uint8)


def draw(augmented, *, steps=3, batch=8, seed=0, epoch=0, size=(11, 10), ranks=1, order=None):
    order = torch.arange(steps * batch).view(steps, batch) if order is None else order
    return augmented.draw(seed=seed, epoch=epoch, order=order, image_size=size, ranks=ranks)
