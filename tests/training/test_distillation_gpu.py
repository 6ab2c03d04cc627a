"""Training with a teacher on a CUDA device: every engine, captured steps, resume."""

import copy
import dataclasses

import pytest
import torch
from torch import Tensor, nn

from adaste.data.augment import Crop, Flip, MixupOrCutMix
from adaste.models import VGG, ResNet
from adaste.recipes.distillation import Distillation
from adaste.recipes.presets import recipe
from adaste.recipes.recipe import Recipe
from adaste.training.execution import algorithms, dtype_of
from adaste.training.step import Teacher
from adaste.training.trainer import Training
from support.small_runs import assert_same, small_data, stopping_at, timeless, weights_of

pytestmark = pytest.mark.gpu

GPU = torch.device("cuda")
DATA = small_data(train=96, test=50, side=32, channels=3)
BY = Distillation(teacher="0123456789abcdef", weight=0.7, temperature=2.0)
NETWORK = VGG(stages=((64,), (64, 128)), hidden_widths=(32,))


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch):
    """float32 means float32, and the same bits every time."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    with algorithms(deterministic=True, device=GPU):
        yield


def made_by(method: str = "adaste", **changes: object) -> Recipe:
    made = dataclasses.replace(recipe(f"cifar10-vgg16-{method}", epochs=3), network=NETWORK, batch=16)
    return dataclasses.replace(made, **{"precision": "float32", "distillation": BY, **changes})  # type: ignore[arg-type]


def trained_teacher(precision: str = "float32") -> Teacher:
    made = made_by("full-precision", network=ResNet(), epochs=1, precision=precision, distillation=None)
    training = Training(made, DATA, device=GPU)
    list(training.run())
    training.model.zero_grad()  # of its own training
    return Teacher(training.model.eval().requires_grad_(False), dtype_of(made), "0" * 64)


def taught(made: Recipe, teacher: Teacher, engine: str = "graph") -> Training:
    return Training(made, DATA, device=GPU, engine=engine, teacher=teacher)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).clone()


def test_the_first_step_agrees_closely_in_all_ways() -> None:
    few, teacher = small_data(train=16, test=16, side=32, channels=3), trained_teacher()
    moves: dict[str, Tensor] = {}
    for engine in ("eager", "compiled", "graph"):
        made = made_by("full-precision", epochs=1, augmentation=())
        training = Training(made, few, device=GPU, engine=engine, teacher=teacher)
        before = flat(training.model)
        list(training.run())
        moves[engine] = flat(training.model) - before
    for engine in ("compiled", "graph"):
        assert (moves[engine] - moves["eager"]).norm() < 1e-2 * moves["eager"].norm()


def test_all_ways_give_the_same_first_epochs_up_to_rounding() -> None:
    teacher, made = trained_teacher(), made_by("full-precision", epochs=2)
    losses = {
        engine: [record.loss for record in taught(made, teacher, engine).run()]
        for engine in ("eager", "compiled", "graph")
    }
    for engine in ("compiled", "graph"):
        assert losses[engine] == pytest.approx(losses["eager"], rel=5e-2)


def test_captured_steps_leave_the_teacher_as_it_is() -> None:
    teacher = trained_teacher("bfloat16")
    before = copy.deepcopy(list(teacher.network.state_dict().values()))
    list(taught(made_by(precision="bfloat16"), teacher).run())
    torch.cuda.synchronize()
    assert_same(list(teacher.network.state_dict().values()), before)
    assert all(parameter.grad is None for parameter in teacher.network.parameters())


@pytest.mark.parametrize("interrupted_after", [2, 8])
def test_a_resumed_run_on_captured_steps_is_bit_identical(interrupted_after: int) -> None:
    made = made_by("binaryconnect", augmentation=(Crop(4), Flip(), MixupOrCutMix()), precision="bfloat16")
    teacher = trained_teacher("bfloat16")
    whole = taught(made, teacher)
    wanted = timeless(list(whole.run()))
    first = taught(made, teacher)
    stopping_at(first, interrupted_after)
    state = copy.deepcopy(first.state_dict())
    second = taught(made, teacher)
    second.load_state_dict(state)
    rest = timeless(list(second.run()))
    assert rest == wanted[len(wanted) - len(rest) :]
    assert_same(weights_of(second), weights_of(whole))


def test_replayed_steps_never_wait_for_the_device() -> None:
    training, watched = taught(made_by("adaste-printed-annealed"), trained_teacher()), 0

    def watch() -> None:
        nonlocal watched
        inside = training.epoch > 0 and training.step < training.steps_per_epoch
        torch.cuda.set_sync_debug_mode("error" if inside else "default")
        watched += inside

    try:
        list(training.run(watch))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert watched == 2 * (training.steps_per_epoch - 1)
