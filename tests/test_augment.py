"""Augmentation: draws of the right distribution, and a step that does to a batch what a loop does to each image."""

import json
import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from adaste.augment import (
    Augmentation,
    Batch,
    CenterCrop,
    Crop,
    CutMix,
    Cutout,
    Flip,
    Mixup,
    RandomResizedCrop,
    generator,
    loss,
    of_rank,
    of_step,
    order_of_epoch,
)
from adaste.schedules import Constant, describe

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
    return augmented.draw(seed=seed, epoch=epoch, steps=steps, batch=batch, order=order, image_size=size, ranks=ranks)


def move(image, transform, drawn):
    """One image (c, h, w) in float32, transformed by slices."""
    if isinstance(transform, CenterCrop):
        top, left = (round((side - transform.size) / 2) for side in image.shape[1:])
        return image[:, top : top + transform.size, left : left + transform.size]
    if isinstance(transform, Crop):
        height, width = (transform.size or side for side in image.shape[1:])
        top, left = drawn["offset"].tolist()
        return F.pad(image, [transform.padding] * 4)[:, top : top + height, left : left + width]
    if isinstance(transform, Flip):
        return image.flip(2) if drawn["mirrored"] else image
    top, left, height, width = drawn["box"].tolist()
    box = image[None, :, top : top + height, left : left + width]
    return F.interpolate(box, size=(transform.size, transform.size), mode="bilinear", align_corners=False)[0]


def slow(augmented, images, draws):
    """The images of one step by a plain loop, without Mixup and CutMix."""
    results = []
    for number, image in enumerate(images):
        pixels, normalised = image.permute(2, 0, 1).float(), False
        for position, transform in enumerate(augmented.transforms):
            drawn = {name: draws[f"{position}.{name}"] for name in transform.names}
            if isinstance(transform, Mixup | CutMix):
                continue
            own = {name: numbers[number] for name, numbers in drawn.items()}
            if not isinstance(transform, Cutout):
                pixels = move(pixels, transform, own)
                continue
            pixels = pixels if normalised else normalise(pixels)
            normalised = True
            top, left = (max(0, int(c) - transform.size // 2) for c in own["centre"])
            bottom, right = (int(c) - transform.size // 2 + transform.size for c in own["centre"])
            pixels[:, top:bottom, left:right] = 0
        results.append(pixels if normalised else normalise(pixels))
    return torch.stack(results)


def normalise(pixels):
    return (pixels / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def slow_pairs(augmented, images, draws):
    images = slow(augmented, images, draws)
    position, last = len(augmented.transforms) - 1, augmented.transforms[-1] if augmented.transforms else None
    if not isinstance(last, Mixup | CutMix):
        return images
    drawn = {name: draws[f"{position}.{name}"] for name in last.names}
    mixed = images.clone()
    for number, partner in enumerate(drawn["partner"].tolist()):
        if isinstance(last, Mixup):
            mixed[number] = drawn["share"] * images[number] + (1 - drawn["share"]) * images[partner]
        else:
            top, bottom, left, right = (int(drawn[name]) for name in ("top", "bottom", "left", "right"))
            mixed[number, :, top:bottom, left:right] = images[partner, :, top:bottom, left:right]
    return mixed


@every_chain
def test_step_does_what_a_loop_over_images_does(chain):
    augmented, images, labels = augmentation(*chain), random_images(24), torch.arange(24) % 5
    draws = draw(augmented, steps=2, batch=24)
    for step in range(2):
        now = of_step(draws, step)
        batch = augmented.apply(images, labels, now, torch.float32)
        torch.testing.assert_close(batch.images, slow_pairs(augmented, images, now), rtol=1e-5, atol=1e-5)
        assert torch.equal(batch.labels, labels)


@modest
@given(
    st.integers(0, 5),
    st.sampled_from([None, 3, 8]),
    st.integers(1, 8),
    st.tuples(st.integers(8, 13), st.integers(8, 13)),
)
def test_any_crop_and_resized_crop_is_the_loop_over_images(padding, size, resized, image_size):
    augmented = augmentation(Crop(padding, size), Flip(), RandomResizedCrop(min(resized, size or 8), (0.01, 1.0)))
    images = random_images(6, *image_size)
    now = of_step(draw(augmented, steps=1, batch=6, size=image_size), 0)
    batch = augmented.apply(images, torch.zeros(6, dtype=torch.int64), now, torch.float32)
    torch.testing.assert_close(batch.images, slow(augmented, images, now), rtol=1e-4, atol=1e-4)


@every_chain
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_images_are_channels_last_in_the_asked_type(chain, dtype):
    augmented, images = augmentation(*chain), random_images(8)
    batch = augmented.apply(images, torch.arange(8), of_step(draw(augmented), 0), dtype)
    for result in (batch.images, augmented.prepare(images, dtype)):
        assert result.dtype == dtype
        count, channels, height, width = result.shape
        assert (count, channels) == (8, 3)
        assert result.stride() == (height * width * channels, 1, width * channels, channels)


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
def test_ranks_together_see_what_one_process_sees(chain):
    augmented, images, labels = augmentation(*chain), random_images(8), torch.arange(8)
    whole = draw(augmented, ranks=2)
    parts = [of_step(of_rank(whole, rank=rank, ranks=2), 1) for rank in range(2)]
    batches = [
        augmented.apply(images[4 * rank : 4 * rank + 4], labels[4 * rank : 4 * rank + 4], part, torch.float32)
        for rank, part in enumerate(parts)
    ]
    both = torch.cat([batch.images for batch in batches])
    if batches[0].partners is None:
        whole_batch = augmented.apply(images, labels, of_step(draw(augmented), 1), torch.float32)
        assert torch.equal(both, whole_batch.images)
    else:
        for rank, batch in enumerate(batches):
            assert batch.partners.sort().values.tolist() == list(range(4 * rank, 4 * rank + 4))
        assert torch.equal(batches[0].share, batches[1].share)


@random_chain
def test_all_but_the_partners_is_the_same_for_any_number_of_ranks(chain):
    augmented = augmentation(*chain)
    one, four = draw(augmented), draw(augmented, ranks=4)
    for name in one:
        assert torch.equal(one[name], four[name]) or name.endswith("partner")


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


@pytest.mark.parametrize(
    ("size", "scale", "ratio"),
    [
        ((32, 32), (0.08, 1.0), (3 / 4, 4 / 3)),
        ((20, 60), (0.5, 1.0), (3 / 4, 4 / 3)),
        ((60, 20), (0.9, 1.0), (3 / 4, 4 / 3)),
        ((24, 30), (0.9, 1.0), (0.5, 2.0)),
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


def test_cutout_hides_with_the_mean_and_clips_at_the_border():
    augmented, images = augmentation(Cutout(4)), torch.full((3, 8, 8, 3), 255, dtype=torch.uint8)
    draws = {"0.centre": torch.tensor([[0, 0], [4, 4], [7, 7]], dtype=torch.int16)}
    hidden = augmented.apply(images, torch.arange(3), draws, torch.float32).images == 0
    assert hidden[:, 0].sum((1, 2)).tolist() == [4, 16, 9]


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_shares_of_mixup_have_the_moments_of_beta(alpha):
    share = draw(augmentation(Mixup(alpha)), steps=20000, batch=2)["0.share"]
    assert share.shape == (20000,)
    assert abs(float(share.mean()) - 0.5) < 0.02
    assert float(share.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.05)


def test_partners_are_permutations():
    partner = draw(augmentation(CutMix()), steps=200, batch=12)["0.partner"]
    assert torch.equal(partner.sort(dim=1).values, torch.arange(12, dtype=torch.int32).expand(200, 12))
    assert (partner.float().mean(0) - 5.5).abs().max() < 1.3


@pytest.mark.parametrize("pair", [Mixup(1.0), CutMix(), CutMix(0.3)])
def test_labels_have_the_mass_of_their_images(pair):
    """Images of one colour per label: what is left of the own colour is the share of the own label."""
    augmented = Augmentation((pair,), (0.0,), (1 / 255,))
    colours = torch.tensor([10, 50, 110, 250])
    images = colours.to(torch.uint8)[:, None, None, None].expand(4, 12, 9, 1)
    draws = draw(augmented, steps=30, batch=4, size=(12, 9))
    for step in range(30):
        batch = augmented.apply(images, torch.arange(4), of_step(draws, step), torch.float32)
        expected = batch.share * colours[batch.labels] + (1 - batch.share) * colours[batch.partners]
        torch.testing.assert_close(batch.images.mean((1, 2, 3)), expected, rtol=1e-4, atol=1e-3)
    assert float(draws["0.share"].std()) > 0.05


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_of_mixed_labels_is_the_one_of_soft_labels(smoothing):
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    labels, partners, share = torch.tensor([0, 1, 2, 3, 0, 1]), torch.tensor([3, 2, 1, 1, 0, 0]), torch.tensor(0.3)
    soft = share * F.one_hot(labels, 4) + (1 - share) * F.one_hot(partners, 4)
    expected = F.cross_entropy(logits, soft * (1 - smoothing) + smoothing / 4)
    images = torch.empty(6, 1, 1, 1)
    torch.testing.assert_close(loss(logits, Batch(images, labels, partners, share), smoothing), expected)
    plain = loss(logits, Batch(images, labels), smoothing)
    torch.testing.assert_close(plain, F.cross_entropy(logits, labels, label_smoothing=smoothing))
    assert loss(logits.bfloat16(), Batch(images, labels), smoothing).dtype == torch.float32


def test_evaluation_normalises_and_takes_the_middle():
    images = random_images(5)
    plain = torch.stack([normalise(image.permute(2, 0, 1).float()) for image in images])
    for chain in ((), (Crop(), Flip()), (Cutout(3), Mixup()), (Flip(alternating=True), CutMix())):
        torch.testing.assert_close(augmentation(*chain).prepare(images, torch.float32), plain)
    for chain in ((CenterCrop(6),), (Crop(4, 6), Flip()), (RandomResizedCrop(6), Cutout(2)), (Crop(), CenterCrop(6))):
        middle = augmentation(*chain).prepare(images, torch.float32)
        torch.testing.assert_close(middle, plain[:, :, 2:8, 2:8])


def test_padding_is_black_before_the_normalisation():
    augmented, images = augmentation(Crop(padding=4)), torch.full((1, 8, 8, 3), 255, dtype=torch.uint8)
    draws = {"0.offset": torch.zeros(1, 1, 2, dtype=torch.int16)[0]}
    corner = augmented.apply(images, torch.zeros(1, dtype=torch.int64), draws, torch.float32).images[0, :, 0, 0]
    torch.testing.assert_close(corner, -torch.tensor(MEAN) / torch.tensor(STD))


def test_images_of_one_channel_pass():
    augmented, images = Augmentation((Crop(2), Flip()), (0.1,), (0.3,)), random_images(4, channels=1)
    batch = augmented.apply(images, torch.arange(4), of_step(draw(augmented, batch=4), 0), torch.float32)
    assert batch.images.shape == (4, 1, 11, 10)
    assert (batch.partners, batch.share) == (None, None)


def test_compiled_step_is_the_eager_one():
    augmented, images, labels = augmentation(Crop(2), Flip(), Cutout(3), Mixup()), random_images(8), torch.arange(8)
    draws = of_step(draw(augmented), 0)
    compiled = torch.compile(augmented.apply, fullgraph=True)(images, labels, draws, torch.float32)
    eager = augmented.apply(images, labels, draws, torch.float32)
    torch.testing.assert_close(compiled.images, eager.images)
    assert compiled.images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(compiled.partners, eager.partners)
    assert torch.equal(compiled.share, eager.share)


@pytest.mark.gpu
@random_chain
def test_step_in_a_cuda_graph_is_the_one_on_the_host(chain):
    augmented, images, labels = augmentation(*chain), random_images(8), torch.arange(8)
    draws = draw(augmented)
    inputs = images.cuda(), labels.cuda()
    buffers = {name: drawn.cuda() for name, drawn in of_step(draws, 0).items()}
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda.set_sync_debug_mode("error")
        try:
            augmented.apply(*inputs, buffers, torch.float32)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = augmented.apply(*inputs, buffers, torch.float32)
    for step in range(3):
        for name, drawn in of_step(draws, step).items():
            buffers[name].copy_(drawn)
        graph.replay()
        host = augmented.apply(images, labels, of_step(draws, step), torch.float32)
        torch.testing.assert_close(captured.images.cpu(), host.images, rtol=1e-5, atol=1e-5)


def test_order_of_an_epoch_is_a_permutation_without_its_last_incomplete_batch():
    orders = [order_of_epoch(seed=0, epoch=epoch, count=50, batch=8) for epoch in range(20)]
    for order in orders:
        assert order.shape == (6, 8)
        assert order.dtype == torch.int64
        assert len(set(order.flatten().tolist())) == 48
        assert set(order.flatten().tolist()) <= set(range(50))
    assert len({frozenset(range(50)) - frozenset(order.flatten().tolist()) for order in orders}) > 10
    assert torch.equal(orders[3], order_of_epoch(seed=0, epoch=3, count=50, batch=8))


@modest
@given(st.integers(0, 2**70), st.integers(0, 1000), st.sampled_from(["order", "transform 0", "transform 1"]))
def test_generators_of_other_purposes_seeds_or_epochs_are_others(seed, epoch, purpose):
    def numbers(*key):
        return torch.rand(4, generator=generator(*key)).tolist()

    own = numbers(seed, epoch, purpose)
    assert own == numbers(seed, epoch, purpose)
    for other in ((seed + 1, epoch, purpose), (seed, epoch + 1, purpose), (seed, epoch, purpose + "0")):
        assert own != numbers(*other)


@pytest.mark.parametrize("chain", [chain for chain in CHAINS.values() if chain])
def test_configuration_is_plain_data(chain):
    described = describe(augmentation(*chain))
    assert json.loads(json.dumps(described)) == described
    assert [part["kind"] for part in described["transforms"]] == [type(transform).__name__ for transform in chain]
    assert augmentation(*chain) == augmentation(*chain)
    assert hash(augmentation(*chain)) == hash(augmentation(*chain))


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
        (lambda: generator(-1, 0, "order"), "seed.*-1"),
        (lambda: generator(0, -1, "order"), "epoch.*-1"),
        (lambda: draw(augmentation(Crop(4, 12))), "Crop.*at least 12 x 12, got 11 x 10"),
        (lambda: draw(augmentation(CenterCrop(11))), "CenterCrop.*at least 11 x 11, got 11 x 10"),
        (lambda: draw(augmentation(CenterCrop(6), RandomResizedCrop(8))), "at least 8 x 8, got 6 x 6"),
        (lambda: draw(augmentation(Crop()), size=(40000, 8)), "image_size.*32767.*40000"),
        (lambda: draw(augmentation(Crop()), size=(8, 0)), "image_size.*0"),
        (lambda: draw(augmentation(Crop()), batch=8, ranks=3), "8 images for 3 ranks"),
        (lambda: draw(augmentation(Crop()), order=torch.zeros(3, 7, dtype=torch.int64)), r"\(3, 8\).*\(3, 7\)"),
        (lambda: draw(augmentation(Crop()), order=torch.zeros(3, 8)), "int64.*float32"),
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
