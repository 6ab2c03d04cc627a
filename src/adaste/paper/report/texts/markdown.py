"""The tables in markdown: pure functions of runs."""

from collections.abc import Iterable, Sequence

from adaste.paper.collection import Collection, Run
from adaste.paper.custom_recipes import Other
from adaste.paper.families import Family
from adaste.paper.report.cell_format import ABOUT_OTHERS, LEGEND, OTHERS, Grid, grid, grid_of_others, heading
from adaste.paper.report.texts.footnotes import in_order, remarks
from adaste.paper.tables import TABLES, Table

_MARKDOWN = str.maketrans({**{sign: f"\\{sign}" for sign in r"\`*_[]|"}, "<": "&lt;", ">": "&gt;", "\n": " "})


def markdown(table: Table, runs: Iterable[Run]) -> str:
    """The table in markdown, once per family of recipes."""
    every = tuple(runs)
    lines = [f"### {_plain(heading(table))}", ""]
    for family in table.families:
        lines += [f"**{family.name}**: {_plain(family.about)}", "", *_markdown_grid(grid(table, family, every))]
    lines += [f"{_plain(mark)} {_plain(note)}  " for mark, note in table.notes.items()]
    return "\n".join(lines).rstrip() + "\n"


def grid_of_family(table: Table, family: Family, runs: Iterable[Run]) -> str:
    """One family's part of the table in markdown, for a page that says the rest."""
    return "\n".join(_markdown_grid(grid(table, family, tuple(runs))))


def _markdown_grid(found: Grid) -> list[str]:
    rows = [found.columns, ("---",) * len(found.columns), *found.rows]
    lines = ["| " + " | ".join(text if text == "---" else _plain(text) for text in row) + " |" for row in rows]
    return [*lines, "", _plain(found.remark), ""]


def _plain(text: str) -> str:
    """Text that means itself in markdown."""
    return text.translate(_MARKDOWN)


def all_markdown(collection: Collection) -> str:
    """All tables in markdown, with what was left out."""
    parts = in_order(collection, [markdown(table, collection.runs) for table in TABLES.values()], _markdown_others)
    legend = [_plain(LEGEND) + "\n"] if collection.shows_paper else []
    return "\n".join([*legend, *parts, *(f"{_plain(line)}\n" for line in remarks(collection))])


def _markdown_others(others: Sequence[Other]) -> str:
    return (
        "\n".join([f"### {OTHERS}", "", _plain(ABOUT_OTHERS), "", *_markdown_grid(grid_of_others(others))]).rstrip()
        + "\n"
    )
