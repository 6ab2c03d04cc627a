"""What runs say about a cell, by examples worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaste.paper.cells import Cell, OverSeeds, best_test_accuracy, cells_of, cells_of_one_length, hardware_of
from adaste.paper.families import SETUPS
from adaste.paper.index import Run
from adaste.paper.tables import FAMILIES, TABLES, Row
from support.paper_runs import a_recipe, a_run

HERE = "cifar10-resnet18"
ROWS = {(row.method, row.mark): row for row in TABLES["table1"].rows}
ANNEALED = ROWS["adaste-annealed", "*"]


def run_of(accuracies: list[float | None], *, seed: int = 0, family: str = "released", **others: object) -> Run:
    made = a_recipe(family, "adaste-annealed", HERE, epochs=len(accuracies), seed=seed)
    return a_run(made, accuracies, **others)  # type: ignore[arg-type]


def cells(runs: list[Run], row: Row = ANNEALED, family: str = "released", setup: str = HERE) -> list[Cell]:
    return cells_of(runs, FAMILIES[family], row, SETUPS[setup])


def test_mean_spread_best_and_differences_are_those_worked_out_by_hand() -> None:
    runs = [
        run_of([50.0, 94.5, 94.0], seed=2, seconds=100.0),
        run_of([50.0, 94.2, 94.4], seed=0, seconds=200.0),
        run_of([95.1, 94.0, 93.9], seed=1, seconds=600.0),
    ]
    (cell,) = cells(runs)
    assert cell.count == 3 and cell.epochs == 3
    assert [run.recipe.seed for run in cell.runs] == [0, 1, 2]
    assert cell.last.mean == pytest.approx(94.1)  # of 94.4, 93.9, 94.0
    assert cell.last.spread == pytest.approx(0.07**0.5)  # squares 0.09 + 0.04 + 0.01, over n - 1 = 2
    assert cell.best.mean == pytest.approx(94.0 + 2 / 3)  # of 94.4, 95.1, 94.5
    assert cell.best.spread == pytest.approx(0.378594, abs=1e-6)
    assert cell.difference == pytest.approx(94.1 - 94.11)
    assert cell.best_difference == pytest.approx(94.0 + 2 / 3 - 94.11)
    assert cell.seconds == pytest.approx(300.0)
    assert cell.hardware == ("NVIDIA H200",)


def test_one_run_has_no_spread() -> None:
    (cell,) = cells([run_of([90.0, 91.0])])
    assert (cell.last, cell.best) == (OverSeeds(91.0, None), OverSeeds(91.0, None))


def test_runs_of_different_lengths_are_cells_of_their_own_the_longest_first() -> None:
    found = cells([run_of([90.0]), run_of([90.0, 91.0, 92.0]), run_of([90.0, 93.0]), run_of([80.0], seed=1)])
    assert [(cell.epochs, cell.count, cell.last.mean) for cell in found] == [(3, 1, 92.0), (2, 1, 93.0), (1, 2, 85.0)]


def test_cells_of_one_length_are_of_that_which_most_rows_have_or_the_longer() -> None:
    short, both, long = [run_of([90.0])], [run_of([91.0]), run_of([0.0, 92.0])], [run_of([0.0, 93.0])]
    for rows, lasts in (
        ([short, both, short], [90.0, 91.0, 90.0]),
        ([short, both, long, long], [None, 92.0, 93.0, 93.0]),
        ([short, [], long], [None, None, 93.0]),
        ([[], []], [None, None]),
        ([], []),
    ):
        found = cells_of_one_length([cells(runs) for runs in rows])
        assert [cell and cell.last.mean for cell in found] == lasts


def test_a_cell_takes_the_runs_of_its_family_method_and_place_only() -> None:
    run = run_of([90.0, 91.0])
    assert cells([]) == []
    assert len(cells([run])) == 1
    assert cells([run], family="ours") == []
    assert cells([run], row=ROWS["adaste", "*"]) == []
    assert cells([run], setup="cifar100-resnet18") == []


def test_a_run_fills_the_cells_of_every_family_its_recipe_belongs_to() -> None:
    run = a_run(a_recipe("released", "md-tanh-s", HERE), [80.0, 90.0, 91.0])
    for family in ("paper", "released"):
        for mark in ("*", "†"):
            assert len(cells([run], row=ROWS["md-tanh-s", mark], family=family)) == 1


def test_two_rows_of_a_method_differ_from_their_own_published_numbers() -> None:
    run = a_run(a_recipe("released", "md-tanh-s", HERE), [80.0, 90.0, 92.0])
    quoted, rerun = (cells([run], row=ROWS["md-tanh-s", mark])[0] for mark in ("†", "*"))
    assert quoted.difference == pytest.approx(92.0 - 93.18) and rerun.difference == pytest.approx(92.0 - 91.41)


def test_without_a_published_number_there_is_no_difference() -> None:
    run = a_run(a_recipe("released", "binaryconnect", "tiny-imagenet-resnet18"), [10.0, 20.0, 30.0])
    (cell,) = cells([run], row=ROWS["binaryconnect", "*"], setup="tiny-imagenet-resnet18")
    assert cell.difference is None and cell.best_difference is None


def test_the_best_epoch_is_chosen_on_the_test_images_as_in_the_paper() -> None:
    assert best_test_accuracy(run_of([None, 95.0, None, 94.0])) == 95.0


def test_hardware_is_that_of_the_last_start() -> None:
    assert hardware_of(run_of([1.0], gpu="NVIDIA A100")) == "NVIDIA A100"
    assert hardware_of(run_of([1.0], gpu=None)) == "some CPU"
    assert hardware_of(run_of([1.0], gpu=None, processor="")) == "unknown"
    (cell,) = cells([run_of([1.0], gpu="B"), run_of([1.0], gpu="A", seed=1), run_of([1.0], gpu="B", seed=2)])
    assert cell.hardware == ("A", "B")


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10), st.floats(0, 10))
def test_a_summary_shifts_with_its_values_and_lies_among_them(values: list[float], shift: float) -> None:
    here, there = OverSeeds.of(values), OverSeeds.of([value + shift for value in values])
    assert min(values) - 1e-9 <= here.mean <= max(values) + 1e-9
    assert there.mean == pytest.approx(here.mean + shift)
    assert (here.spread is None) == (len(values) == 1)
    if here.spread is not None and there.spread is not None:
        assert there.spread == pytest.approx(here.spread, abs=1e-6)
