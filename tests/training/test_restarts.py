"""A training that begins anew in the memory of before, with another seed: to the last bit as a new one."""

import dataclasses
from functools import partial

import pytest
import torch
from torch import nn

import adaste
from adaste.data.augment import Crop, Flip
from adaste.estimators.schedules import Steps
from adaste.recipes.recipe import Recipe
from support.small_runs import (
    CONVOLUTIONAL,
    Pooled,
    assert_same,
    small_recipe,
    small_training,
    stopping_at,
    timeless,
    weights_of,
)

METHODS = {
    "momentum": small_recipe("adaste", network=CONVOLUTIONAL, augmentation=(Crop(1), Flip())),
    "Adam, two levels": small_recipe("pmf", average_last=2),
    "averaged gradients, annealed": small_recipe("adaste-printed-annealed"),
    "affine BatchNorm, bfloat16": small_recipe(
        "full-precision", network=dataclasses.replace(CONVOLUTIONAL, affine=True), precision="bfloat16"
    ),
    "sides": small_recipe("adaste", network=Pooled(), side=Steps(values=(4, 8), ticks=(1,))),
}
every_method = pytest.mark.parametrize("made", list(METHODS.values()), ids=list(METHODS))


@every_method
@pytest.mark.parametrize("steps", [2, 9])
def test_a_restarted_training_is_a_new_one_with_that_seed(made: Recipe, steps: int) -> None:
    new, used = small_training(made.with_seed(3)), small_training(made)
    stopping_at(used, steps)
    used.restart(3)
    assert timeless(list(used.run())) == timeless(list(new.run()))
    assert_same(weights_of(used), weights_of(new))
    assert used.recipe == new.recipe


@every_method
def test_a_training_that_was_warmed_up_is_a_new_one(made: Recipe) -> None:
    new, warm = small_training(made), small_training(made)
    warm.warm_up()
    assert (warm.epoch, warm.step, warm.optimizer.steps) == (0, 0, 0)
    assert timeless(list(warm.run())) == timeless(list(new.run()))


@every_method
def test_it_begins_in_the_memory_of_before(made: Recipe) -> None:
    training = small_training(made)
    stopping_at(training, 3)

    def places() -> list[int]:
        of_base = [value for state in training.optimizer.base.state.values() for value in state.values()]
        own = [value for state in training.optimizer.state.values() for value in state.values()]
        every = [*of_base, *own, *training.model.state_dict().values()]
        return [value.data_ptr() for value in every if isinstance(value, torch.Tensor)]

    before = places()
    training.restart()
    assert places() == before


def test_a_run_without_tests_trains_alike_and_is_tested_afterwards() -> None:
    made = small_recipe("adaste", holdout=20)
    plain, tested = small_training(made), small_training(made)
    records, wanted = list(plain.run(tests=False)), list(tested.run())
    assert all(record.test_accuracy is None and record.holdout_accuracy is None for record in records)
    assert [record.loss for record in records] == [record.loss for record in wanted]
    assert plain.evaluate("test").accuracy == wanted[-1].test_accuracy


def test_a_method_with_random_numbers_of_its_own_is_not_restarted_with_another_seed() -> None:
    training = small_training(small_recipe("bayesbinn"))
    training.restart(0)
    with pytest.raises(ValueError, match="BayesBiNN draws random numbers from a seed of its own"):
        training.restart(1)


def test_an_optimizer_with_dampening_is_not_restarted() -> None:
    model = nn.Linear(4, 2)
    base = partial(torch.optim.SGD, lr=0.1, momentum=0.9, dampening=0.5)
    optimizer = adaste.LatentOptimizer(adaste.binary_weights(model), base=base, estimator=adaste.AdaSTE())
    with pytest.raises(ValueError, match=r"restart\(\) .* dampening"):
        optimizer.restart()


def test_an_optimizer_is_not_restarted_while_weights_are_rounded() -> None:
    model = nn.Linear(4, 2)
    base = partial(torch.optim.SGD, lr=0.1)
    optimizer = adaste.LatentOptimizer(adaste.binary_weights(model), base=base, estimator=adaste.AdaSTE())
    with optimizer.binarized(), pytest.raises(RuntimeError, match=r"restart\(\)"):
        optimizer.restart()
