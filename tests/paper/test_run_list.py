"""Which runs a table or figure needs."""

import json
from pathlib import Path

import pytest

from adaste.paper.figures import FIGURES
from adaste.paper.run_list import targets, tasks
from adaste.paper.tables import FAMILIES, TABLES, cell_ids_of

pytestmark = pytest.mark.slow

PAPER, RELEASED, OURS, ABLATION = (FAMILIES[name] for name in ("paper", "released", "ours", "ablation"))


def test_a_table_needs_a_run_per_method_and_setting_of_every_family_that_has_a_recipe() -> None:
    wanted = {
        (family.name, row.method, setup.name)
        for family in TABLES["table1"].families
        for row in TABLES["table1"].rows
        for setup in TABLES["table1"].setups
        if family.has(row.method, setup)
    }
    found = {tuple(cell_id) for task in tasks("table1") for cell_id in cell_ids_of(task.recipe)}
    assert wanted <= found


def test_each_recipe_is_run_once_even_if_several_families_have_it() -> None:
    every = tasks("all", epochs=60)
    digests = [task.recipe.digest for task in every]
    assert len(digests) == len(set(digests))
    assert len(tasks("table1", epochs=60, families=[RELEASED], seeds=3)) == 3 * len(
        tasks("table1", epochs=60, families=[RELEASED])
    )


def test_settings_methods_families_seeds_and_length_can_be_chosen() -> None:
    chosen = tasks(
        "table1",
        only=["cifar10-resnet18"],
        methods=["adaste", "pmf"],
        families=[RELEASED],
        seeds=2,
        epochs=160,
    )
    assert [task.name for task in chosen] == 2 * [
        "released-cifar10-resnet18-pmf",
        "released-cifar10-resnet18-adaste",
    ]
    assert [(task.recipe.seed, task.recipe.epochs) for task in chosen] == [(0, 160)] * 2 + [(1, 160)] * 2


def test_the_beginning_of_a_name_chooses_several_settings_and_nothing_that_only_looks_like_it() -> None:
    assert {task.setup.name for task in tasks("table1", only=["cifar10"])} == {"cifar10-vgg16", "cifar10-resnet18"}


def test_a_figure_has_its_own_length_and_the_released_recipes_unless_told_otherwise() -> None:
    for figure in FIGURES.values():
        found = tasks(figure.name)
        assert {task.recipe.epochs for task in found} == {figure.epochs}
        assert all(task.name.startswith("released-") for task in found)
        assert len(found) == sum(len(panel.methods) for panel in figure.panels)
    assert all(task.name.startswith("ours-") for task in tasks("figure3", families=[OURS]))


def test_an_epoch_of_larger_or_more_images_takes_longer() -> None:
    def seconds(target: str, setup: str) -> float:
        (one,) = tasks(target, only=[setup], families=[OURS], methods=["adaste"])
        return one.estimate.seconds

    assert seconds("table2", "imagenette-resnet18") > seconds("table2", "tiny-imagenet-resnet18")
    assert seconds("table2", "tiny-imagenet-resnet18") > seconds("table1", "cifar10-resnet18")
    (released,) = tasks("table1", only=["cifar10-resnet18"], families=[RELEASED], methods=["adaste"])
    assert released.estimate.seconds == pytest.approx(0.9 * seconds("table1", "cifar10-resnet18"))  # 45,000 of 50,000


@pytest.mark.parametrize(
    ("setup", "row"), [("cifar10-resnet18", "four ResNet-18 at once"), ("cifar100-vgg16", "VGG-16")]
)
def test_the_estimate_is_the_recorded_speed(setup: str, row: str) -> None:
    (one,) = tasks("table1", only=[setup], methods=["adaste"], families=[OURS], epochs=60)
    record = json.loads(Path(__file__).parents[2].joinpath("results/benchmarks/training-h200.json").read_text())
    (median,) = (each["epoch_median"] for each in record["rows"] if each["row"] == row)
    assert one.estimate.seconds == pytest.approx(median, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "figur3"}, "nothing named 'figur3' to reproduce; near it: figure3"),
        ({"target": "figure1"}, "figure1 shows a function and needs no runs: it is on every page of `adaste report"),
        (
            {"target": "table1", "families": [PAPER], "methods": ["pmf"], "only": ["cifar10-vgg16"]},
            "nothing to do: paper has no recipe for pmf at cifar10-vgg16",
        ),
        (
            {"target": "table1", "only": ["cifar10-resnet"]},
            "no setup 'cifar10-resnet' here; near it: cifar10-resnet18",
        ),
        ({"target": "table1", "only": ["imagenette-resnet18"]}, "no setup 'imagenette-resnet18' here"),
        ({"target": "table1", "methods": ["adast"]}, "no method 'adast' here; near it: adaste"),
        ({"target": "ablation", "families": [OURS]}, "ablation has no family ours; it has ablation"),
    ],
)
def test_what_does_not_exist_is_refused_with_the_nearest_name(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        tasks(**arguments)


def test_all_is_everything_there_is() -> None:
    assert set(targets()) == {*TABLES, *FIGURES, "all"}
    every = {task.recipe.digest for task in tasks("all")}
    assert all({task.recipe.digest for task in tasks(target)} <= every for target in targets())
    assert {task.recipe.digest for task in tasks("all", families=[ABLATION])} >= {
        task.recipe.digest for task in tasks("ablation")
    }
