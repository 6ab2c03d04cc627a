"""Cells and tables as text: pure functions of runs.

Cells are put into the same words everywhere. Tables are markdown, LaTeX and CSV, with remarks on what they do not show.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

from adaste.paper.cells import (
    Cell,
    CustomRecipe,
    OverSeeds,
    best_test_accuracy,
    cells_of,
    cells_of_one_length,
    custom_recipes_of,
)
from adaste.paper.families import Family, Setup
from adaste.paper.index import Collection, Run
from adaste.paper.tables import TABLES, Published, Row, Table

NO_RECIPE, NO_RUN = "—", "missing"
MINUS = "\N{MINUS SIGN}"

LEGEND = (
    "Test accuracy in percent after the last epoch: mean ± standard deviation over n seeds, of the longest runs, "
    "or of one length for all rows where the paper has no numbers. "
    "best: of each run's best test epoch, which is what the paper reports. paper: its number, and how far ours "
    f"(of the last epoch) is from it. {NO_RUN}: no run. {NO_RECIPE}: the family has no recipe for it."
)


OTHERS = "Other recipes"
ABOUT_OTHERS = (
    "Recipes that no table of the paper has. Test accuracy in percent after the last epoch: mean ± standard deviation "
    "over n seeds. best: of each run's best test epoch."
)


@dataclass(frozen=True)
class Grid:
    """A table for one family of recipes, all in words: a title per row and a text per setup.

    Args:
        remark: The devices of the runs.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remark: str


def format_number(value: float) -> str:
    """Return an accuracy, or its deviation, as text."""
    return f"{value:.2f}"


def format_difference(value: float) -> str:
    """Return a difference as text with its sign, never -0.00."""
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", MINUS)


def format_summary(value: OverSeeds | Published) -> str:
    """Return a mean with its deviation, if there is one."""
    mean = value.mean if isinstance(value, OverSeeds) else value.accuracy
    return format_number(mean) if value.spread is None else f"{format_number(mean)} ± {format_number(value.spread)}"


def format_cell(found: Cell, published: Published | None) -> str:
    """As in `94.21 ± 0.05 (n=3, 500 ep.; best 94.30; paper 94.11, +0.10)`."""
    parts = [f"n={found.count}, {found.epochs} ep.", f"best {format_number(found.best.mean)}"]
    if published is not None and found.difference is not None:
        parts.append(f"paper {format_number(published.accuracy)}, {format_difference(found.difference)}")
    if found.versions:
        parts.append(f"by adaste {', '.join(found.versions)}")
    return f"{format_summary(found.last)} ({'; '.join(parts)})"


def format_missing_cell(family: Family, row: Row, setup: Setup) -> str:
    """Return the text of a cell without runs, with the published number if there is one."""
    word = NO_RUN if family.has(row.method, setup) else NO_RECIPE
    published = row.published.get(setup.name)
    return f"{word} (paper {format_number(published.accuracy)})" if published else word


def format_grid(table: Table, family: Family, runs: Sequence[Run]) -> Grid:
    """Return a table with the runs of one family; without runs it still has the published numbers.

    Beside published numbers the longest runs count. Where rows are compared with each other, all have one length.
    """
    alone = not any(row.published for row in table.rows)
    found: dict[tuple[int, str], Cell] = {}
    for setup in table.setups:
        every = [cells_of(runs, family, row, setup) for row in table.rows]
        chosen = cells_of_one_length(every) if alone else [next(iter(cells), None) for cells in every]
        found |= {(index, setup.name): there for index, there in enumerate(chosen) if there}

    def text(index: int, row: Row, setup: Setup) -> str:
        there = found.get((index, setup.name))
        return format_cell(there, row.published.get(setup.name)) if there else format_missing_cell(family, row, setup)

    return Grid(
        columns=("method", *(setup.title for setup in table.setups)),
        rows=tuple(
            (format_row_title(row), *(text(index, row, setup) for setup in table.setups))
            for index, row in enumerate(table.rows)
        ),
        remark=_made_on(list(found.values())),
    )


def format_custom_recipes(others: Sequence[CustomRecipe]) -> Grid:
    """Return a table of custom recipes, at least one."""
    return Grid(
        columns=("recipe", "accuracy"),
        rows=tuple((f"{other.setup}: {other.title}", format_cell(other.cell, None)) for other in others),
        remark=_made_on([other.cell for other in others]),
    )


def format_row_title(row: Row) -> str:
    """Return a row's title with its mark."""
    return f"{row.title} {row.mark}".strip()


def format_heading(table: Table) -> str:
    """As in "Table 1: Classification accuracy for different methods"."""
    return f"{display_name(table.name)}: {table.title}"


def display_name(name: str) -> str:
    """As in "Table 1" of "table1" and "Long runs" of "long-runs"."""
    kind = name.rstrip("0123456789")
    return f"{kind.replace('-', ' ').capitalize()} {name.removeprefix(kind)}".strip()


def plural(count: int, what: str) -> str:
    """As in "1 run" and "2 runs"."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def _made_on(cells: Sequence[Cell]) -> str:
    if not cells:
        return "No runs."
    hardware = sorted({name for cell in cells for name in cell.hardware})
    seconds = [cell.seconds for cell in cells]
    unit, size = ("minutes", 60) if max(seconds) >= 60 else ("seconds", 1)
    least, most = f"{min(seconds) / size:.1f}", f"{max(seconds) / size:.1f}"
    length = least if least == most else f"{least} to {most}"
    return f"Made on {', '.join(hardware)}; a run took {length} {unit}."


def in_order(collection: Collection, tables: list[str], told: Callable[[Sequence[CustomRecipe]], str]) -> list[str]:
    """Return the paper's tables, if they are shown, and the custom recipes, first if the tables are empty."""
    others = custom_recipes_of(collection.runs)
    own = [told(others)] if others else []
    if not collection.shows_paper:
        return own
    filled = any(run.cell_ids for run in collection.runs)
    return [*tables, *own] if filled else [*own, *tables]


def remarks(collection: Collection) -> Iterator[str]:
    """Yield remarks on runs that the tables leave out or show with a reservation."""
    others = sum(not run.cell_ids for run in collection.runs)
    if others and collection.shows_paper:
        yield f"{plural(others, 'run')} of other recipes: in no table of the paper but in one of their own."
    for folder, version in collection.foreign.items():
        yield f"Made by another version: {folder.name} (adaste {version})."
    for problem in collection.problems:
        yield " ".join(f"Left out: {problem.folder.name} ({problem.reason}).".split())


_MARKDOWN = str.maketrans({**{sign: f"\\{sign}" for sign in r"\`*_[]|"}, "<": "&lt;", ">": "&gt;", "\n": " "})


def markdown(table: Table, runs: Iterable[Run]) -> str:
    """Return the table in markdown, once per family of recipes."""
    every = tuple(runs)
    lines = [f"### {_plain(format_heading(table))}", ""]
    for family in table.families:
        lines += [f"**{family.name}**: {_plain(family.about)}", "", *_markdown_grid(format_grid(table, family, every))]
    lines += [f"{_plain(mark)} {_plain(note)}  " for mark, note in table.notes.items()]
    return "\n".join(lines).rstrip() + "\n"


def grid_of_family(table: Table, family: Family, runs: Iterable[Run]) -> str:
    """Return one family's part of the table in markdown, without headings."""
    return "\n".join(_markdown_grid(format_grid(table, family, tuple(runs))))


def _markdown_grid(found: Grid) -> list[str]:
    rows = [found.columns, ("---",) * len(found.columns), *found.rows]
    lines = ["| " + " | ".join(text if text == "---" else _plain(text) for text in row) + " |" for row in rows]
    return [*lines, "", _plain(found.remark), ""]


def _plain(text: str) -> str:
    """Return the text with markdown's special characters escaped."""
    return text.translate(_MARKDOWN)


def all_markdown(collection: Collection) -> str:
    """Return all tables in markdown, with remarks."""
    parts = in_order(collection, [markdown(table, collection.runs) for table in TABLES.values()], _markdown_others)
    legend = [_plain(LEGEND) + "\n"] if collection.shows_paper else []
    return "\n".join([*legend, *parts, *(f"{_plain(line)}\n" for line in remarks(collection))])


def _markdown_others(others: Sequence[CustomRecipe]) -> str:
    return (
        "\n".join(
            [f"### {OTHERS}", "", _plain(ABOUT_OTHERS), "", *_markdown_grid(format_custom_recipes(others))]
        ).rstrip()
        + "\n"
    )


_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"$<$",
        ">": r"$>$",
        "|": r"$|$",
        "±": r"$\pm$",
        MINUS: r"$-$",
        "—": "---",
        "†": r"$\dagger$",
        "‡": r"$\ddagger$",
        '"': "''",
        "\n": " ",
    }
)

LATEX_HEAD = "% For \\input into any document: no package is needed.\n"

WIDTH, NARROWEST, WIDEST = 0.91, 0.16, 0.40
"""Shares of the text's width: all columns, at least the first, at most each of the others. The rest is space."""


def latex(table: Table, runs: Iterable[Run]) -> str:
    """Return the table in LaTeX, once per family and data set: with all data sets in one it would not fit on a page."""
    every = tuple(runs)
    parts = []
    for family in table.families:
        for data, setups in groupby(table.setups, key=lambda setup: setup.data):
            name = f"{table.name}-{family.name}-{data}"
            part = replace(table, setups=tuple(setups))
            parts.append(_latex_table(format_grid(part, family, every), name, _caption(part, family)))
    return "\n".join(parts)


def _caption(table: Table, family: Family) -> str:
    notes = [f"{mark} {note}." for mark, note in table.notes.items()]
    return " ".join([f"{table.title}. {family.about}", LEGEND, *notes])


def _latex_others(others: Sequence[CustomRecipe]) -> str:
    return _latex_table(format_custom_recipes(others), "others", f"{OTHERS}. {ABOUT_OTHERS}")


def _latex_table(found: Grid, name: str, caption: str) -> str:
    # Lines in narrow columns should not be stretched: \raggedright in each cell, and \tabularnewline to go with it.
    setups = len(found.columns) - 1
    width = min(WIDEST, (WIDTH - NARROWEST) / setups)
    columns = f"p{{{WIDTH - setups * width:.3f}\\textwidth}}" + f"p{{{width:.3f}\\textwidth}}" * setups
    lines = [
        r"\begin{table}[htbp]",
        r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"\hline",
        _latex_row(found.columns),
        r"\hline",
        *(_latex_row(row) for row in found.rows),
        r"\hline",
        r"\end{tabular}",
        rf"\caption{{\scriptsize {_escaped(f'{caption} {found.remark}')}}}",
        rf"\label{{tab:{name}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(texts: Iterable[str]) -> str:
    return " & ".join(rf"\raggedright {_escaped(text)}" for text in texts) + r" \tabularnewline"


def _escaped(text: str) -> str:
    return text.translate(_LATEX)


def all_latex(collection: Collection) -> str:
    """Return all tables in LaTeX, with remarks as comments."""
    parts = in_order(collection, [latex(table, collection.runs) for table in TABLES.values()], _latex_others)
    return "\n".join([LATEX_HEAD, *parts, *(f"% {line}\n" for line in remarks(collection))])


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
"""`place` is the setup. Lists in a field have spaces between their parts, but hardware, which has semicolons."""


def all_csv(collection: Collection) -> str:
    """Return all tables as CSV, with a line of column names."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, restval="")
    writer.writeheader()
    for table in TABLES.values() if collection.shows_paper else ():
        writer.writerows(_entries(table, collection.runs))
    writer.writerows(_entry(other) for other in custom_recipes_of(collection.runs))
    return text.getvalue()


def _entries(table: Table, runs: tuple[Run, ...]) -> Iterator[dict[str, str]]:
    """Yield an entry per row, setup, family and length of run; for a recipe without runs, one with 0 runs."""
    for row in table.rows:
        for setup in table.setups:
            for family in table.families:
                known = _about(table, row, setup, family)
                cells = cells_of(runs, family, row, setup)
                yield from ({**known, **_of_cell(cell)} for cell in cells)
                if not cells and family.has(row.method, setup):
                    yield {**known, "runs": "0"}


def _entry(other: CustomRecipe) -> dict[str, str]:
    method = type(other.cell.runs[0].recipe.estimator).__name__
    return {"table": "others", "row": other.title, "method": method, "place": other.setup, **_of_cell(other.cell)}


def _about(table: Table, row: Row, setup: Setup, family: Family) -> dict[str, str]:
    published = row.published.get(setup.name)
    return {
        "table": table.name,
        "row": row.title,
        "mark": row.mark,
        "method": row.method,
        "place": setup.name,
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
    """Return a number without the last digits, in which sums of rounded numbers differ."""
    return "" if value is None else f"{value:.10g}"


TEXTS: Mapping[str, Callable[[Collection], str]] = MappingProxyType(
    {"markdown": all_markdown, "latex": all_latex, "csv": all_csv}
)
"""All tables as a text, by the name of its form."""
