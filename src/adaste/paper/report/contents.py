"""All that the page shows, as plain data: a pure function of a collection of runs.

Curves are columns of numbers with four significant digits. Where JSON has no number (NaN, infinity) there is None.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from adaste._util.serial import to_plain
from adaste.paper.cells import (
    Cell,
    CustomRecipe,
    OverSeeds,
    Unseeded,
    cells_of,
    common_length,
    custom_recipes_of,
    hardware_of,
    threads_of,
)
from adaste.paper.families import SETUPS, Family
from adaste.paper.figures import (
    FIGURES,
    ILLUSTRATIONS,
    RACE,
    Figure,
    curves_of,
    note_on_panel,
    series_of,
    shared_length,
)
from adaste.paper.index import Collection, Problem, Run
from adaste.paper.mathematics.illustrations import PANELS
from adaste.paper.report.texts import display_name, format_heading
from adaste.paper.tables import FAMILIES, TABLES, Row, Table
from adaste.recipes.methods import METHODS
from adaste.training.records import best_tested

QUANTITIES = MappingProxyType(
    {
        "test_accuracy": ("Test accuracy", "test accuracy, %"),
        "train_accuracy": ("Training accuracy", "training accuracy, %"),
        "loss": ("Training loss", "training loss"),
        "test_loss": ("Test loss", "test loss"),
        "flipped": ("Flips per epoch", "weights that flipped, %"),
    }
)
"""Fields of records that the curves of a family can show, each with its title and the name of its axis."""

CURVES = (*QUANTITIES, "holdout_accuracy", "latent", "lr")
"""Fields of records that are drawn over epochs."""

Plain = dict[str, Any]


def contents(collection: Collection, root: Path) -> Plain:
    """Return the page's data; folders are relative to `root`, which holds the runs."""
    runs = collection.runs
    return {
        "paper": collection.shows_paper,
        "quantities": [{"name": name, "title": title, "axis": axis} for name, (title, axis) in QUANTITIES.items()],
        "setups": [{"name": setup.name, "title": setup.title} for setup in SETUPS.values()],
        "families": [_family(family, runs) for family in FAMILIES.values()],
        "tables": [_table(table, runs) for table in TABLES.values()],
        "others": [_other(other) for other in custom_recipes_of(runs)],
        "figures": [_figure(figure, runs) for figure in FIGURES.values()],
        "recipes": _recipes(runs),
        "runs": [_run(run, root) for run in runs],
        "problems": [_problem(problem, root) for problem in collection.problems],
        "foreign": {_seen_from(root, folder): version for folder, version in collection.foreign.items()},
        "functions": functions(),
        "hardware": dict(Counter(hardware_of(run) for run in runs).most_common()),
    }


def functions() -> list[Plain]:
    """Return the figures of the paper that show functions; their texts are in page.html."""
    return [
        {"name": name, "heading": display_name(name), "panels": PANELS[subject]()}
        for name, subject in ILLUSTRATIONS.items()
    ]


def _family(family: Family, runs: Sequence[Run]) -> Plain:
    return {
        "name": family.name,
        "about": family.about,
        "methods": _methods(family),
        "runs": sum(any(cell_id.family == family.name for cell_id in run.cell_ids) for run in runs),
    }


def _methods(family: Family) -> list[Plain]:
    """Return the methods with their slots, which decide on colours: the same in all families that share a table."""
    tables = [table for table in TABLES.values() if family in table.families]
    known = [method for table in tables for other in table.families for method in other.makers]
    slots = list(dict.fromkeys([*(method for method in RACE if method in known), *known]))
    return [
        {"name": name, "title": _title(family, name), "slot": slots.index(name)}
        for name in sorted(family.makers, key=slots.index)
    ]


def _title(family: Family, method: str) -> str:
    """Return what a table with the family calls the method: two are named `straight-through`."""
    rows = [row for table in TABLES.values() if family in table.families for row in table.rows]
    return next((row.title for row in rows if row.method == method), None) or METHODS[method].title


def _table(table: Table, runs: Sequence[Run]) -> Plain:
    return {
        "name": table.name,
        "heading": format_heading(table),
        "title": table.title,
        "setups": [setup.name for setup in table.setups],
        "families": [family.name for family in table.families],
        "length": _usual_length(table, runs),
        "notes": dict(table.notes),
        "rows": [_row(row, table, runs) for row in table.rows],
    }


def _usual_length(table: Table, runs: Sequence[Run]) -> int | None:
    """Return the length that all cells show at first; None for the longest of each, as beside published numbers."""
    if any(row.published for row in table.rows):
        return None
    every = [
        [cell for family in table.families for setup in table.setups for cell in cells_of(runs, family, row, setup)]
        for row in table.rows
    ]
    return common_length(every) or None


def _row(row: Row, table: Table, runs: Sequence[Run]) -> Plain:
    return {
        "title": row.title,
        "method": row.method,
        "mark": row.mark,
        "published": {setup: [number.accuracy, number.spread] for setup, number in row.published.items()},
        "cells": {family.name: _cells(row, table, family, runs) for family in table.families},
    }


def _cells(row: Row, table: Table, family: Family, runs: Sequence[Run]) -> Plain:
    """Return the cells by setup, the longest runs first: [] if runs are missing, None if the family has no recipe."""
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
        "runs": [run.key for run in cell.runs],
        "last": _summary(cell.last, cell.difference),
        "best": _summary(cell.best, cell.best_difference),
        "seconds": short(cell.seconds),
        "hardware": list(cell.hardware),
    }


def _summary(summary: OverSeeds, difference: float | None) -> Plain:
    parts = {"mean": summary.mean, "spread": summary.spread, "difference": difference}
    return {name: None if value is None else finite(round(value, 4)) for name, value in parts.items()}


def _other(other: CustomRecipe) -> Plain:
    return {"title": other.title, "setting": other.setup, "cell": _cell(other.cell)}


def _figure(figure: Figure, runs: Sequence[Run]) -> Plain:
    """Return a figure with the length of its curves in every family and setup, and the notes below its panels."""
    return {
        "name": figure.name,
        "heading": display_name(figure.name),
        "title": figure.title,
        "epochs": figure.epochs,
        "quantity": figure.panels[0].quantity,
        "methods": list(figure.panels[0].methods),
        "setups": [panel.setup.name for panel in figure.panels],
        "lengths": {
            family.name: {name: shared_length(figure, family, setup, runs) or None for name, setup in SETUPS.items()}
            for family in FAMILIES.values()
        },
        "notes": {
            family.name: {
                panel.setup.name: note_on_panel(figure, family, curves_of(figure, panel, family, runs))
                for panel in figure.panels
            }
            for family in FAMILIES.values()
        },
    }


def _recipes(runs: Iterable[Run]) -> list[Plain]:
    """Return the recipes of all runs, the longest first, with cells and runs; those with several seeds have curves."""
    groups: dict[Unseeded, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (-run.recipe.epochs, run.recipe.seed)):
        groups.setdefault(run.unseeded, []).append(run)
    return [
        {
            "epochs": recipe.epochs,
            "cells": [list(cell_id) for cell_id in group[0].cell_ids],
            "runs": [run.key for run in group],
            **({"curves": _means(group)} if len(group) > 1 else {}),
        }
        for (recipe, _), group in groups.items()
    ]


def _means(runs: Sequence[Run]) -> Plain:
    series = {name: series_of(runs, name) for name in QUANTITIES}
    return {
        name: {
            "mean": _column(name, found.mean),
            "low": _column(name, found.least),
            "high": _column(name, found.most),
            "count": found.count,
        }
        for name, found in series.items()
        if found
    }


def _run(run: Run, root: Path) -> Plain:
    best = best_tested(run.records)
    assert best is not None  # the last epoch is always tested
    return {
        "key": run.key,
        "digest": run.digest,
        "folder": _seen_from(root, run.folder),
        "cells": [list(cell_id) for cell_id in run.cell_ids],
        "title": _title_of(run),
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


def _title_of(run: Run) -> list[str]:
    """Return method and setup of a run's first cell; else its estimator, and its data and network."""
    if run.cell_ids:
        family, method, setup = run.cell_ids[0]
        return [_title(FAMILIES[family], method), SETUPS[setup].title]
    return [type(run.recipe.estimator).__name__, f"{run.recipe.data} {type(run.recipe.network).__name__}"]


def _curves(run: Run) -> Plain:
    """Return the curves of a run by field, without those that hold no number."""
    columns = {name: _column(name, [getattr(record, name) for record in run.records]) for name in CURVES}
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def _column(name: str, values: Iterable[float | None]) -> list[float | None]:
    """Return short numbers; shares of weights that flipped in percent."""
    factor = 100 if name == "flipped" else 1
    return [None if value is None else short(factor * value) for value in values]


def short(value: float | None) -> float | None:
    """Return a number with four digits: more than a screen shows, and exact for accuracies on up to 10,000 images."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def finite(value: Any) -> Any:
    """Return plain data with None in place of every number that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(name): finite(part) for name, part in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _problem(problem: Problem, root: Path) -> Plain:
    return {"folder": _seen_from(root, problem.folder), "reason": problem.reason}


def _seen_from(root: Path, folder: Path) -> str:
    return folder.relative_to(root).as_posix()
