"""The mean of latents over the last epochs: as defined, tested as exported, resumed exactly; training is the same."""

import copy
import dataclasses
from pathlib import Path

import pytest
import torch

from adaste.data.augment import Crop
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import RunFolder
from adaste.training.trainer import Training
from support.small_runs import (
    CONVOLUTIONAL,
    assert_same,
    outcome,
    small_recipe,
    small_run,
    small_training,
    stopping_at,
    timeless,
    weights_of,
)

AFFINE = dataclasses.replace(CONVOLUTIONAL, affine=True)
METHODS = {
    "adaste": small_recipe("adaste", epochs=5),
    "two levels": small_recipe("pmf", epochs=5),
    "running statistics": small_recipe("binaryconnect", epochs=5, norm_always=False, network=AFFINE),
    "full precision": small_recipe("full-precision", epochs=5, network=AFFINE, augmentation=(Crop(1),)),
}
every_method = pytest.mark.parametrize("made", list(METHODS.values()), ids=list(METHODS))


def averaged(made: Recipe, last: int = 3) -> Recipe:
    return dataclasses.replace(made, average_last=last)


def latents_of(training: Training) -> list[torch.Tensor]:
    """All latents, copied: those of binary weights and of real ones."""
    state = training.optimizer.state
    groups = training.optimizer.param_groups
    return [state[weight]["latent"].detach().clone() for group in groups for weight in group["params"]]


@every_method
def test_a_run_ends_with_the_mean_of_the_latents_at_the_ends_of_its_last_epochs(made: Recipe) -> None:
    plain, training = small_training(made), small_training(averaged(made))
    ends, records = [], []
    for record in plain.run():
        records.append(record)
        ends.append(latents_of(plain))
    found = list(training.run())
    for mean, *parts in zip(latents_of(training), *ends[-3:], strict=True):
        torch.testing.assert_close(mean, sum(parts) / 3, rtol=1e-4, atol=1e-6)
    assert timeless(found)[:-1] == timeless(records)[:-1]
    assert (found[-1].loss, found[-1].flipped) == (records[-1].loss, records[-1].flipped)
    assert found[-1].test_loss != records[-1].test_loss


@every_method
def test_the_last_test_is_of_the_mean_with_statistics_of_its_own(made: Recipe) -> None:
    training = small_training(averaged(made))
    *_, record = training.run()
    running = copy.deepcopy([value for name, value in training.model.state_dict().items() if "running" in name])
    with training.exported() as model:
        own = [value for name, value in model.state_dict().items() if "running" in name]
        assert not all(torch.equal(one, other) for one, other in zip(own, running, strict=True))
        for name, latent in training.optimizer.latents():
            assert torch.equal(model.get_parameter(name).sign(), torch.where(latent >= 0, 1.0, -1.0))
    assert training.evaluate().loss == record.test_loss


def test_the_mean_of_the_last_epoch_alone_changes_nothing() -> None:
    plain, training = small_training(METHODS["adaste"]), small_training(averaged(METHODS["adaste"], last=1))
    assert timeless(list(training.run())) == timeless(list(plain.run()))
    assert_same(weights_of(training), weights_of(plain))


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("interrupted_after", [6, 13, 24, 29, 30], ids=lambda step: f"step {step}")
def test_an_interrupted_training_resumed_ends_the_same_to_the_last_bit(made: Recipe, interrupted_after: int) -> None:
    whole = small_training(averaged(made))
    wanted = timeless(list(whole.run()))
    first = small_training(averaged(made))
    stopping_at(first, interrupted_after)
    state = copy.deepcopy(first.state_dict())
    second = small_training(averaged(made))
    second.load_state_dict(state)
    rest = timeless(list(second.run()))
    assert rest == wanted[len(wanted) - len(rest) :]
    assert_same(latents_of(second), latents_of(whole))
    assert second.evaluate() == whole.evaluate()


@pytest.mark.slow
def test_a_run_whose_result_was_lost_writes_the_same_network_again(tmp_path: Path) -> None:
    made = averaged(METHODS["running statistics"])
    small_run(made, tmp_path)
    before = outcome(tmp_path)
    RunFolder(tmp_path).result_file.unlink()
    small_run(made, tmp_path)
    assert outcome(tmp_path) == before
