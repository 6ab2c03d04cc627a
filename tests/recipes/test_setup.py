"""The ten lines: adaste.setup, its scheduler, and what both do with other people's tools."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LRScheduler

import adaste
from adaste.estimators import FanIn, FullPrecision, Scaled, Unit
from adaste.estimators.schedules import Schedule, schedules_in
from adaste.recipes.methods import METHODS, Plan
from adaste.recipes.presets import recipe

every_method = pytest.mark.parametrize("method", METHODS)
TEST, TRAIN, BATCH = slice(0, 500), slice(500, None), 64


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return (torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1)[order], torch.tensor(labels)[order]


def with_norms() -> nn.Module:
    """Two convolutions with BatchNorm, and a linear layer."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 4, 10)),
    )


def without_norms() -> nn.Module:
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(256, 10))


LEAST = {"adaste": 65, "adaste-annealed": 60}
"""Percent that a method exceeds in 210 steps `with_norms` (measured 72.8 and 70.8); all others exceed 92."""


def ten_lines(model: nn.Module, digits: tuple[Tensor, Tensor], epochs: int, **options: Any) -> float:
    """Train as README does; the accuracy of the weights that would be exported."""
    images, labels = digits
    loader = list(zip(images[TRAIN].split(BATCH), labels[TRAIN].split(BATCH), strict=True))
    optimizer, scheduler = adaste.setup(model, steps=epochs * len(loader), **options)
    for _ in range(epochs):
        for chosen in torch.randperm(len(labels[TRAIN])).split(BATCH):
            cross_entropy(model(images[TRAIN][chosen]), labels[TRAIN][chosen]).backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    with optimizer.binarized(model, statistics_from=loader), torch.no_grad():
        model.eval()
        return 100 * (model(images[TEST]).argmax(1) == labels[TEST]).double().mean().item()


@pytest.mark.slow
@every_method
def test_the_ten_lines_train_two_convolutions_on_the_digits(method: str, digits) -> None:
    torch.manual_seed(0)
    assert ten_lines(with_norms(), digits, epochs=10, method=method) > LEAST.get(method, 92)  # chance is 10


@pytest.mark.slow
def test_the_default_trains_networks_with_norms_and_without(digits) -> None:
    for network in (with_norms, without_norms):
        torch.manual_seed(0)
        assert ten_lines(network(), digits, epochs=10) > 92


@pytest.mark.slow
@pytest.mark.parametrize("method", ["binaryconnect", "adaste", "md-tanh-s"])
def test_a_compiled_step_trains_like_an_eager_one(method: str) -> None:
    def run(*, compile: bool) -> list[Tensor]:
        model = small()
        optimizer, scheduler = adaste.setup(model, steps=150, method=method, compile=compile)
        for number in range(5):
            step(model, optimizer, scheduler, number)
        return [latent.clone() for _, latent in optimizer.latents()]

    for one, other in zip(run(compile=True), run(compile=False), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6 * float(other.abs().max()))


@pytest.mark.parametrize("method", ["straight-through", "bayesbinn", "bop", "adaste-printed"])
def test_methods_that_need_norms_warn_where_hidden_layers_have_none(method: str) -> None:
    with pytest.warns(UserWarning, match=f"no normalization layers, and '{method}' learns badly") as caught:
        adaste.setup(without_norms(), steps=1000, method=method)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adaste.setup(with_norms(), steps=1000, method=method)
        adaste.setup(nn.Linear(64, 10), steps=1000, method=method)  # no hidden layer: it learns
        adaste.setup(without_norms(), steps=1000)


@every_method
def test_rates_and_annealing_are_those_of_the_recipe_of_as_many_steps(method: str) -> None:
    epochs, images = 40, 50_000
    of_recipe = recipe(f"cifar10-resnet18-{method}", epochs=epochs).in_steps(391)
    treatment = METHODS[method].treat(Plan.of_steps(epochs * 391, images))
    assert treatment.averaging == of_recipe.averaging
    assert type(treatment.estimator) is type(of_recipe.estimator)
    for mine, theirs in zip(schedules_in(treatment), _schedules_of(of_recipe), strict=True):
        assert type(mine) is type(theirs)
        # A recipe ends annealing with an epoch, a run of steps with a step.
        assert mine.length == pytest.approx(theirs.length, abs=391 / 2 + 1)
        assert (mine.start, mine.stop) == pytest.approx((theirs.start, theirs.stop))


def _schedules_of(made: Any) -> list[Schedule]:
    return [*schedules_in(made.estimator), *schedules_in(made.base), *schedules_in(made.rest_lr)]


def test_binary_weights_have_the_size_of_usual_ones_and_the_rest_has_its_own_rate() -> None:
    model = with_norms()
    optimizer, _ = adaste.setup(model, steps=1000, method="adaste")
    sizes = [model[place].weight.abs().unique().tolist() for place in (0, 4, 9)]
    assert sizes == [[pytest.approx((2 / fan_in) ** 0.5)] for fan_in in (9, 16 * 9, 32 * 4)]
    binary, rest = optimizer.param_groups
    assert isinstance(binary["estimator"], Scaled)
    assert isinstance(rest["estimator"], FullPrecision)
    assert rest["weight_decay"] == 0 < binary["weight_decay"]
    adaste.setup(model, steps=1000, scale=Unit())
    assert model[0].weight.abs().unique().tolist() == [1]


def test_layers_can_be_chosen_and_the_reference_stays_real() -> None:
    model = with_norms()
    optimizer, _ = adaste.setup(model, steps=1000, method="binaryconnect", exclude="9")
    assert [name for name, _ in optimizer.latents()] == ["0.weight", "4.weight"]
    reference = with_norms()
    before = reference[0].weight.detach().clone()
    adaste.setup(reference, steps=1000, method="full-precision")
    assert before.equal(reference[0].weight)


def test_the_size_of_weights_is_that_of_output_channels_wherever_they_lie() -> None:
    layer = nn.ConvTranspose2d(8, 2, 3)
    adaste.setup(layer, steps=1000, scale=FanIn())
    assert layer.weight.abs().unique().tolist() == [pytest.approx((2 / (8 * 9)) ** 0.5)]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"method": "adast"}, "no method 'adast'; near it: adaste.*Methods: full-precision, binaryconnect"),
        ({"method": None}, "no method None"),
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 10.0}, "steps must be a whole number"),
        ({"examples": 0}, "examples must be a whole number of at least 1"),
        ({"scale": "fan-in"}, "scale must be a Scale, got 'fan-in'"),
        ({"model": [nn.Parameter(torch.ones(2, 2))]}, "model must be a Module"),
        ({"exclude": "fc"}, "fc"),
        ({"model": nn.BatchNorm2d(3)}, "no binary weights"),
    ],
)
def test_impossible_settings_are_refused_and_say_what_is_allowed(wrong: dict[str, Any], told: str) -> None:
    options = {"model": nn.Linear(3, 2), "steps": 1000} | wrong
    with pytest.raises(ValueError, match=f"(?s){told}"):
        adaste.setup(options.pop("model"), **options)


def test_epochs_in_place_of_steps_are_warned_of() -> None:
    with pytest.warns(
        UserWarning, match=r"20 optimizer steps are very few.*give steps=epochs \* len\(loader\)"
    ) as caught:
        adaste.setup(nn.Linear(3, 2), steps=20)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adaste.setup(nn.Linear(3, 2), steps=120)


def step(model: nn.Module, optimizer: Any, scheduler: LRScheduler, seed: int) -> None:
    inputs = torch.randn(8, 6, generator=torch.Generator().manual_seed(seed))
    model(inputs).square().mean().backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_rates_follow_their_schedules_in_every_group_and_beyond_the_end_there_is_a_warning() -> None:
    model = small()
    optimizer, scheduler = adaste.setup(model, steps=150, method="straight-through")
    assert isinstance(scheduler, LRScheduler)
    treatment = METHODS["straight-through"].treat(Plan.of_steps(150, 50_000))
    for number in range(150):
        wanted = [treatment.base.lr.at(number), treatment.rest_lr.at(number)]
        assert [group["lr"] for group in optimizer.param_groups] == scheduler.get_last_lr() == wanted
        step(model, optimizer, scheduler, number)
    assert scheduler.get_last_lr() == [0, 0]
    with pytest.warns(UserWarning, match="were set up for 150 steps, and training continues"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()


def test_a_scheduler_that_is_stepped_once_per_epoch_is_warned_of_once() -> None:
    model = small()
    optimizer, scheduler = adaste.setup(model, steps=150)

    def epoch(number: int) -> None:
        for _ in range(5):
            model(torch.ones(8, 6)).square().mean().backward()
            optimizer.step()
        scheduler.step()

    epoch(0)  # steps before the first may be those of an earlier run
    with pytest.warns(
        UserWarning, match=r"made 5 steps since the last scheduler\.step\(\).*not once per epoch"
    ) as caught:
        epoch(1)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epoch(2)


def test_going_to_another_step_with_the_states_of_both_is_no_skipped_step() -> None:
    model = small()
    optimizer, scheduler = adaste.setup(model, steps=150)
    for number in range(9):
        step(model, optimizer, scheduler, number)
    later = optimizer.state_dict(), scheduler.state_dict()
    model = small()
    optimizer, scheduler = adaste.setup(model, steps=150)
    step(model, optimizer, scheduler, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.load_state_dict(later[0])
        scheduler.load_state_dict(later[1])
        step(model, optimizer, scheduler, 9)


@pytest.mark.parametrize("method", ["adaste-annealed", "md-tanh-s", "proxquant"])
def test_a_resumed_run_is_the_same_to_the_last_bit(method: str, tmp_path) -> None:
    def fresh() -> tuple[nn.Module, dict[str, Any]]:
        model = small()
        optimizer, scheduler = adaste.setup(model, steps=150, method=method)
        return model, {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    model, parts = fresh()
    for number in range(20):
        step(model, parts["optimizer"], parts["scheduler"], number)
        if number == 9:
            torch.save({name: part.state_dict() for name, part in parts.items()}, tmp_path / "saved.pt")
    again, resumed = fresh()
    for name, state in torch.load(tmp_path / "saved.pt", weights_only=True).items():
        resumed[name].load_state_dict(state)
    for number in range(10, 20):
        step(again, resumed["optimizer"], resumed["scheduler"], number)
    assert resumed["scheduler"].state_dict() == parts["scheduler"].state_dict()
    for (name, mine), (_, theirs) in zip(parts["optimizer"].latents(), resumed["optimizer"].latents(), strict=True):
        assert mine.equal(theirs), name
    assert all(a.equal(b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def with_closure(model: nn.Module, optimizer: Any, loss: Callable[[], Tensor]) -> None:
    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)


def with_scaler(model: nn.Module, optimizer: Any, loss: Callable[[], Tensor]) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    optimizer.zero_grad()
    scaler.scale(loss()).backward()
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("way", [with_closure, with_scaler])
def test_closures_and_gradient_scalers_make_the_same_steps(way: Any) -> None:
    plain, other = small(), small()
    inputs = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    optimizer, scheduler = adaste.setup(plain, steps=150)
    others, others_scheduler = adaste.setup(other, steps=150)
    for _ in range(3):
        optimizer.zero_grad()
        plain(inputs).square().mean().backward()
        optimizer.step()
        scheduler.step()
        way(other, others, lambda: other(inputs).square().mean())
        others_scheduler.step()
    assert others.steps == 3
    assert all(a.equal(b) for a, b in zip(plain.parameters(), other.parameters(), strict=True))


def test_rates_in_tensors_are_changed_in_place() -> None:
    model = small()
    optimizer, scheduler = adaste.setup(model, steps=150, capturable=True, method="binaryconnect")
    rate = optimizer.param_groups[0]["lr"]
    step(model, optimizer, scheduler, 0)
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == pytest.approx(METHODS["binaryconnect"].treat(Plan.of_steps(150, 50_000)).base.lr.at(1))
