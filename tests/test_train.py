"""Training by a recipe: repeatable, resumed to the last bit from any step, with complete records."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from small_runs import (
    CONVOLUTIONAL,
    CPU,
    InterruptedTrainingError,
    assert_same,
    small_data,
    small_recipe,
    small_training,
    timeless,
    weights_of,
)
from torch.nn import functional as F

from adaste.augment import Crop, CutMix, Mixup, order_of_epoch
from adaste.distributed import World
from adaste.engine import Streaming
from adaste.recipe import Recipe
from adaste.records import DivergedError, Record
from adaste.schedules import Cosine, Steps
from adaste.train import Training

RECIPES = {
    "adaste": small_recipe("adaste"),
    "adam": small_recipe("binaryconnect"),
    "averaged gradients": small_recipe("adaste-printed"),
    "annealed": small_recipe("adaste-annealed"),
    "soft to the end": small_recipe("pmf"),
    "noise": small_recipe("bayesbinn"),
    "bop": small_recipe("bop"),
    "holdout": small_recipe("adaste", holdout=20),
    "mixup": small_recipe("md-tanh-s", augmentation=(Crop(1), Mixup(0.4))),
    "cutmix, bfloat16, smooth labels": small_recipe(
        "full-precision", augmentation=(CutMix(),), precision="bfloat16", label_smoothing=0.1
    ),
    "convolutions": small_recipe("adaste-annealed", network=CONVOLUTIONAL),
}
every_recipe = pytest.mark.parametrize("made", list(RECIPES.values()), ids=list(RECIPES))


def stopping_at(training: Training, step: int) -> None:
    """Train until so many steps have been made, and stop there by an exception."""
    made = 0

    def count() -> None:
        nonlocal made
        made += 1
        if made == step:
            raise InterruptedTrainingError

    with pytest.raises(InterruptedTrainingError):
        list(training.run(count))


@every_recipe
def test_the_same_recipe_twice_gives_the_same_bits(made: Recipe) -> None:
    one, other = small_training(made), small_training(made)
    records = [timeless(list(training.run())) for training in (one, other)]
    assert records[0] == records[1]
    assert_same(weights_of(one), weights_of(other))


def test_another_seed_gives_another_run() -> None:
    one, other = small_training(small_recipe(seed=0)), small_training(small_recipe(seed=1))
    assert timeless(list(one.run())) != timeless(list(other.run()))


@every_recipe
@pytest.mark.parametrize("interrupted_after", [1, 5, 6, 7, 12, 17, 18], ids=lambda step: f"step {step}")
def test_an_interrupted_training_resumed_ends_the_same_to_the_last_bit(made: Recipe, interrupted_after: int) -> None:
    whole = small_training(made)
    wanted = timeless(list(whole.run()))
    assert whole.steps_per_epoch in (5, 6)
    steps = min(interrupted_after, made.epochs * whole.steps_per_epoch)

    first = small_training(made)
    stopping_at(first, steps)
    state = copy.deepcopy(first.state_dict())
    torch.rand(3)  # whoever used the process in between
    second = small_training(made)
    second.load_state_dict(state)
    rest = timeless(list(second.run()))
    assert rest == wanted[len(wanted) - len(rest) :]
    assert_same(weights_of(second), weights_of(whole))


def test_a_training_stopped_at_every_single_step_ends_the_same() -> None:
    made = small_recipe("adaste-printed-annealed", epochs=2)
    whole = small_training(made)
    wanted = timeless(list(whole.run()))
    training, records = small_training(made), []

    def stop() -> None:
        raise InterruptedTrainingError

    while training.epoch < made.epochs:
        try:
            for record in training.run(stop):
                records.append(record)
        except InterruptedTrainingError:
            state = copy.deepcopy(training.state_dict())
            training = small_training(made)
            training.load_state_dict(state)
    assert timeless(records) == wanted
    assert_same(weights_of(training), weights_of(whole))


def test_the_same_training_goes_on_after_an_interruption() -> None:
    whole = small_training(small_recipe())
    wanted = timeless(list(whole.run()))
    training = small_training(small_recipe())
    stopping_at(training, 8)
    assert timeless(list(training.run())) == wanted[1:]
    assert_same(weights_of(training), weights_of(whole))


def test_a_state_survives_what_weights_only_files_hold(tmp_path) -> None:
    training = small_training(small_recipe("binaryconnect"))
    stopping_at(training, 4)
    torch.save(training.state_dict(), tmp_path / "state")
    other = small_training(small_recipe("binaryconnect"))
    other.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    list(training.run())
    list(other.run())
    assert_same(weights_of(other), weights_of(training))


def test_records_are_complete_and_finite() -> None:
    records = list(small_training(small_recipe("adaste-annealed", epochs=8, holdout=20)).run())
    assert [record.epoch for record in records] == list(range(8))
    for record in records:
        for field in dataclasses.fields(Record):
            value = getattr(record, field.name)
            assert value is not None, field.name
            assert isinstance(value, dict) or math.isfinite(value), field.name
        assert 0 <= record.train_accuracy <= 100
        assert 0 <= record.flipped <= 1
        assert record.latent > 0
        assert record.images_per_second > 0
    assert records[0].method["mu"] < records[-1].method["mu"] == 100.0


def test_totals_of_an_epoch_equal_a_plain_loop() -> None:
    made = small_recipe("full-precision", epochs=1, augmentation=(), label_smoothing=0.1)
    data, reference = small_data(), small_training(made)
    record = next(small_training(made).run())
    order = order_of_epoch(seed=made.seed, epoch=0, count=100, batch=16)
    losses, right = [], 0
    for step, index in enumerate(order):
        for group in reference.optimizer.param_groups:
            group["lr"] = made.base.lr.stretched(6).at(step)
        images = torch.from_numpy(data.train.images[index.numpy()]).float() / 255
        labels = torch.from_numpy(data.train.labels[index.numpy()])
        logits = reference.model(((images - 0.5) / 0.25).permute(0, 3, 1, 2))
        loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        losses.append(loss.item())
        right += int((logits.argmax(1) == labels).sum())
        reference.optimizer.zero_grad()
        loss.backward()
        reference.optimizer.step()
    assert record.loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert record.train_accuracy == pytest.approx(100 * right / 96)


@pytest.mark.parametrize(
    "schedule",
    [Cosine(start=0.1, stop=0.0, length=3), Steps(values=(0.1, 0.01, 0.001), ticks=(1, 2))],
    ids=["cosine", "steps"],
)
def test_learning_rates_act_at_the_right_step(schedule) -> None:
    made = small_recipe("full-precision", rest_lr=schedule)
    made = dataclasses.replace(
        made, network=dataclasses.replace(made.network, affine=True), base=dataclasses.replace(made.base, lr=0.05)
    )
    training, seen = small_training(made), []

    def look() -> None:
        seen.append([float(group["lr"]) for group in training.optimizer.param_groups])

    list(training.run(look))
    assert seen == [[0.05, schedule.stretched(6).at(step)] for step in range(18)]


def test_an_epoch_that_is_not_tested_has_no_accuracy_but_the_last_always_has() -> None:
    records = list(small_training(small_recipe(epochs=5, evaluate_every=2, holdout=10)).run())
    assert [record.test_accuracy is not None for record in records] == [False, True, False, True, True]
    assert [record.holdout_accuracy is not None for record in records] == [False, True, False, True, True]
    assert [record.deciding is not None for record in records] == [False, True, False, True, True]


def test_how_often_tests_are_made_does_not_change_training() -> None:
    one, other = small_training(small_recipe("pmf")), small_training(small_recipe("pmf", evaluate_every=3))
    list(one.run())
    list(other.run())
    assert_same(weights_of(one), weights_of(other))


@pytest.mark.parametrize("streaming", [False, True], ids=["resident", "streaming"])
@pytest.mark.parametrize("method", ["pmf", "adaste"])
def test_an_evaluation_in_the_middle_of_an_epoch_changes_nothing(method, streaming, monkeypatch) -> None:
    if streaming:
        monkeypatch.setattr("adaste.engine.feeds.SHARE_OF_MEMORY", 0.0)
    whole = small_training(small_recipe(method))
    wanted = timeless(list(whole.run()))
    training = small_training(small_recipe(method))
    assert isinstance(training.feed, Streaming) == streaming
    records = list(training.run(training.evaluate))
    assert timeless(records) == wanted
    assert_same(weights_of(training), weights_of(whole))


def test_an_evaluation_is_of_the_weights_as_exported() -> None:
    training = small_training(small_recipe("pmf"))
    stopping_at(training, 4)
    before = weights_of(training)
    with training.exported() as model:
        binary = [weight for name, weight in model.named_parameters() if weight.ndim > 1]
        assert all(bool((weight.abs() == 1).all()) for weight in binary)
    assert training.optimizer.is_soft()
    assert_same(weights_of(training), before)


def test_images_held_out_are_neither_trained_with_nor_chosen_by_seed() -> None:
    data = small_data()
    held = [small_training(small_recipe(holdout=30, seed=seed))._held_out.images for seed in (0, 1)]
    kept = small_training(small_recipe(holdout=30)).feed
    assert (held[0] == held[1]).all()
    assert kept.count == 70
    everything = {image.tobytes() for image in data.train.images}
    assert len(held[0]) == 30
    assert {image.tobytes() for image in held[0]} < everything
    assert {image.tobytes() for image in kept._images.numpy()} == everything - {image.tobytes() for image in held[0]}


def test_an_evaluation_on_images_held_out_needs_some() -> None:
    with pytest.raises(ValueError, match=r"holdout.*0"):
        small_training(small_recipe()).evaluate("holdout")
    with pytest.raises(ValueError, match=r"one of test, holdout, got 'tset'"):
        small_training(small_recipe()).evaluate("tset")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"holdout": 100}, "must leave images.*100"),
        ({"holdout": 90}, "at least one whole batch.*got 10 images for batches of 16"),
        ({"batch": 101}, "at least one whole batch.*100 images"),
    ],
)
def test_a_recipe_that_leaves_no_batch_is_refused(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        small_training(small_recipe(**changes))


def test_a_batch_that_processes_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 3, got 16"):
        small_training(small_recipe(), world=World(rank=0, size=3))


def test_an_engine_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"engine must be one of auto, eager, compiled, graph, got 'fast'"):
        small_training(small_recipe(), engine="fast")


def test_a_gradient_that_is_not_finite_stops_with_epoch_step_and_names() -> None:
    training = small_training(small_recipe("full-precision"))

    def spoil() -> None:
        if (training.epoch, training.step) == (1, 3):
            with torch.no_grad():
                next(training.model.parameters()).fill_(math.nan)

    with pytest.raises(DivergedError, match=r"epoch 2, step 4: the gradient of .*weight.*learning rate") as caught:
        list(training.run(spoil))
    assert (caught.value.epoch, caught.value.step) == (1, 3)


def test_a_loss_that_is_not_finite_stops_even_if_all_gradients_are(monkeypatch) -> None:
    """And no state is given any more, so that the last good checkpoint stays."""
    monkeypatch.setattr("adaste.engine.step.loss", _infinite_in_the_ninth_step(training_step := []))
    training = small_training(small_recipe("full-precision"))

    def look() -> None:
        if len(training_step) > 8:
            with pytest.raises(DivergedError, match="epoch 2, step 3"):
                training.state_dict()
        else:
            training.state_dict()

    with pytest.raises(DivergedError, match=r"epoch 2, step 3: the loss was not finite"):
        list(training.run(look))
    assert len(training_step) == 12, "noticed at the end of the epoch at the latest"


def _infinite_in_the_ninth_step(calls):
    from adaste.augment import loss

    def value(*arguments):
        calls.append(0)
        return loss(*arguments) + (math.inf if len(calls) == 9 else 0.0)

    return value


def test_a_learning_rate_that_is_far_too_large_is_reported() -> None:
    made = small_recipe("full-precision", epochs=20)
    made = dataclasses.replace(
        made,
        network=dataclasses.replace(made.network, norm_hidden=False, logits_norm=False),
        base=dataclasses.replace(made.base, lr=1e9, momentum=0.0),
    )
    with pytest.raises(DivergedError, match=r"training diverged in epoch \d+, step \d+"):
        list(small_training(made).run())


def test_latents_that_grow_without_end_are_reported_though_their_signs_are_weights() -> None:
    made = small_recipe("straight-through", epochs=20)
    made = dataclasses.replace(made, base=dataclasses.replace(made.base, lr=1e3, momentum=0.0, weight_decay=1.0))
    training = small_training(made)
    with pytest.raises(DivergedError, match=r"training diverged in epoch \d+: latent weights were not finite"):
        list(training.run())
    assert all(weight.isfinite().all() for weight in training.model.parameters())
    with pytest.raises(DivergedError, match="latent weights were not finite"):
        training.state_dict()


def test_training_works_in_bfloat16_with_norms_in_float32() -> None:
    made = small_recipe("pmf", network=dataclasses.replace(CONVOLUTIONAL, affine=True), precision="bfloat16")
    training = small_training(dataclasses.replace(made, epochs=4))
    kinds = {name: value.dtype for name, value in training.model.state_dict().items()}
    assert kinds["0.weight"] == torch.bfloat16
    assert {dtype for name, dtype in kinds.items() if name.startswith("2.")} == {torch.float32}
    assert all(latent.dtype == torch.float32 for _, latent in training.optimizer.latents())
    records = list(training.run())
    assert records[-1].loss < records[0].loss
    with training.exported() as model:
        assert bool((model[0].weight.abs() == 1).all())


def test_the_device_of_a_training_is_the_one_asked_for() -> None:
    assert {parameter.device for parameter in small_training(small_recipe()).model.parameters()} == {CPU}
