"""All tables as texts, in every form: what is in no table, recipes of one's own, and their order."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from adaste.paper.index import Collection, Problem, Run
from adaste.paper.report.texts import TEXTS
from support.paper_runs import a_recipe, a_run
from support.report_texts import annealed, entries

pytestmark = pytest.mark.slow

every_form = pytest.mark.parametrize("form", TEXTS)


@every_form
def test_a_text_is_the_same_every_time_and_works_without_runs(form: str) -> None:
    collection = Collection(tuple(annealed(94.0)), ())
    assert TEXTS[form](collection) == TEXTS[form](collection)
    assert TEXTS[form](Collection((), (), paper=True))


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_what_is_in_no_table_is_told(form: str) -> None:
    other = dataclasses.replace(annealed(94.0)[0], cell_ids=())
    problem = Problem(Path("/somewhere/half a run"), "not finished:\n2 of 3 epochs")
    made = dataclasses.replace(other, environments=({"adaste": "0.0.9"},))
    text = TEXTS[form](Collection((made,), (problem,), paper=True))
    assert "1 run of other recipes: in no table of the paper but in one of their own." in text
    assert f"Made by another version: {other.digest} (adaste 0.0.9)." in text
    assert "Left out: half a run (not finished: 2 of 3 epochs)." in text
    assert "/somewhere" not in text


def ones_own(**changes: int) -> Run:
    run = a_run(
        dataclasses.replace(a_recipe("ours", "adaste", "cifar10-resnet18"), **changes), 90.0 + changes.get("seed", 0)
    )
    return dataclasses.replace(run, folder=Path(f"runs/mine-{run.digest}"))


def test_recipes_of_ones_own_have_a_row_each_with_all_their_seeds() -> None:
    runs = (ones_own(batch=100), ones_own(batch=100, seed=2), ones_own(batch=64))
    text = TEXTS["markdown"](Collection(runs, (), paper=True))
    assert "| cifar10 ResNet: mine (batch=100) | 91.00 ± 1.41 (n=2, 3 ep.; best 91.00) |" in text
    assert "| cifar10 ResNet: mine (batch=64) | 90.00 (n=1, 3 ep.; best 90.00) |" in text
    assert text.index("### Other recipes") < text.index("### Table 1")  # which has no runs
    assert r"91.00 $\pm$ 1.41" in TEXTS["latex"](Collection(runs, ()))
    lines = [line for line in entries(TEXTS["csv"](Collection(runs, ()))) if line["table"] == "others"]
    assert [(line["row"], line["method"], line["seeds"]) for line in lines] == [
        ("mine (batch=100)", "AdaSTE", "0 2"),
        ("mine (batch=64)", "AdaSTE", "0"),
    ]


@every_form
def test_of_ones_own_runs_alone_the_papers_tables_are_left_out_unless_they_are_asked_for(form: str) -> None:
    def tables(*runs: Run, paper: bool = False) -> bool:
        return "BayesBiNN" in TEXTS[form](Collection(runs, (), paper=paper))

    assert not tables(ones_own(batch=100))
    assert "91" in TEXTS[form](Collection((ones_own(batch=100, seed=1),), ()))
    assert tables(ones_own(batch=100), paper=True)
    assert tables(ones_own(batch=100), *annealed(94.0))


@every_form
def test_the_number_of_threads_is_told_with_a_cpu_and_not_with_a_gpu(form: str) -> None:
    here = {"processor": "a CPU", "gpu": None}
    starts = ({**here, "threads": 2}, {**here, "threads": 1})
    assert "a CPU, 2 and 1 threads" in told(form, starts)
    assert "a CPU, 1 thread" in told(form, starts[1:]) and "threads" not in told(form, starts[1:])
    assert "thread" not in told(form, (here,)) + told(form, ({**here, "gpu": "NVIDIA H200", "threads": 2},))


def told(form: str, starts: tuple[dict[str, Any], ...]) -> str:
    return TEXTS[form](Collection((dataclasses.replace(ones_own(batch=100), environments=starts),), ()))


@every_form
def test_without_recipes_of_ones_own_nothing_is_said_of_them(form: str) -> None:
    assert "other" not in TEXTS[form](Collection(tuple(annealed(94.0)), ())).lower()


def test_beside_tables_with_runs_other_recipes_come_last() -> None:
    text = TEXTS["markdown"](Collection((ones_own(batch=100), *annealed(94.0)), ()))
    assert text.index("### Table 1") < text.index("### Other recipes")
