"""The named recipes."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import adaste
from adaste.estimators.schedules import Cosine, Geometric, Schedule, schedules_in
from adaste.models import ImageShape
from adaste.recipes.bases import Base
from adaste.recipes.methods import METHODS, Plan
from adaste.recipes.presets import BEST, RECIPES, SETTINGS, recipe
from adaste.recipes.recipe import Recipe

# What the data of a setting look like when they reach the network.
IMAGES = {
    "cifar10": (ImageShape(3, 32, 32), 10),
    "cifar100": (ImageShape(3, 32, 32), 100),
    "tiny-imagenet": (ImageShape(3, 64, 64), 200),
    "imagenette": (ImageShape(3, 224, 224), 10),
    "mnist": (ImageShape(1, 28, 28), 10),
    "fashion-mnist": (ImageShape(1, 28, 28), 10),
    "digits": (ImageShape(1, 8, 8), 10),
}
every_recipe = pytest.mark.parametrize("name", RECIPES)
every_method = pytest.mark.parametrize("method", METHODS)


def first_rate(rate: float | Schedule) -> float:
    return float(rate.at(0) if isinstance(rate, Schedule) else rate)


def replace_length(base: Base, length: int) -> Base:
    rate = base.lr
    return dataclasses.replace(base, lr=dataclasses.replace(rate, length=length) if isinstance(rate, Cosine) else rate)


def optimizer_for(model: nn.Module, chosen: Recipe) -> adaste.LatentOptimizer:
    binary, *rest = adaste.binary_weights(model, include=chosen.include or None, exclude=chosen.exclude or None)
    rate = chosen.base.lr if chosen.rest_lr is None else chosen.rest_lr
    groups = [binary, *({**group, "lr": first_rate(rate)} for group in rest)]
    return adaste.LatentOptimizer(
        groups, base=chosen.base.make(), estimator=chosen.estimator, averaging=chosen.averaging
    )


@every_recipe
def test_json_brings_every_recipe_back(name: str) -> None:
    made = recipe(name)
    assert Recipe.from_json(made.to_json()) == made
    assert recipe(name).digest == made.digest


def test_every_recipe_has_a_digest_of_its_own() -> None:
    assert len({recipe(name).digest for name in RECIPES}) == len(RECIPES)


@pytest.mark.slow
@every_recipe
def test_one_step_of_every_recipe_moves_a_small_model_and_leaves_it_finite(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    chosen = recipe(name, epochs=3).in_steps(5)
    optimizer = optimizer_for(model, chosen)
    before = [optimizer.state[weight]["latent"].clone() for weight in optimizer.param_groups[0]["params"]]
    F.cross_entropy(model(torch.randn(16, 6)), torch.arange(16) % 3).backward()
    optimizer.step()
    after = [optimizer.state[weight]["latent"] for weight in optimizer.param_groups[0]["params"]]
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    with optimizer.binarized():
        if chosen.estimator.binary:
            assert all((weight.abs() == 1).all() for weight in optimizer.param_groups[0]["params"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "network"), [(name, network) for name, setting in SETTINGS.items() for network in setting.networks]
)
def test_every_network_suits_the_images_of_its_data(setting: str, network: str) -> None:
    image, classes = IMAGES[setting]
    chosen = recipe(f"{setting}-{network}-adaste")
    with torch.device("meta"):
        model = chosen.network.build(image, classes).to(memory_format=torch.channels_last)
        assert model(torch.empty(2, *image)).shape == (2, classes)
    assert adaste.binary_weights(model).binary


@every_method
@pytest.mark.parametrize("epochs", [1, 2, 50])
def test_schedules_span_the_run_whatever_its_length(method: str, epochs: int) -> None:
    made = recipe(f"cifar10-resnet18-{method}", epochs=epochs).in_steps(391)
    last = 391 * epochs - 1
    assert made.epochs == epochs
    rate = made.base.lr
    if isinstance(rate, Cosine):  # which methods have one, tests/paper/test_other_families.py says
        assert 0 <= rate.at(last) < 1e-3 * rate.at(0)
        assert rate.at(last + 1) == 0
    assert all(schedule.at(last + 1) == schedule.at(10 * last) for schedule in schedules_in(made))


@every_method
def test_long_runs_share_their_rates_and_short_ones_differ_in_them_alone(method: str) -> None:
    half, full = (Plan(epochs, images=50_000, batch=128) for epochs in (80, 160))
    assert (half.steps, full.steps) == (80 * 391, 160 * 391)
    assert half.pace == full.pace == 1
    assert METHODS[method].treat(half).base == replace_length(METHODS[method].treat(full).base, 80)
    assert type(METHODS[method].treat(Plan(1, images=300, batch=128)).estimator) is type(
        METHODS[method].treat(full).estimator
    )


# The rate of the latents, the power of the pace that it is multiplied by, and the rate of what stays real.
RATES = {
    "full-precision": (0.1, 0, None),
    "binaryconnect": (1e-3, 0.5, 1e-3),
    "straight-through": (1e-3, 1, 0.1),
    "adaste": (0.1, 0, 0.1),
    "adaste-annealed": (0.1, 0, 0.1),
    "adaste-printed": (5000.0, -1, 0.1),
    "adaste-printed-annealed": (5000.0, -1, 0.1),
    "proxquant": (0.01, 1, 1e-3),
    "pmf": (1e-3, 0.5, 1e-3),
    "md-tanh-s": (1e-3, 0.5, 1e-3),
    "md-softmax-s": (1e-3, 0.5, 1e-3),
    "md-tanh": (1e-3, 0.5, 1e-3),
    "md-softmax": (1e-3, 0.5, 1e-3),
    "bayesbinn": (3e-4, 1, 0.1),
    "bop": (1e-3, 1, 0.1),
}


@pytest.mark.parametrize(
    ("epochs", "images", "pace"),
    [(160, 50_000, 1), (30, 50_000, 1), (10, 50_000, 3), (1, 50_000, 30), (118, 128, 99), (1, 128, 100)],
)
def test_averages_and_adam_move_faster_in_runs_of_few_steps(epochs: int, images: int, pace: int) -> None:
    plan = Plan(epochs, images, batch=128)
    assert plan.pace == pace
    for method in METHODS:
        made, (rate, power, rest) = METHODS[method].treat(plan), RATES[method]
        assert first_rate(made.base.lr) == pytest.approx(rate * pace**power), method
        assert (rest is None and made.rest_lr is None) or first_rate(made.rest_lr) == rest, method
    for method in ("adaste-printed", "adaste-printed-annealed"):
        assert 1 - METHODS[method].treat(plan).averaging == pytest.approx(3e-4 * pace)
    for method in ("adaste", "adaste-annealed"):
        made = METHODS[method].treat(plan)
        assert made.base.weight_decay == pytest.approx(3e-4 * pace)
        assert 1 / made.estimator.unit == pytest.approx(7.5e7 * pace)


@pytest.mark.parametrize(
    ("method", "start", "stop", "length"),
    [
        ("adaste-annealed", 0.01, 100.0, 189),
        ("adaste-printed-annealed", 1.0, 100.0, 700),
        ("pmf", 1.0, 1e4, 700),
        *((f"md-{mirror}", 1.0, 2e4, 700) for mirror in ("tanh", "softmax", "tanh-s", "softmax-s")),
    ],
)
def test_annealed_methods_go_from_soft_to_hard(method: str, start: float, stop: float, length: int) -> None:
    estimator = recipe(f"cifar10-resnet18-{method}", epochs=700).estimator
    annealed = estimator.mu if isinstance(estimator, adaste.AdaSTE) else estimator.beta
    assert annealed == Geometric(start=start, stop=stop, length=length)


def test_methods_that_are_not_annealed_have_the_published_numbers() -> None:
    made = {method: recipe(f"cifar10-resnet18-{method}").estimator for method in METHODS}
    assert made["adaste"].mu == made["adaste-printed"].mu == 100.0
    assert made["straight-through"] == adaste.StraightThrough(decay=1.0, start=1e-7)
    assert made["pmf"].released
    assert made["bop"] == adaste.Bop(threshold=1e-8)
    assert made["bayesbinn"] == adaste.BayesBiNN(train_size=500_000)
    full = recipe("cifar10-resnet18-full-precision").base
    assert (full.momentum, full.weight_decay) == (0.9, 5e-4)


@pytest.mark.parametrize(("name", "mirror"), [("tanh", adaste.TanhMirror()), ("softmax", adaste.SoftmaxMirror())])
def test_the_unstable_mirror_descent_rounds_as_published_and_the_stable_one_does_not(name: str, mirror: object) -> None:
    for ending, stable in (("-s", True), ("", False)):
        estimator = recipe(f"cifar10-resnet18-md-{name}{ending}").estimator
        assert (estimator.mirror, estimator.stable) == (mirror, stable)
        assert estimator.absorbing is estimator.single_precision is not stable


def test_the_pull_of_proxquant_adds_up_to_the_published_one() -> None:
    made = recipe("imagenette-resnet18-proxquant", epochs=4).in_steps(74)
    assert sum(made.estimator.strength.at(step) for step in range(4 * 74)) == pytest.approx(7.8, rel=0.01)


def test_adaste_is_the_released_update_in_units_of_order_one() -> None:
    made = recipe("cifar10-resnet18-adaste")
    assert 1 / made.estimator.unit == pytest.approx(7.5e7)
    assert made.estimator.start == pytest.approx(1.33e-7, rel=0.01)
    assert (made.base.lr.at(0), made.base.momentum, made.base.weight_decay) == (0.1, 0.9, 3e-4)


def test_the_released_update_and_the_recipe_flip_the_same_bits() -> None:
    """The update of the released code, written out, against the recipe's optimizer on the same gradients."""
    made = recipe("cifar10-resnet18-adaste", epochs=50)  # its schedules at one step per epoch
    weight = nn.Parameter(torch.randn(400, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    latent, velocity = 10 * adaste.sign(weight.detach()), torch.zeros(400, dtype=torch.float64)
    optimizer = adaste.LatentOptimizer([weight], base=made.base.make(), estimator=made.estimator)
    for step in range(50):
        noise = torch.randn(400, dtype=torch.float64, generator=torch.Generator().manual_seed(step + 1))
        grad = 1e-3 * noise  # about a third of them beyond the gate
        optimizer.param_groups[0]["lr"] = made.base.lr.at(step)
        weight.grad = grad.clone()
        optimizer.step()
        size = latent.abs()
        gated = (grad.abs() > 1e-3) & (size > 1e-3)
        factor = torch.where(gated, torch.where(latent * grad > 0, (1 / size).clamp(max=0.5), 0.0), 1.0)
        velocity = 0.9 * velocity + 0.1 * ((10 * 50_000) ** 2 * factor * grad + latent)
        latent = latent - 3e-4 * (made.base.lr.at(step) / 0.1) * velocity
        assert torch.equal(weight.detach(), adaste.sign(latent))


def test_the_default_length_is_that_of_the_data() -> None:
    lengths = {
        name: recipe(f"{name}-{next(iter(setting.networks))}-adaste").epochs for name, setting in SETTINGS.items()
    }
    assert lengths == {
        "cifar10": 160,
        "cifar100": 160,
        "tiny-imagenet": 60,
        "imagenette": 60,
        "mnist": 20,
        "fashion-mnist": 20,
        "digits": 20,
    }


def test_a_seed_reaches_the_recipe_and_its_random_weights() -> None:
    made = recipe("digits-mlp-bayesbinn", seed=3)
    assert (made.seed, made.estimator.noise.seed) == (3, 3)
    assert made.with_seed(0) == recipe("digits-mlp-bayesbinn")


@pytest.mark.parametrize("name", [f"{data}-{network}" for data, network in BEST])
@pytest.mark.parametrize("epochs", [None, 3])
def test_a_best_recipe_names_its_teacher_for_the_same_images(name: str, epochs: int | None) -> None:
    best, teacher = recipe(f"{name}-best", epochs=epochs), recipe(f"{name}-teacher", epochs=epochs)
    assert best.distillation is not None and best.distillation.teacher == teacher.digest
    assert not teacher.estimator.binary and best.estimator.binary
    assert (best.data, best.network, best.augmentation) == (teacher.data, teacher.network, teacher.augmentation)
    assert (best.holdout, best.include, best.exclude) == (0, (), ())


def test_a_best_recipe_and_its_teacher_are_the_common_one_but_for_what_is_said() -> None:
    for name, method in (("best", "adaste"), ("teacher", "full-precision")):
        made, common = (recipe(f"cifar100-vgg16-{each}", epochs=30) for each in (name, method))
        told = ("augmentation", "distillation", "evaluate_every")
        assert dataclasses.replace(made, **{field: getattr(common, field) for field in told}) == common


@pytest.mark.parametrize("epochs", [1, 2, 5, 60])
def test_the_rates_of_a_fast_run_have_the_same_sum_for_any_length(epochs: int) -> None:
    made = recipe("cifar10-resnet18-fast", epochs=epochs)
    steps = 50_000 // made.batch
    rate = made.base.lr.stretched(steps)
    assert sum(rate.at(step) for step in range(epochs * steps)) == pytest.approx(4.1, rel=0.06)
    assert made.evaluate_every == epochs


def test_presets_have_their_own_name_and_one_line_that_tells_them_apart() -> None:
    assert all(preset.name == name for name, preset in RECIPES.items())
    descriptions = [preset.description for preset in RECIPES.values()]
    assert len(set(descriptions)) == len(descriptions)
    assert not any("\n" in description for description in descriptions)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar10-resnet18-adaset", "no recipe 'cifar10-resnet18-adaset'; near it: cifar10-resnet18-adaste"),
        ("cifar-10-vgg-16-bop", "near it: cifar10-vgg16-bop"),
        ("zzz", "Names are <data>-<network>-<method>: data cifar10, cifar100"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe(name)


def test_a_run_without_epochs_is_refused() -> None:
    with pytest.raises(ValueError, match="epochs must be a whole number of at least 1"):
        recipe("digits-mlp-adaste", epochs=0)
