"""All families: their recipes are valid, keep their digests, and are found again."""

import dataclasses
import math
from collections.abc import Iterator
from itertools import groupby

import pytest

from adaste.estimators.schedules import schedules_in
from adaste.paper.families import SETUPS, setup
from adaste.paper.figures import FIGURES
from adaste.paper.tables import FAMILIES, TABLES, CellId, cell_ids_of, family
from adaste.recipes.presets import SETTINGS, recipe
from adaste.recipes.recipe import Recipe
from support.paper_runs import a_recipe

pytestmark = pytest.mark.slow

LENGTHS = (1, 2, 3, 60, 500)
METHODS = {method for made_by in FAMILIES.values() for method in made_by.makers}
every_family = pytest.mark.parametrize("name", FAMILIES)

# Committed runs find their cells by these. Where one changes, the runs made before are lost: rather leave the recipe.
DIGESTS = {
    ("paper", "adaste", "cifar10-resnet18", 500, 0): "b514df74e0f3c503",
    ("paper", "adaste-annealed-mixup", "imagenette-resnet18", 500, 0): "625e068361c8a15f",
    ("paper", "bayesbinn", "cifar10-vgg16", 500, 0): "f7c3d0f1dc65fcad",
    ("released", "full-precision", "cifar100-resnet18", 500, 0): "f8b1b39a99286d46",
    ("released", "binaryconnect", "cifar10-vgg16", 500, 1): "ec7ec8422b9f6d94",
    ("released", "proxquant", "cifar10-resnet18", 500, 0): "2311c0182b6dc52d",
    ("released", "pmf", "cifar10-resnet18", 500, 0): "8cf3098ed6fe007f",
    ("released", "pmf-md-bnn", "cifar10-resnet18", 500, 0): "db11dbd6856f298c",
    ("released", "pmf-md-bnn", "cifar10-resnet18", 60, 0): "41075fe8410757a5",
    ("ours", "pmf", "cifar10-resnet18", 60, 0): "553820655ef4fd64",
    ("released", "md-softmax", "cifar100-vgg16", 500, 0): "ee1fb7808e6e53c1",
    ("released", "md-tanh-s", "tiny-imagenet-resnet18", 500, 0): "bd28b3a0e36b1a75",
    ("released", "bayesbinn", "cifar100-vgg16", 500, 2): "9be583000094f556",
    ("released", "adaste", "cifar10-resnet18", 500, 0): "c7ca01d945fc84f5",
    ("released", "adaste-annealed", "cifar10-resnet18", 60, 0): "d25e374e8152fac1",
    ("ours", "adaste", "cifar10-resnet18", 160, 0): "da37fcf9d2909637",
    ("ours", "md-tanh-s", "cifar100-resnet18", 160, 0): "0ea051d6a21f3707",
    ("ablation", "averaged-0.999-annealed", "cifar10-resnet18", 60, 0): "cb05a4bffdcc1627",
    ("ablation", "released-gate-everywhere", "cifar10-resnet18", 60, 0): "4ebe8ae91487c816",
}


def recipes(epochs: int, seed: int = 0) -> Iterator[tuple[CellId, Recipe]]:
    for name, made_by in FAMILIES.items():
        for method in made_by.makers:
            for where in SETUPS.values():
                made = made_by.recipe(method, where, epochs, seed)
                if made is not None:
                    yield CellId(name, method, where.name), made


@pytest.mark.parametrize("epochs", LENGTHS)
def test_what_a_family_has_does_not_depend_on_the_length(epochs: int) -> None:
    has = {
        CellId(name, method, where.name)
        for name, made_by in FAMILIES.items()
        for method in METHODS
        for where in SETUPS.values()
        if made_by.has(method, where)
    }
    assert has == {cell_id for cell_id, _ in recipes(epochs)}


@pytest.mark.parametrize("epochs", LENGTHS)
def test_every_recipe_is_valid_for_short_and_long_runs(epochs: int) -> None:
    for cell_id, made in recipes(epochs, seed=4):
        assert (made.epochs, made.seed, made.data) == (epochs, 4, SETUPS[cell_id.setup].data), cell_id
        # No schedule begins after the run, and none fails on its way.
        for schedule in schedules_in(made.in_steps(steps_per_epoch=2)):
            assert all(math.isfinite(float(schedule.at(step))) for step in range(0, 2 * epochs + 1, epochs))


def test_every_recipe_comes_back_from_json() -> None:
    for cell_id, made in recipes(2):
        assert Recipe.from_json(made.to_json()) == made, cell_id


def test_a_recipe_keeps_its_digest() -> None:
    now = {
        (name, method, where, epochs, seed): a_recipe(name, method, where, epochs=epochs, seed=seed).digest
        for name, method, where, epochs, seed in DIGESTS
    }
    assert now == DIGESTS


@pytest.mark.parametrize(("epochs", "seed"), [(1, 0), (500, 7)])
def test_every_recipe_is_found_at_its_own_length_and_seed(epochs: int, seed: int) -> None:
    for cell_id, made in recipes(epochs, seed):
        assert cell_id in cell_ids_of(made)


def test_two_recipes_share_an_address_only_if_they_are_equal() -> None:
    made = sorted(recipes(60), key=lambda pair: pair[1].digest)
    for _, group in groupby(made, key=lambda pair: pair[1].digest):
        cell_ids, equal = zip(*group, strict=True)
        assert all(other == equal[0] for other in equal)
        assert set(cell_ids) == set(cell_ids_of(equal[0]))


def test_equal_recipes_of_several_families_have_several_addresses() -> None:
    stable = a_recipe("released", "md-tanh-s", "cifar100-vgg16", epochs=60)
    assert cell_ids_of(stable) == (
        CellId("paper", "md-tanh-s", "cifar100-vgg16"),
        CellId("released", "md-tanh-s", "cifar100-vgg16"),
    )
    common = a_recipe("ours", "adaste", "cifar10-resnet18", epochs=60)
    assert cell_ids_of(common) == (
        CellId("ours", "adaste", "cifar10-resnet18"),
        CellId("ablation", "released", "cifar10-resnet18"),
    )


@pytest.mark.parametrize(
    "change",
    [{"batch": 127}, {"holdout": 1}, {"evaluate_every": 2}, {"precision": "float32"}, {"label_smoothing": 0.1}],
    ids=str,
)
def test_a_recipe_that_differs_in_anything_belongs_nowhere(change: dict[str, object]) -> None:
    made = a_recipe("ours", "adaste", "cifar10-resnet18", epochs=60)
    assert cell_ids_of(dataclasses.replace(made, **change)) == ()  # type: ignore[arg-type]


def test_a_recipe_for_another_length_or_other_data_belongs_nowhere() -> None:
    made = a_recipe("released", "adaste-annealed", "cifar10-resnet18", epochs=60)
    assert cell_ids_of(dataclasses.replace(made, epochs=61)) == ()
    assert cell_ids_of(dataclasses.replace(made, data="cifar100")) == ()
    assert cell_ids_of(dataclasses.replace(made, data="something")) == ()
    assert cell_ids_of(recipe("digits-mlp-adaste")) == ()


def test_a_seed_that_an_estimator_draws_with_must_be_that_of_the_run() -> None:
    made = a_recipe("released", "bayesbinn", "cifar10-resnet18", epochs=60, seed=5)
    assert CellId("released", "bayesbinn", "cifar10-resnet18") in cell_ids_of(made)
    assert cell_ids_of(dataclasses.replace(made, seed=6)) == ()


def test_named_recipes_train_as_the_family_ours_and_always_re_estimate_statistics() -> None:
    for cell_id, made in recipes(60):
        if cell_id.family == "ours" and not cell_id.method.endswith("-mixup"):
            assert dataclasses.replace(made, norm_always=True) == recipe(f"{cell_id.setup}-{cell_id.method}", epochs=60)


def test_recipes_of_families_say_what_they_said_before_recipes_could_always_re_estimate_statistics() -> None:
    for _, made in recipes(60):
        assert not made.norm_always
        assert "norm_always" not in made.to_json()


@every_family
def test_a_family_has_its_usual_length_and_says_what_it_is(name: str) -> None:
    made_by = FAMILIES[name]
    made = made_by.recipe(next(iter(made_by.makers)), SETUPS["cifar10-resnet18"])
    assert made is not None and made.epochs == made_by.epochs
    assert made_by.name == name and made_by.about.endswith(".")


def test_every_row_of_every_table_can_be_filled_by_a_family_of_its_own() -> None:
    for table in TABLES.values():
        for row in table.rows:
            for where in table.setups:
                assert any(made_by.recipe(row.method, where, 3) for made_by in table.families), (row.title, where.name)


def test_every_curve_of_a_figure_has_a_recipe_and_those_of_the_paper_one_as_printed() -> None:
    assert list(FIGURES) == ["figure3", "figure4", "figure5", "figure6", "figure7", "long-runs"]
    for figure in FIGURES.values():
        families = ("paper", "released", "ours") if figure.name.startswith("figure") else ("released", "ours")
        for panel in figure.panels:
            assert panel.quantity in ("test_accuracy", "loss")
            for method in panel.methods:
                for name in families:
                    assert FAMILIES[name].recipe(method, panel.setup, figure.epochs) is not None


def test_a_family_has_no_recipe_where_its_source_has_none() -> None:
    assert FAMILIES["released"].recipe("md-tanh-s", SETUPS["imagenette-resnet18"], 3) is None
    assert FAMILIES["released"].recipe("pmf", SETUPS["imagenette-resnet18"], 3) is None
    assert FAMILIES["paper"].recipe("pmf", SETUPS["cifar10-resnet18"], 3) is None
    assert FAMILIES["paper"].recipe("no such method", SETUPS["cifar10-resnet18"], 3) is None


def test_unknown_names_get_an_error_with_those_near_them() -> None:
    with pytest.raises(ValueError, match=r"no family 'releasd'; near it: released.*families are paper, released"):
        family("releasd")
    with pytest.raises(ValueError, match=r"no setup 'cifar10-resnet'; near it: cifar10-resnet18"):
        setup("cifar10-resnet")
    assert family("ours") is FAMILIES["ours"] and setup("cifar10-vgg16") is SETUPS["cifar10-vgg16"]


def test_places_are_settings_the_library_knows() -> None:
    for where in SETUPS.values():
        assert where.setting is SETTINGS[where.data]
        assert where.network in where.setting.networks.values()
