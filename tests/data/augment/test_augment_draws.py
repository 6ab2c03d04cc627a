"""Draws of an epoch: reproducible, independent, and of the right distribution."""

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaste.data.augment import (
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
    order_of_epoch,
)
from support.augmentation import augmentation, draw, modest, random_chain


@random_chain
def test_draws_depend_on_seed_and_epoch_alone(chain):
    augmented = augmentation(*chain)
    first = draw(augmented, seed=5, epoch=2, steps=4)
    again = draw(augmented, seed=5, epoch=2, steps=4)
    assert all(torch.equal(first[name], again[name]) for name in first | again)
    for other in (draw(augmented, seed=5, epoch=3, steps=4), draw(augmented, seed=6, epoch=2, steps=4)):
        assert first.keys() == other.keys()
        assert all(not torch.equal(first[name], other[name]) for name in first)


@random_chain
def test_draws_are_small_host_tensors_by_step_and_image(chain):
    for name, drawn in draw(augmentation(*chain), steps=3, batch=8).items():
        assert drawn.device.type == "cpu"
        assert drawn.shape[0] == 3
        assert drawn.dim() == 1 or drawn.shape[1] == 8, name
        assert drawn.element_size() <= 4
        assert not drawn.is_floating_point() or drawn.dtype == torch.float32


@pytest.mark.parametrize("pair", [Crop, Flip, lambda: Flip(alternating=True), lambda: Cutout(4)])
def test_two_transforms_of_a_kind_draw_other_numbers(pair):
    draws = draw(augmentation(pair(), pair()), steps=8)
    first, second = draws.values()
    assert not torch.equal(first, second)


@random_chain
def test_all_but_the_partners_is_the_same_for_any_number_of_ranks(chain):
    augmented = augmentation(*chain)
    one, four = draw(augmented), draw(augmented, ranks=4)
    for name in one:
        assert torch.equal(one[name], four[name]) or name.endswith("partner")


def test_a_process_of_its_own_is_one_rank():
    augmented, order = augmentation(Mixup()), torch.arange(24).view(3, 8)
    alone = augmented.draw(seed=0, epoch=0, order=order, image_size=(11, 10))
    assert torch.equal(alone["0.partner"], draw(augmented, order=order, ranks=1)["0.partner"])


def test_part_of_a_rank_is_a_slice_of_the_whole():
    draws = draw(augmentation(Crop(), Flip(), Mixup()), batch=8, ranks=4)
    for rank in range(4):
        part = of_rank(draws, rank=rank, ranks=4)
        assert torch.equal(part["0.offset"], draws["0.offset"][:, 2 * rank : 2 * rank + 2])
        assert torch.equal(part["2.share"], draws["2.share"])


def test_crops_are_uniform_over_all_places():
    offset = draw(augmentation(Crop(padding=2, size=8)), steps=400, batch=50, size=(9, 10))["0.offset"]
    for axis, places in ((0, 9 + 4 - 8 + 1), (1, 10 + 4 - 8 + 1)):
        counts = offset[..., axis].flatten().long().bincount(minlength=places)
        assert len(counts) == places
        expected = 20000 / places
        assert (counts - expected).abs().max() < 5 * math.sqrt(expected)


def test_half_of_the_images_are_flipped():
    for flip in (Flip(), Flip(alternating=True)):
        mirrored = draw(augmentation(flip), steps=100, batch=100)["0.mirrored"].float()
        assert abs(float(mirrored.mean()) - 0.5) < 0.025
        assert (mirrored.mean(0) - 0.5).abs().max() < 0.25


def test_alternating_flip_shows_both_sides_of_every_image_in_two_epochs():
    sides = []
    for epoch in (6, 7, 8):
        order = order_of_epoch(seed=1, epoch=epoch, count=103, batch=20)
        drawn = draw(augmentation(Flip(alternating=True)), steps=5, batch=20, seed=1, epoch=epoch, order=order)
        sides.append(dict(zip(order.flatten().tolist(), drawn["0.mirrored"].flatten().tolist(), strict=True)))
    for before, after in ((0, 1), (1, 2)):
        shared = sides[before].keys() & sides[after].keys()
        assert len(shared) > 90
        assert all(sides[before][image] + sides[after][image] == 1 for image in shared)
    other_seed = draw(augmentation(Flip(alternating=True)), steps=5, batch=20, seed=2, epoch=6)["0.mirrored"]
    assert not torch.equal(
        other_seed, draw(augmentation(Flip(alternating=True)), steps=5, batch=20, seed=1)["0.mirrored"]
    )


def plain_box(random, height, width, scale, ratio):
    """torchvision's RandomResizedCrop.get_params."""
    for _ in range(10):
        area = height * width * random.uniform(*scale)
        shape = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        h, w = height, round(height * ratio[1])
    else:
        h, w = height, width
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "scale", "ratio"),
    [
        ((32, 32), (0.08, 1.0), (3 / 4, 4 / 3)),
        ((20, 60), (0.5, 1.0), (3 / 4, 4 / 3)),
        ((60, 20), (0.9, 1.0), (3 / 4, 4 / 3)),
        ((24, 30), (0.9, 1.0), (0.5, 2.0)),
        ((8, 8), (0.005, 0.1), (0.1, 10.0)),  # boxes of one line of pixels, or of none, which do not count
    ],
)
def test_boxes_of_the_resized_crop_are_distributed_as_in_torchvision(size, scale, ratio):
    source = random.Random(0)
    plain = torch.tensor([plain_box(source, *size, scale, ratio) for _ in range(20000)])
    boxes = draw(augmentation(RandomResizedCrop(8, scale, ratio)), steps=200, batch=100, size=size)["0.box"]
    boxes = boxes.reshape(-1, 4).long()
    for column in range(4):
        longest = max(size) + 1
        ours, theirs = (b[:, column].bincount(minlength=longest).cumsum(0) / 20000 for b in (boxes, plain))
        # Two samples of 20000: the Kolmogorov-Smirnov distance exceeds this once in 10^4.
        assert (ours - theirs).abs().max() < 2.25 * math.sqrt(2 / 20000)
    assert (boxes[:, 0] + boxes[:, 2]).max() <= size[0]
    assert (boxes[:, 1] + boxes[:, 3]).max() <= size[1]
    assert boxes.min() >= 0


def test_centres_of_cutout_are_uniform_and_belong_to_the_cropped_image():
    centre = draw(augmentation(CenterCrop(6), Cutout(2)), steps=200, batch=50)["1.centre"]
    counts = centre.reshape(-1, 2).long()
    for axis in (0, 1):
        found = counts[:, axis].bincount()
        assert len(found) == 6
        assert (found - 10000 / 6).abs().max() < 5 * math.sqrt(10000 / 6)


def test_places_in_the_largest_images_fit_into_their_type():
    centre = draw(augmentation(Cutout(2)), steps=50, batch=50, size=(32767, 8))["0.centre"]
    assert centre.min() >= 0
    assert centre[..., 0].max() > 32000


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_shares_of_mixup_have_the_moments_of_beta(alpha):
    share = draw(augmentation(Mixup(alpha)), steps=20000, batch=2)["0.share"]
    assert share.shape == (20000,)
    assert abs(float(share.mean()) - 0.5) < 0.02
    assert float(share.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.05)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_boxes_of_cutmix_have_a_share_of_the_area_around_a_random_centre(alpha):
    source, count, size = random.Random(0), 20000, (12, 17)
    plain = []
    for _ in range(count):
        side = math.sqrt(1 - source.betavariate(alpha, alpha))
        lengths = [int(side * room) for room in size]
        starts = [source.randrange(room) - length // 2 for room, length in zip(size, lengths, strict=True)]
        boxes = zip(starts, lengths, size, strict=True)
        plain.append([end for start, length, room in boxes for end in (max(0, start), min(room, start + length))])
    draws = draw(augmentation(CutMix(alpha)), steps=count, batch=2, size=size)
    for name, theirs in zip(("top", "bottom", "left", "right"), torch.tensor(plain).unbind(1), strict=True):
        ours, theirs = (ends.long().bincount(minlength=18).cumsum(0) / count for ends in (draws[f"0.{name}"], theirs))
        assert (ours - theirs).abs().max() < 2.25 * math.sqrt(2 / count)  # as for the boxes of the resized crop


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_step_of_mixup_or_cutmix_is_one_of_the_two_with_the_numbers_it_draws_alone(rate):
    either = draw(augmentation(MixupOrCutMix(1.0, 0.7, rate)), steps=4000, batch=2)
    mixup, cutmix = (draw(augmentation(pair), steps=4000, batch=2) for pair in (Mixup(1.0), CutMix(0.7)))
    cuts = either["0.blend"] == 1
    assert float(cuts.float().mean()) == pytest.approx(rate, abs=0.03)
    for name in ("0.top", "0.bottom", "0.left", "0.right", "0.share"):
        assert torch.equal(either[name][cuts], cutmix[name][cuts])
    assert torch.equal(either["0.share"][~cuts], mixup["0.share"][~cuts])
    assert torch.equal(either["0.blend"][~cuts], mixup["0.share"][~cuts])
    assert not either["0.bottom"][~cuts].any()
    assert torch.equal(either["0.partner"], cutmix["0.partner"])


def test_partners_are_permutations():
    partner = draw(augmentation(CutMix()), steps=200, batch=12)["0.partner"]
    assert torch.equal(partner.sort(dim=1).values, torch.arange(12, dtype=torch.int32).expand(200, 12))
    assert (partner.float().mean(0) - 5.5).abs().max() < 1.3


def test_order_of_an_epoch_is_a_permutation_without_its_last_incomplete_batch():
    orders = [order_of_epoch(seed=0, epoch=epoch, count=50, batch=8) for epoch in range(20)]
    for order in orders:
        assert order.shape == (6, 8)
        assert order.dtype == torch.int64
        assert len(set(order.flatten().tolist())) == 48
        assert set(order.flatten().tolist()) <= set(range(50))
    assert len({frozenset(range(50)) - frozenset(order.flatten().tolist()) for order in orders}) > 10
    assert torch.equal(orders[3], order_of_epoch(seed=0, epoch=3, count=50, batch=8))


@pytest.mark.parametrize(("count", "batch"), [(8, 8), (3, 1), (1, 1)])
def test_an_epoch_may_be_one_batch_and_a_batch_one_image(count, batch):
    order = order_of_epoch(seed=0, epoch=0, count=count, batch=batch)
    assert order.shape == (count // batch, batch)
    assert sorted(order.flatten().tolist()) == list(range(count))


@modest
@given(st.integers(0, 2**70), st.integers(0, 1000), st.sampled_from(["order", "transform 0", "transform 1"]))
def test_generators_of_other_purposes_seeds_or_epochs_are_others(seed, epoch, purpose):
    def numbers(*key):
        return torch.rand(4, generator=generator(*key)).tolist()

    own = numbers(seed, epoch, purpose)
    assert own == numbers(seed, epoch, purpose)
    for other in ((seed + 1, epoch, purpose), (seed, epoch + 1, purpose), (seed, epoch, purpose + "0")):
        assert own != numbers(*other)
