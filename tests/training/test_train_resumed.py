"""Training is repeatable, and resumed to the last bit from any step."""

import copy

import pytest
import torch

from adaste.data.augment import Crop, CutMix, Mixup
from adaste.recipes.recipe import Recipe
from support.small_runs import (
    CONVOLUTIONAL,
    InterruptedTrainingError,
    assert_same,
    small_recipe,
    small_training,
    stopping_at,
    timeless,
    weights_of,
)

pytestmark = pytest.mark.slow

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
