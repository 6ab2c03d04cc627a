"""Recipe: one run as one frozen value."""

import dataclasses
import json

import pytest

import adaste
from adaste.data.augment import Crop, Cutout, Flip, Mixup, RandomResizedCrop
from adaste.estimators.schedules import Constant, Cosine, Geometric, Linear, Steps
from adaste.models import MLP, VGG
from adaste.recipes.bases import SGD, Adam
from adaste.recipes.distillation import Distillation
from adaste.recipes.recipe import Recipe

RECIPE = Recipe(
    data="cifar10",
    network=VGG(),
    estimator=adaste.Scaled(adaste.AdaSTE(mu=Geometric(start=1.0, stop=100.0, length=6, delay=2)), adaste.FanIn()),
    base=SGD(lr=Cosine(start=0.1, stop=0.0, length=8), momentum=0.9),
    averaging=Steps(values=(0.9, 0.99), ticks=(3,)),
    rest_lr=Constant(value=0.1),
    include=("*.weight",),
    epochs=8,
    augmentation=(Crop(4), Flip(), Cutout(8), Mixup(0.2)),
)

OTHER = {
    "data": "cifar100",
    "network": MLP(),
    "estimator": adaste.StraightThrough(),
    "base": Adam(lr=1e-3),
    "averaging": 0.5,
    "rest_lr": None,
    "include": ("0.*",),
    "exclude": ("head.*",),
    "epochs": 9,
    "batch": 64,
    "augmentation": (Flip(), Crop(4)),
    "side": Steps(values=(16, 32), ticks=(3,)),
    "label_smoothing": 0.1,
    "distillation": Distillation(teacher="0123456789abcdef"),
    "holdout": 5000,
    "precision": "float32",
    "sync_norm": True,
    "norm_batches": 20,
    "norm_always": True,
    "average_last": 3,
    "evaluate_every": 2,
    "seed": 1,
}


def test_json_brings_the_same_recipe_back() -> None:
    back = Recipe.from_json(RECIPE.to_json())
    assert back == RECIPE
    assert back.digest == RECIPE.digest
    assert isinstance(back.augmentation, tuple)


def test_the_table_of_changes_covers_every_field() -> None:
    assert list(OTHER) == [field.name for field in dataclasses.fields(Recipe)]


@pytest.mark.parametrize("name", OTHER)
def test_every_field_changes_the_digest(name: str) -> None:
    assert dataclasses.replace(RECIPE, **{name: OTHER[name]}).digest != RECIPE.digest


def test_a_recipe_that_does_not_always_re_estimate_statistics_says_nothing_of_it() -> None:
    always = dataclasses.replace(RECIPE, norm_always=True)
    assert "norm_always" not in json.loads(RECIPE.to_json())
    assert json.loads(always.to_json())["norm_always"] is True
    assert Recipe.from_json(always.to_json()) == always


def test_a_setting_deep_inside_changes_the_digest() -> None:
    plain = json.loads(RECIPE.to_json())
    plain["estimator"]["estimator"]["mu"]["delay"] = 3
    assert Recipe.from_json(json.dumps(plain)).digest != RECIPE.digest


def test_a_digest_is_sixteen_hexadecimal_digits_that_do_not_depend_on_how_numbers_are_typed() -> None:
    assert len(RECIPE.digest) == 16
    assert int(RECIPE.digest, 16) >= 0
    typed = [dataclasses.replace(RECIPE, base=SGD(lr=lr)).digest for lr in (1, 1.0)]
    assert typed[0] == typed[1]


def test_in_steps_all_schedules_count_steps_and_nothing_else_changes() -> None:
    steps = RECIPE.in_steps(10)
    mu, lr = Geometric(start=1.0, stop=100.0, length=60, delay=20), Cosine(start=0.1, stop=0.0, length=80)
    assert steps == dataclasses.replace(
        RECIPE,
        estimator=adaste.Scaled(adaste.AdaSTE(mu=mu), adaste.FanIn()),
        base=SGD(lr=lr, momentum=0.9),
        averaging=Steps(values=(0.9, 0.99), ticks=(30,)),
    )
    assert dataclasses.replace(RECIPE, rest_lr=Linear(start=1.0, stop=0.0, length=3)).in_steps(4).rest_lr == Linear(
        start=1.0, stop=0.0, length=12
    )


def test_in_one_step_per_epoch_a_recipe_stays_as_it_is() -> None:
    assert RECIPE.in_steps(1) == RECIPE
    with pytest.raises(ValueError, match="steps_per_epoch must be a whole number of at least 1"):
        RECIPE.in_steps(0)


def test_another_seed_reaches_the_random_numbers_of_the_estimator() -> None:
    drawn = dataclasses.replace(RECIPE, estimator=adaste.Scaled(adaste.BayesBiNN(10.0, noise=adaste.Noise())))
    seeded = drawn.with_seed(5)
    assert seeded.seed == 5
    assert seeded.estimator.estimator.noise.seed == 5
    assert seeded.with_seed(0) == drawn


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": ""}, "data must name a set of images"),
        ({"data": None}, "data must be text"),
        ({"network": "resnet"}, "network must be a Network, got 'resnet'"),
        ({"estimator": None}, "estimator must be an Estimator"),
        ({"base": 0.1}, "base must be a Base"),
        ({"averaging": 1.0}, "averaging must be at least 0 and below 1"),
        ({"averaging": Linear(start=0.5, stop=1.0, length=3)}, "averaging must be at least 0 and below 1"),
        ({"rest_lr": -1.0}, "rest_lr must be at least 0"),
        ({"include": "*.weight"}, "include must be a list, each of it text"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"augmentation": (Mixup(), Crop())}, "crops and flips come first"),
        ({"augmentation": (RandomResizedCrop(8), RandomResizedCrop(8))}, "one RandomResizedCrop is possible"),
        ({"augmentation": [Crop()]}, "augmentation must be a list, each of it a Transform"),
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and below 1"),
        ({"holdout": -1}, "holdout must be a whole number of at least 0"),
        ({"precision": "float16"}, "precision must be one of bfloat16, float32, got 'float16'"),
        ({"sync_norm": 1}, "sync_norm must be true or false"),
        ({"norm_batches": -1}, "norm_batches must be a whole number of at least 0"),
        ({"norm_always": 1}, "norm_always must be true or false"),
        ({"side": Steps(values=(0,), ticks=())}, "every side must be a whole number of pixels, 1 or more, got 0"),
        ({"side": Steps(values=(16, 24.5), ticks=(2,))}, r"every side must be a whole number .*, got 24\.5"),
        ({"side": Steps(values=(16, 32), ticks=(2,), every=5)}, "every must be 1"),
        ({"side": 16}, "side must be a Steps"),
        ({"average_last": -1}, "average_last must be a whole number of at least 0"),
        ({"average_last": 9}, "average_last must be at most epochs, 8, got 9"),
        ({"average_last": 2, "norm_batches": 0}, "average_last makes weights .* norm_batches, .* at least 1, got 0"),
        ({"norm_always": True, "norm_batches": 0}, "norm_always re-estimates .* from norm_batches .* are 0: use at"),
        ({"evaluate_every": 0}, "evaluate_every must be a whole number of at least 1"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"rest_lr": Cosine(start=1.0, stop=0.0, length=3, every=5)}, "every must be 1"),
        (
            {"estimator": adaste.Scaled(adaste.PMF(beta=Geometric(start=1.0, stop=9.0, length=3, every=2)))},
            "every must be 1",
        ),
    ],
)
def test_bad_settings_are_refused_when_made(change, message) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(RECIPE, **change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind": "AdaSTE"}', "must be a Recipe, got an AdaSTE"),
        ("[]", "must be a Recipe"),
        ('{"kind": "Recipe"}', "data is missing"),
        ("{", "Expecting property name"),
    ],
)
def test_json_of_something_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe.from_json(text)


def test_a_recipe_inside_a_recipe_is_refused() -> None:
    plain = json.loads(RECIPE.to_json())
    plain["network"] = json.loads(RECIPE.to_json())
    with pytest.raises(ValueError, match="network must be a Network, got a Recipe"):
        Recipe.from_json(json.dumps(plain))
