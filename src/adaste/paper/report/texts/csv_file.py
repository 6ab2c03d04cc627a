"""The tables as CSV, for other programs: every number, and a line for what has no runs."""

import csv
import io
from collections.abc import Iterator

from adaste.paper.cells import Cell, best_test_accuracy, cells_of
from adaste.paper.collection import Collection, Run
from adaste.paper.custom_recipes import Other, others_of
from adaste.paper.families import Family
from adaste.paper.setups import Place
from adaste.paper.tables import TABLES, Row, Table

COLUMNS = (
    "table",
    "row",
    "mark",
    "method",
    "place",
    "family",
    "epochs",
    "runs",
    "last_mean",
    "last_spread",
    "best_mean",
    "best_spread",
    "paper",
    "paper_spread",
    "last_minus_paper",
    "best_minus_paper",
    "seconds",
    "hardware",
    "seeds",
    "last_of_each",
    "best_of_each",
    "digests",
)
"""Lists inside a field have spaces between their parts, but hardware, which has semicolons."""


def all_csv(collection: Collection) -> str:
    """All tables as CSV, with a line of column names."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, restval="")
    writer.writeheader()
    for table in TABLES.values() if collection.shows_paper else ():
        writer.writerows(_entries(table, collection.runs))
    writer.writerows(_entry(other) for other in others_of(collection.runs))
    return text.getvalue()


def _entries(table: Table, runs: tuple[Run, ...]) -> Iterator[dict[str, str]]:
    """One per row, place, family and length of runs; where a recipe has no run, one with 0 runs."""
    for row in table.rows:
        for place in table.places:
            for family in table.families:
                known = _about(table, row, place, family)
                cells = cells_of(runs, family, row, place)
                yield from ({**known, **_of_cell(cell)} for cell in cells)
                if not cells and family.has(row.method, place):
                    yield {**known, "runs": "0"}


def _entry(other: Other) -> dict[str, str]:
    method = type(other.cell.runs[0].recipe.estimator).__name__
    return {"table": "others", "row": other.title, "method": method, "place": other.setting, **_of_cell(other.cell)}


def _about(table: Table, row: Row, place: Place, family: Family) -> dict[str, str]:
    published = row.published.get(place.name)
    return {
        "table": table.name,
        "row": row.title,
        "mark": row.mark,
        "method": row.method,
        "place": place.name,
        "family": family.name,
        "paper": _number(published.accuracy if published else None),
        "paper_spread": _number(published.spread if published else None),
    }


def _of_cell(cell: Cell) -> dict[str, str]:
    return {
        "epochs": str(cell.epochs),
        "runs": str(cell.count),
        "last_mean": _number(cell.last.mean),
        "last_spread": _number(cell.last.spread),
        "best_mean": _number(cell.best.mean),
        "best_spread": _number(cell.best.spread),
        "last_minus_paper": _number(cell.difference),
        "best_minus_paper": _number(cell.best_difference),
        "seconds": _number(cell.seconds),
        "hardware": "; ".join(cell.hardware),
        "seeds": " ".join(str(run.recipe.seed) for run in cell.runs),
        "last_of_each": " ".join(_number(run.result.last_accuracy) for run in cell.runs),
        "best_of_each": " ".join(_number(best_test_accuracy(run)) for run in cell.runs),
        "digests": " ".join(run.digest for run in cell.runs),
    }


def _number(value: float | None) -> str:
    """Without the last digits, in which sums of rounded numbers differ."""
    return "" if value is None else f"{value:.10g}"
