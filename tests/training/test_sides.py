"""Training with small images first: the images of the network, its teacher and tests; resuming; misfits."""

import copy
import dataclasses

import pytest
import torch
from torch.nn import functional as F

from adaste.data.augment import CenterCrop, Crop, CutMix, Flip
from adaste.estimators.schedules import Steps
from adaste.models import VGG
from adaste.recipes.distillation import Distillation
from adaste.training.step import Teacher
from adaste.training.trainer import Training
from support.small_runs import (
    CPU,
    Pooled,
    assert_same,
    small_data,
    small_recipe,
    small_training,
    stopping_at,
    timeless,
    weights_of,
)

GROWING = Steps(values=(4, 5, 8), ticks=(1, 2))
MADE = small_recipe("adaste", network=Pooled(), augmentation=(Crop(1), Flip(), CutMix()), side=GROWING)


def images_seen(training: Training, network: torch.nn.Module | None = None) -> list[torch.Tensor]:
    """The images that a network gets from now on; in training alone, if it is the one that is trained."""
    seen: list[torch.Tensor] = []
    network = network or training.model

    def hook(module: torch.nn.Module, args: tuple[torch.Tensor]) -> None:
        if module.training or module is not training.model:
            seen.append(args[0].detach().clone())

    network.register_forward_pre_hook(hook)
    return seen


def test_the_network_sees_the_means_of_the_pixels_that_are_put_together() -> None:
    made = dataclasses.replace(MADE, side=Steps(values=(4,), ticks=()), norm_always=False)
    plain, small = small_training(dataclasses.replace(made, side=None)), small_training(made)
    whole, shrunk = images_seen(plain), images_seen(small)
    stopping_at(plain, 3)
    stopping_at(small, 3)
    for large, little in zip(whole, shrunk, strict=True):
        torch.testing.assert_close(little, F.avg_pool2d(large, 2))


def test_each_epoch_has_its_side_and_tests_have_the_size_of_the_data() -> None:
    training = small_training(MADE)
    sides: list[tuple[bool, int, int]] = []
    training.model.register_forward_pre_hook(lambda model, args: sides.append((model.training, *args[0].shape[2:])))
    training.recipe = dataclasses.replace(training.recipe, norm_always=False)
    list(training.run())
    assert [side for trains, *side in sides if trains] == [[4, 4]] * 6 + [[5, 5]] * 6 + [[8, 8]] * 6
    assert {tuple(side) for trains, *side in sides if not trains} == {(8, 8)}


@pytest.mark.parametrize("steps", [4, 6, 9])
def test_a_training_resumed_in_any_epoch_ends_the_same(steps: int) -> None:
    whole = small_training(MADE)
    wanted = timeless(list(whole.run()))
    first, second = small_training(MADE), small_training(MADE)
    stopping_at(first, steps)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    rest = timeless(list(second.run()))
    assert rest == wanted[len(wanted) - len(rest) :]
    assert_same(weights_of(second), weights_of(whole))


def test_a_teacher_sees_the_images_as_they_were() -> None:
    made = dataclasses.replace(MADE, distillation=Distillation(teacher="0123456789abcdef"), norm_always=False)
    teacher = Teacher(copy.deepcopy(small_training(MADE).model).eval(), torch.float32, "0" * 64)
    training = Training(made, small_data(), device=CPU, engine="eager", teacher=teacher)
    of_teacher, of_network = images_seen(training, teacher.network), images_seen(training)
    stopping_at(training, 2)
    for large, little in zip(of_teacher, of_network, strict=True):
        torch.testing.assert_close(little, F.avg_pool2d(large, 2))


@pytest.mark.slow
def test_the_compiled_engine_trains_with_every_side() -> None:
    made = dataclasses.replace(MADE, norm_always=False)
    eager, compiled = small_training(made), small_training(made, engine="compiled")
    for record, wanted in zip(compiled.run(), eager.run(), strict=True):
        assert record.loss == pytest.approx(wanted.loss, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"side": Steps(values=(4, 9), ticks=(1,))}, "8 x 8 pixels: they must be squares with sides of 9 or more"),
        ({"augmentation": (CenterCrop(4),)}, "4 x 4 pixels: they must be squares with sides of 8 or more"),
        ({"network": VGG(stages=((8,), (8,), (8,)))}, "the network does not take images of 4 x 4 pixels"),
        ({"network": small_recipe().network}, "the network does not take images of 4 x 4 pixels"),
    ],
)
def test_images_or_networks_that_do_not_fit_are_refused_before_training(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_training(dataclasses.replace(MADE, **changes))
