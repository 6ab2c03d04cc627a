"""Configurations are plain data; what is wrong is refused with its name."""

import json
import math

import pytest
import torch

from adaste._util.serial import describe
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
    generator,
    of_rank,
    of_step,
    order_of_epoch,
)
from adaste.estimators.schedules import Constant
from support.augmentation import CHAINS, MEAN, STD, augmentation, draw, random_images


@pytest.mark.parametrize("chain", [chain for chain in CHAINS.values() if chain])
def test_configuration_is_plain_data(chain):
    described = describe(augmentation(*chain))
    assert json.loads(json.dumps(described)) == described
    assert [part["kind"] for part in described["transforms"]] == [type(transform).__name__ for transform in chain]
    assert augmentation(*chain) == augmentation(*chain)
    assert hash(augmentation(*chain)) == hash(augmentation(*chain))


def test_what_is_left_out_is_as_in_the_papers():
    assert Mixup() == Mixup(alpha=0.2)
    assert CutMix() == CutMix(alpha=1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Crop(padding=-1), "padding.*-1"),
        (lambda: Crop(size=0), "size.*0"),
        (lambda: CenterCrop(2.5), r"size.*2\.5"),
        (lambda: Flip(alternating=1), "alternating.*1"),
        (lambda: Cutout(0), "size.*0"),
        (lambda: Mixup(0.0), r"alpha.*0"),
        (lambda: Mixup(math.nan), "alpha.*nan"),
        (lambda: CutMix(-1.0), "alpha.*-1"),
        (lambda: CutMix(Constant(value=1.0)), "alpha.*plain number.*Constant"),
        (lambda: MixupOrCutMix(0.0), r"mixup_alpha.*0"),
        (lambda: MixupOrCutMix(cutmix_alpha=-1.0), r"cutmix_alpha.*-1"),
        (lambda: MixupOrCutMix(cutmix_rate=1.5), r"cutmix_rate.*at most 1.*1\.5"),
        (lambda: MixupOrCutMix(cutmix_rate=-0.5), r"cutmix_rate.*at least 0.*-0\.5"),
        (lambda: RandomResizedCrop(0), "size.*0"),
        (lambda: RandomResizedCrop(8, scale=(0.0, 1.0)), "scale.*above 0"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 0.2)), r"scale.*\(0\.5, 0\.2\)"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 1.2)), r"scale.*at most 1.*1\.2"),
        (lambda: RandomResizedCrop(8, ratio=(1.0,)), r"ratio.*pair"),
        (lambda: RandomResizedCrop(8, ratio=0.5), r"ratio.*pair.*0\.5"),
        (lambda: augmentation(Mixup(), CutMix()), "one of Mixup and CutMix"),
        (lambda: augmentation(RandomResizedCrop(8), RandomResizedCrop(8)), "one RandomResizedCrop"),
        (lambda: augmentation(Cutout(3), Crop()), "crops and flips come first"),
        (lambda: augmentation(Mixup(), Flip()), "crops and flips come first"),
        (lambda: augmentation("crop"), "transforms.*'crop'"),
        (lambda: Augmentation([Crop()], MEAN, STD), "tuple of transforms"),
        (lambda: Augmentation((), MEAN, (0.1,)), "one number per channel"),
        (lambda: Augmentation((), 0.5, 0.1), "tuples of one number per channel"),
        (lambda: Augmentation((), (), ()), "tuples of one number per channel"),
        (lambda: Augmentation((), (0.5,), (0.0,)), "std.*above 0"),
        (lambda: Augmentation((), (math.inf,), (1.0,)), "mean.*finite"),
        (lambda: order_of_epoch(seed=0, epoch=0, count=7, batch=8), "7 images for batches of 8"),
        (lambda: order_of_epoch(seed=0, epoch=0, count=7, batch=0), "batch.*0"),
        (lambda: order_of_epoch(seed=0, epoch=0, count=8.5, batch=4), r"count.*whole number.*8\.5"),
        (lambda: generator(-1, 0, "order"), "seed.*-1"),
        (lambda: generator(0, -1, "order"), "epoch.*-1"),
        (lambda: draw(augmentation(Crop(4, 12))), "Crop.*at least 12 x 12, got 11 x 10"),
        (lambda: draw(augmentation(CenterCrop(11))), "CenterCrop.*at least 11 x 11, got 11 x 10"),
        (lambda: draw(augmentation(CenterCrop(6), RandomResizedCrop(8))), "at least 8 x 8, got 6 x 6"),
        (lambda: draw(augmentation(Crop()), size=(40000, 8)), "image_size.*32767.*40000"),
        (lambda: draw(augmentation(Crop()), size=(8, 0)), "image_size.*0"),
        (lambda: draw(augmentation(Crop()), batch=8, ranks=3), "8 images for 3 ranks"),
        (lambda: draw(augmentation(Crop()), ranks=0), "ranks.*at least 1, got 0"),
        (lambda: draw(augmentation(Crop()), order=torch.zeros(24, dtype=torch.int64)), r"\(steps, batch\).*\(24,\)"),
        (lambda: draw(augmentation(Crop()), order=torch.zeros(3, 8)), "int64.*float32"),
        (lambda: of_rank(draw(augmentation(Crop())), rank=0, ranks=0), "ranks.*at least 1, got 0"),
        (lambda: of_rank(draw(augmentation(Crop())), rank=2, ranks=2), "rank.*0 .. 1, got 2"),
        (lambda: of_rank(draw(augmentation(Crop())), rank=2, ranks=3), "8 images for 3 ranks"),
    ],
)
def test_bad_input_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("images", "draws", "message"),
    [
        (random_images(8).float(), None, "uint8.*float32"),
        (random_images(8, channels=1), None, r"\(b, h, w, 3\).*\(8, 11, 10, 1\)"),
        (random_images(8)[0], None, r"got torch.uint8 of shape \(11, 10, 3\)"),
        (random_images(7), None, r"these 7 images.*'0.offset' of shape \(8, 2\)"),
        (random_images(8), {}, "lack '0.offset'"),
        (random_images(8, 5, 5), None, "at least 9 x 9, got 5 x 5"),
    ],
)
def test_step_refuses_wrong_images_and_draws(images, draws, message):
    augmented = augmentation(Crop(4, 9), Flip())
    draws = of_step(draw(augmented), 0) if draws is None else draws
    with pytest.raises(ValueError, match=message):
        augmented.apply(images, torch.arange(len(images)), draws, torch.float32)


def test_step_refuses_one_number_per_image_of_another_batch():
    augmented = augmentation(Flip())
    with pytest.raises(ValueError, match=r"these 7 images.*'0.mirrored' of shape \(8,\)"):
        augmented.apply(random_images(7), torch.arange(7), of_step(draw(augmented), 0), torch.float32)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (random_images(8).float(), "uint8.*float32"),
        (random_images(8, channels=1), r"\(b, h, w, 3\).*\(8, 11, 10, 1\)"),
        (random_images(8, 5, 5), "CenterCrop.*at least 9 x 9, got 5 x 5"),
    ],
)
def test_evaluation_refuses_wrong_images(images, message):
    with pytest.raises(ValueError, match=message):
        augmentation(CenterCrop(9)).prepare(images, torch.float32)
