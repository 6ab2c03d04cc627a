"""All that the page shows, as plain data: a pure function of a collection of runs.

Curves are columns of numbers with four significant digits. Where JSON has no number (NaN, infinity) there is None.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from adaste._util.serial import to_plain
from adaste.paper.cells import Cell, Other, OverSeeds, cells_of, hardware_of, others_of, threads_of
from adaste.paper.families import Family
from adaste.paper.figures import FIGURES, ILLUSTRATIONS, RACE, Figure
from adaste.paper.index import Collection, Problem, Run
from adaste.paper.mathematics.illustrations import PANELS
from adaste.paper.report.cell_format import heading, titled_name
from adaste.paper.setups import SETUPS
from adaste.paper.tables import FAMILIES, TABLES, Row, Table
from adaste.recipes.methods import METHODS
from adaste.runs.folder import best_tested

CURVES = ("test_accuracy", "train_accuracy", "holdout_accuracy", "loss", "test_loss", "flipped", "latent", "lr")
"""Fields of records that are drawn over epochs."""

Plain = dict[str, Any]


def contents(collection: Collection, root: Path) -> Plain:
    """The page's data; folders are told as seen from `root`, which holds the runs."""
    runs = collection.runs
    return {
        "paper": collection.shows_paper,
        "places": [{"name": setup.name, "title": setup.title} for setup in SETUPS.values()],
        "families": [_family(family) for family in FAMILIES.values()],
        "tables": [_table(table, runs) for table in TABLES.values()],
        "others": [_other(other) for other in others_of(runs)],
        "figures": [_figure(figure) for figure in FIGURES.values()],
        "runs": [_run(run, root) for run in runs],
        "problems": [_problem(problem, root) for problem in collection.problems],
        "foreign": {_seen_from(root, folder): version for folder, version in collection.foreign.items()},
        "functions": functions(),
        "hardware": dict(Counter(hardware_of(run) for run in runs).most_common()),
    }


def functions() -> list[Plain]:
    """The figures of the paper that show functions; their texts are in page.html."""
    return [
        {"name": name, "heading": titled_name(name), "panels": PANELS[subject]()}
        for name, subject in ILLUSTRATIONS.items()
    ]


def _family(family: Family) -> Plain:
    return {"name": family.name, "about": family.about, "methods": _methods(family)}


def _methods(family: Family) -> list[Plain]:
    """Each with a slot, which decides on its colour: the same one in all families that share a table."""
    tables = [table for table in TABLES.values() if family in table.families]
    known = [method for table in tables for other in table.families for method in other.makers]
    slots = list(dict.fromkeys([*(method for method in RACE if method in known), *known]))
    titles = {row.method: row.title for table in reversed(tables) for row in table.rows}
    return [
        {"name": name, "title": titles.get(name) or METHODS[name].title, "slot": slots.index(name)}
        for name in sorted(family.makers, key=slots.index)
    ]


def _table(table: Table, runs: Sequence[Run]) -> Plain:
    return {
        "name": table.name,
        "heading": heading(table),
        "title": table.title,
        "places": [setup.name for setup in table.setups],
        "families": [family.name for family in table.families],
        "notes": dict(table.notes),
        "rows": [_row(row, table, runs) for row in table.rows],
    }


def _row(row: Row, table: Table, runs: Sequence[Run]) -> Plain:
    return {
        "title": row.title,
        "method": row.method,
        "mark": row.mark,
        "published": {setup: [number.accuracy, number.spread] for setup, number in row.published.items()},
        "cells": {family.name: _cells(row, table, family, runs) for family in table.families},
    }


def _cells(row: Row, table: Table, family: Family, runs: Sequence[Run]) -> Plain:
    """By setup: cells, the longest runs first; none where runs are missing; None where the family has no recipe."""
    return {
        setup.name: [_cell(cell) for cell in cells_of(runs, family, row, setup)]
        if family.has(row.method, setup)
        else None
        for setup in table.setups
    }


def _cell(cell: Cell) -> Plain:
    return {
        "epochs": cell.epochs,
        "versions": list(cell.versions),
        "runs": [run.digest for run in cell.runs],
        "last": _summary(cell.last, cell.difference),
        "best": _summary(cell.best, cell.best_difference),
        "seconds": short(cell.seconds),
        "hardware": list(cell.hardware),
    }


def _summary(summary: OverSeeds, difference: float | None) -> Plain:
    parts = {"mean": summary.mean, "spread": summary.spread, "difference": difference}
    return {name: None if value is None else finite(round(value, 4)) for name, value in parts.items()}


def _other(other: Other) -> Plain:
    return {"title": other.title, "setting": other.setting, "cell": _cell(other.cell)}


def _figure(figure: Figure) -> Plain:
    return {
        "name": figure.name,
        "heading": titled_name(figure.name),
        "title": figure.title,
        "epochs": figure.epochs,
        "quantity": figure.panels[0].quantity,
        "methods": list(figure.panels[0].methods),
        "places": [panel.setup.name for panel in figure.panels],
    }


def _run(run: Run, root: Path) -> Plain:
    best = best_tested(run.records)
    assert best is not None  # the last epoch is always tested
    return {
        "digest": run.digest,
        "folder": _seen_from(root, run.folder),
        "addresses": [list(cell_id) for cell_id in run.cell_ids],
        "epochs": run.recipe.epochs,
        "seed": run.recipe.seed,
        "last": finite(run.result.last_accuracy),
        "best": finite(best.test_accuracy),
        "best_epoch": best.epoch,
        "seconds": finite(run.result.seconds),
        "hardware": hardware_of(run),
        "threads": threads_of(run),
        "result": finite(vars(run.result)),
        "recipe": finite(to_plain(run.recipe)),
        "environments": finite(list(run.environments)),
        "curves": _curves(run),
        "latents": {"reach": finite(run.histogram.reach), "counts": run.histogram.counts} if run.histogram else None,
    }


def _curves(run: Run) -> Plain:
    """By field; those that hold no number are left out."""
    columns = {name: [short(getattr(record, name)) for record in run.records] for name in CURVES}
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def short(value: float | None) -> float | None:
    """Four significant digits: more than a screen can show, and exact for accuracies on up to 10,000 images."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def finite(value: Any) -> Any:
    """Plain data with None in place of every number that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(name): finite(part) for name, part in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _problem(problem: Problem, root: Path) -> Plain:
    return {"folder": _seen_from(root, problem.folder), "reason": problem.reason}


def _seen_from(root: Path, folder: Path) -> str:
    return folder.relative_to(root).as_posix()
