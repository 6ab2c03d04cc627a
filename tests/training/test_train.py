"""Training by a recipe: as a plain loop would, with complete records; recipes that cannot be trained are refused."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from adaste.data.augment import order_of_epoch
from adaste.estimators.schedules import Cosine, Steps
from adaste.training.distributed import World
from adaste.training.records import Record
from support.small_runs import CONVOLUTIONAL, CPU, small_data, small_recipe, small_training


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
