"""Which runs become the curves of a figure."""

import dataclasses

import pytest

from adaste.paper.families import SETUPS
from adaste.paper.families.released import RELEASED
from adaste.paper.figures import FIGURES, TITLES, Curve, Figure, Panel, curves_of, label, note_on_lengths
from adaste.paper.index import Run
from support.paper_runs import a_recipe, a_run

PANEL = Panel(SETUPS["cifar10-resnet18"], "test_accuracy", ("bayesbinn", "adaste"))
FIGURE = Figure("figure0", "A small one", (PANEL,), epochs=3)


def run_of(method: str, *accuracies: float | None, seed: int = 0) -> Run:
    return a_run(a_recipe("released", method, PANEL.setup.name, epochs=len(accuracies), seed=seed), accuracies)


def curves(*runs: Run, panel: Panel = PANEL) -> list[Curve]:
    return curves_of(FIGURE, panel, RELEASED, runs)


def test_a_curve_is_the_mean_over_seeds_with_its_least_and_most() -> None:
    missing, curve = curves(run_of("adaste", 50.0, 60.0, 90.0), run_of("adaste", 40.0, 70.0, 94.0, seed=1))
    assert curve == Curve(
        "adaste", (1, 2, 3), (45.0, 65.0, 92.0), (40.0, 60.0, 90.0), (50.0, 70.0, 94.0), length=3, count=2
    )
    assert missing == Curve("bayesbinn")


def test_runs_as_long_as_the_figure_come_before_longer_ones() -> None:
    _, curve = curves(run_of("adaste", 1.0, 2.0, 3.0), run_of("adaste", 4.0, 5.0, 6.0, 7.0))
    assert (curve.mean, curve.length) == ((1.0, 2.0, 3.0), 3)


def test_else_the_longest_runs_are_taken_and_of_too_long_ones_the_beginning() -> None:
    _, short = curves(run_of("adaste", 1.0), run_of("adaste", 4.0, 5.0))
    assert (short.mean, short.length) == ((4.0, 5.0), 2)
    _, long = curves(run_of("adaste", 1.0, 2.0), run_of("adaste", 4.0, 5.0, 6.0, 7.0))
    assert (long.epochs, long.mean, long.length) == ((1, 2, 3), (4.0, 5.0, 6.0), 4)


def test_curves_are_of_the_length_all_methods_have_where_there_is_one() -> None:
    short = [run_of("adaste", 1.0, 2.0), run_of("bayesbinn", 3.0, 4.0)]
    longer = run_of("adaste", 5.0, 6.0, 7.0, 8.0)
    assert [curve.length for curve in curves(*short, longer)] == [2, 2]
    assert [curve.length for curve in curves(*short, longer, run_of("bayesbinn", 8.0, 9.0, 9.5, 9.6))] == [4, 4]
    assert [curve.length for curve in curves(short[1], longer)] == [2, 4]


def test_runs_of_the_figures_own_length_are_not_hidden_by_shorter_ones_that_all_methods_have() -> None:
    short = [run_of("adaste", 1.0, 2.0), run_of("bayesbinn", 3.0, 4.0)]
    other, own = found = curves(*short, run_of("adaste", 5.0, 6.0, 7.0))
    assert (own.mean, own.length) == ((5.0, 6.0, 7.0), 3)
    assert (other.mean, other.length) == ((3.0, 4.0), 2)
    assert label(other, found) == "BayesBiNN (2 ep.)"


def test_epochs_without_a_test_have_no_point() -> None:
    _, curve = curves(run_of("adaste", None, 60.0, 90.0), run_of("adaste", None, None, 92.0, seed=1))
    assert (curve.epochs, curve.mean) == ((2, 3), (60.0, 91.0))


def test_what_is_no_finite_number_is_no_point() -> None:
    losses = dataclasses.replace(PANEL, quantity="loss")
    run = run_of("adaste", 40.0, 50.0, 60.0)
    broken = tuple(dataclasses.replace(record, loss=float("nan")) for record in run.records)
    _, curve = curves(dataclasses.replace(run, records=(run.records[0], broken[1], run.records[2])), panel=losses)
    assert curve.epochs == (1, 3)
    assert curves(dataclasses.replace(run, records=broken), panel=losses)[1] == Curve("adaste")


def test_the_quantity_is_the_panels() -> None:
    run = run_of("adaste", 50.0, 60.0, 90.0)
    _, curve = curves(run, panel=dataclasses.replace(PANEL, quantity="loss"))
    assert curve.mean == tuple(record.loss for record in run.records)


def test_a_title_says_what_differs_from_the_paper() -> None:
    own, short, long = (Curve("adaste", length=length, count=1) for length in (3, 2, 5))
    assert note_on_lengths(FIGURE, [own, Curve("bayesbinn")]) == ""
    assert note_on_lengths(FIGURE, [own, short]) == "Some runs of 2 epochs instead of 3"
    assert note_on_lengths(FIGURE, [short, short]) == "Runs of 2 epochs instead of 3"
    assert note_on_lengths(FIGURE, [short, long]) == "Runs of 2 and 5 (first 3) epochs instead of 3"


def test_a_label_tells_seeds_and_where_lengths_differ_also_them() -> None:
    one, three = Curve("adaste", length=3, count=1), Curve("bayesbinn", length=5, count=3)
    assert label(one, [one]) == "AdaSTE, no annealing"
    assert label(one, [one, three]) == "AdaSTE, no annealing (3 ep.)"
    assert label(three, [one, three]) == "BayesBiNN (5 ep., n=3)"
    assert label(Curve("adaste"), [three]) == "AdaSTE, no annealing: missing"


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_every_method_of_a_figure_has_a_title(figure: Figure) -> None:
    assert {method for panel in figure.panels for method in panel.methods} <= set(TITLES)
