"""A step does to a batch what a plain loop does to each image: eager, compiled, captured, on one rank or several."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

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
    Targets,
    loss,
    of_rank,
    of_step,
)
from support.augmentation import MEAN, STD, augmentation, draw, every_chain, modest, random_chain, random_images


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


def hide(image, size, centre):
    top, left = (int(place) - size // 2 for place in centre)
    image = image.clone()
    image[:, max(0, top) : top + size, max(0, left) : left + size] = 0
    return image


def slow(augmented, images, draws):
    """The images of one step by a plain loop, before they are mixed in pairs."""
    results = []
    for number, image in enumerate(images):
        pixels, hidden = image.permute(2, 0, 1).float(), []
        for position, transform in enumerate(augmented.transforms):
            if isinstance(transform, Cutout):
                hidden.append((transform.size, draws[f"{position}.centre"][number]))
            elif not isinstance(transform, PAIRS):
                pixels = move(
                    pixels, transform, {name: draws[f"{position}.{name}"][number] for name in transform.names}
                )
        pixels = normalise(pixels)
        for size, centre in hidden:
            pixels = hide(pixels, size, centre)
        results.append(pixels)
    return torch.stack(results)


def normalise(pixels):
    return (pixels / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


PAIRS = (Mixup, CutMix, MixupOrCutMix)


def slow_pairs(augmented, images, draws):
    images = slow(augmented, images, draws)
    position, last = len(augmented.transforms) - 1, augmented.transforms[-1] if augmented.transforms else None
    if not isinstance(last, PAIRS):
        return images
    drawn = {name: draws[f"{position}.{name}"] for name in last.names}
    mixed = images.clone()
    for number, partner in enumerate(drawn["partner"].tolist()):
        if isinstance(last, Mixup) or (isinstance(last, MixupOrCutMix) and drawn["blend"] < 1):
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
        assert torch.equal(batch.targets.labels, labels)


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
def test_training_and_evaluation_see_the_size_that_is_told_to_the_network(chain):
    augmented, images = augmentation(*chain), random_images(8)
    batch = augmented.apply(images, torch.arange(8), of_step(draw(augmented), 0), torch.float32)
    for result in (batch.images, augmented.prepare(images, torch.float32)):
        assert result.shape[2:] == augmented.output_size((11, 10))


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
def test_ranks_together_see_what_one_process_sees(chain):
    augmented, images, labels = augmentation(*chain), random_images(8), torch.arange(8)
    whole = draw(augmented, ranks=2)
    parts = [of_step(of_rank(whole, rank=rank, ranks=2), 1) for rank in range(2)]
    batches = [
        augmented.apply(images[4 * rank : 4 * rank + 4], labels[4 * rank : 4 * rank + 4], part, torch.float32)
        for rank, part in enumerate(parts)
    ]
    both = torch.cat([batch.images for batch in batches])
    if batches[0].targets.partners is None:
        whole_batch = augmented.apply(images, labels, of_step(draw(augmented), 1), torch.float32)
        assert torch.equal(both, whole_batch.images)
    else:
        for rank, batch in enumerate(batches):
            assert batch.targets.partners.sort().values.tolist() == list(range(4 * rank, 4 * rank + 4))
        assert torch.equal(batches[0].targets.share, batches[1].targets.share)


def test_cutout_hides_with_the_mean_and_clips_at_the_border():
    augmented, images = augmentation(Cutout(4)), torch.full((3, 8, 8, 3), 255, dtype=torch.uint8)
    draws = {"0.centre": torch.tensor([[0, 0], [4, 4], [7, 7]], dtype=torch.int16)}
    hidden = augmented.apply(images, torch.arange(3), draws, torch.float32).images == 0
    assert hidden[:, 0].sum((1, 2)).tolist() == [4, 16, 9]


def test_cutout_may_hide_a_single_pixel():
    image, draws = torch.ones(1, 3, 3, 3), {"centre": torch.tensor([[2, 1]], dtype=torch.int16)}
    assert (Cutout(1).change(image, draws) == 0).nonzero()[:, :3].unique(dim=0).tolist() == [[0, 2, 1]]


@pytest.mark.parametrize("pair", [Mixup(1.0), CutMix(), CutMix(0.3), MixupOrCutMix(1.0)])
def test_labels_have_the_mass_of_their_images(pair):
    """Images of one colour per label: what is left of the own colour is the share of the own label."""
    augmented = Augmentation((pair,), (0.0,), (1 / 255,))
    colours = torch.tensor([10, 50, 110, 250])
    images = colours.to(torch.uint8)[:, None, None, None].expand(4, 12, 9, 1)
    draws = draw(augmented, steps=30, batch=4, size=(12, 9))
    for step in range(30):
        batch = augmented.apply(images, torch.arange(4), of_step(draws, step), torch.float32)
        expected = (
            batch.targets.share * colours[batch.targets.labels]
            + (1 - batch.targets.share) * colours[batch.targets.partners]
        )
        torch.testing.assert_close(batch.images.mean((1, 2, 3)), expected, rtol=1e-4, atol=1e-3)
    assert float(draws["0.share"].std()) > 0.05


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_of_mixed_labels_is_the_one_of_soft_labels(smoothing):
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    labels, partners, share = torch.tensor([0, 1, 2, 3, 0, 1]), torch.tensor([3, 2, 1, 1, 0, 0]), torch.tensor(0.3)
    soft = share * F.one_hot(labels, 4) + (1 - share) * F.one_hot(partners, 4)
    expected = F.cross_entropy(logits, soft * (1 - smoothing) + smoothing / 4)
    torch.testing.assert_close(loss(logits, Targets(labels, partners, share), smoothing), expected)
    assert loss(logits, Targets(labels)) == F.cross_entropy(logits, labels)
    plain = loss(logits, Targets(labels), smoothing)
    torch.testing.assert_close(plain, F.cross_entropy(logits, labels, label_smoothing=smoothing))
    assert loss(logits.bfloat16(), Targets(labels), smoothing).dtype == torch.float32


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
    assert (batch.targets.partners, batch.targets.share) == (None, None)


def test_images_of_one_pixel_pass():
    augmented, images = augmentation(Crop(0), Flip(), Cutout(1)), random_images(4, 1, 1)
    batch = augmented.apply(images, torch.arange(4), of_step(draw(augmented, batch=4, size=(1, 1)), 0), torch.float32)
    assert batch.images.tolist() == torch.zeros(4, 3, 1, 1).tolist()


@pytest.mark.slow
def test_compiled_step_is_the_eager_one():
    augmented, images, labels = augmentation(Crop(2), Flip(), Cutout(3), Mixup()), random_images(8), torch.arange(8)
    draws = of_step(draw(augmented), 0)
    compiled = torch.compile(augmented.apply, fullgraph=True)(images, labels, draws, torch.float32)
    eager = augmented.apply(images, labels, draws, torch.float32)
    torch.testing.assert_close(compiled.images, eager.images)
    assert compiled.images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(compiled.targets.partners, eager.targets.partners)
    assert torch.equal(compiled.targets.share, eager.targets.share)


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
