"""Runs of recipes that no table has."""

import dataclasses
from pathlib import Path
from typing import Any

from adaste.estimators import AdaSTE, StraightThrough
from adaste.estimators.noise import Noise
from adaste.estimators.schedules import Geometric
from adaste.paper.cells import custom_recipes_of
from adaste.paper.index import Run
from adaste.recipes.recipe import Recipe
from support.paper_runs import a_recipe, a_run

SETUP = "cifar10-resnet18"


def own(recipe: Recipe | None = None, *, folder: str = "mine-{digest}", **changes: Any) -> Run:
    """A run of a recipe that no table has."""
    usual = dataclasses.replace(recipe or a_recipe("ours", "adaste", SETUP), label_smoothing=0.123)
    run = a_run(dataclasses.replace(usual, **changes), 90.0)
    assert not run.cell_ids
    return dataclasses.replace(run, folder=Path("runs") / folder.format(digest=run.digest))


def titles(*runs: Run) -> list[str]:
    return [other.title for other in custom_recipes_of(runs)]


def test_runs_that_differ_in_their_seeds_alone_are_told_together() -> None:
    (other,) = custom_recipes_of([own(seed=1), own(), own(seed=2)])
    assert [run.recipe.seed for run in other.cell.runs] == [0, 1, 2]
    assert (other.title, other.setup) == ("mine", "cifar10 ResNet")


def test_seeds_of_noise_are_seeds_too_where_they_follow_that_of_the_recipe() -> None:
    noisy = StraightThrough(noise=Noise(0))
    following = own(estimator=noisy), own(estimator=StraightThrough(noise=Noise(1)), seed=1)
    assert len(custom_recipes_of(following)) == 1
    assert len(custom_recipes_of([following[0], own(estimator=noisy, seed=1)])) == 2


def test_runs_of_the_tables_are_no_others() -> None:
    assert custom_recipes_of([a_run(a_recipe("ours", "adaste", SETUP), 90.0)]) == []


def test_recipes_of_one_name_are_told_by_what_they_differ_in() -> None:
    assert titles(own(batch=64), own(batch=100)) == ["mine (batch=100)", "mine (batch=64)"]
    assert titles(own(estimator=AdaSTE(mu=50.0)), own(estimator=AdaSTE(mu=20.0))) == [
        "mine (estimator.mu=20)",
        "mine (estimator.mu=50)",
    ]
    annealed = AdaSTE(mu=Geometric(start=1.0, stop=100.0, length=3))
    assert titles(own(estimator=annealed), own(estimator=AdaSTE(mu=20.0))) == [
        "mine (estimator.mu=20)",
        "mine (estimator.mu=Geometric(start=1, stop=100, length=3))",
    ]
    assert titles(own(augmentation=()), own())[1] == "mine (augmentation=[])"


def test_a_recipe_that_has_the_name_of_a_cell_is_told_by_what_differs_from_the_recipe_of_that_cell() -> None:
    name = f"ours-{SETUP}-adaste"
    assert titles(own(folder=f"{name}-{{digest}}")) == [f"{name} (label_smoothing=0.123)"]
    assert titles(own(folder=f"{name}-{{digest}}", batch=64), own(folder=f"{name}-{{digest}}", batch=100)) == [
        f"{name} (batch=100, label_smoothing=0.123)",
        f"{name} (batch=64, label_smoothing=0.123)",
    ]
    assert titles(own(folder=f"ours-{SETUP}-nothing-{{digest}}")) == [f"ours-{SETUP}-nothing"]


def test_recipes_of_two_names_or_lengths_need_no_settings_to_tell_them() -> None:
    assert titles(own(batch=64, folder="one-{digest}"), own(folder="two-{digest}")) == ["one", "two"]
    longer = own(a_recipe("ours", "adaste", SETUP, epochs=6))
    assert [(other.title, other.cell.epochs) for other in custom_recipes_of([own(), longer])] == [
        ("mine", 6),
        ("mine", 3),
    ]


def test_where_every_run_has_a_name_of_its_own_the_method_names_them() -> None:
    assert titles(own(folder="seed 0"), own(folder="seed 1", seed=1)) == ["AdaSTE"]
    assert titles(own(folder="seed 0")) == ["seed 0"]
    assert titles(own(), own(seed=1), own(folder="again", seed=2)) == ["mine"]


def on(images: str, accuracy: float, **changes: Any) -> Run:
    """A run on images of one's own, in a folder of runs of their name."""
    run = own(data="folder", **changes)
    made = a_run(run.recipe, accuracy, data=images)
    return dataclasses.replace(made, folder=run.folder)


def test_runs_on_other_images_of_ones_own_are_not_told_together() -> None:
    seeds = [("0123456789", 90.0, 0), ("0123456789", 92.0, 1), ("abcdefabcd", 70.0, 0), ("abcdefabcd", 72.0, 1)]
    named = [on(images, last, seed=seed, folder=f"{images[0]}-{{digest}}") for images, last, seed in seeds]
    assert [(other.title, other.cell.last.mean) for other in custom_recipes_of(named)] == [("0", 91.0), ("a", 71.0)]
    alike = [on(images, last, seed=seed) for images, last, seed in seeds]
    assert [(other.title, other.cell.last.mean) for other in custom_recipes_of(alike)] == [
        ("mine (images=01234567)", 91.0),
        ("mine (images=abcdefab)", 71.0),
    ]
