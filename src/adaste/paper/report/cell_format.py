"""How a cell is put into words: the same ones in every form of text."""

from collections.abc import Sequence
from dataclasses import dataclass

from adaste.paper.cells import Cell, CustomRecipe, OverSeeds, cells_of, cells_of_one_length
from adaste.paper.families import Family, Setup
from adaste.paper.index import Run
from adaste.paper.tables import Published, Row, Table

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
        rows=tuple((f"{other.setting}: {other.title}", format_cell(other.cell, None)) for other in others),
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
    minutes = [cell.seconds / 60 for cell in cells]
    least, most = f"{min(minutes):.1f}", f"{max(minutes):.1f}"
    length = least if least == most else f"{least} to {most}"
    return f"Made on {', '.join(hardware)}; a run took {length} minutes."
