"""The tables in LaTeX: pure functions of runs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from adaste.paper.collection import Collection, Run
from adaste.paper.custom_recipes import Other
from adaste.paper.families import Family
from adaste.paper.report.cell_format import ABOUT_OTHERS, LEGEND, MINUS, OTHERS, Grid, grid, grid_of_others
from adaste.paper.report.texts.footnotes import in_order, remarks
from adaste.paper.tables import TABLES, Table

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
    """The table in LaTeX, once per family of recipes and data set: with all data sets in one, no page would hold it."""
    every = tuple(runs)
    parts = []
    for family in table.families:
        for data, places in groupby(table.places, key=lambda place: place.data):
            name = f"{table.name}-{family.name}-{data}"
            part = replace(table, places=tuple(places))
            parts.append(_latex_table(grid(part, family, every), name, _caption(part, family)))
    return "\n".join(parts)


def _caption(table: Table, family: Family) -> str:
    notes = [f"{mark} {note}." for mark, note in table.notes.items()]
    return " ".join([f"{table.title}. {family.about}", LEGEND, *notes])


def _latex_others(others: Sequence[Other]) -> str:
    return _latex_table(grid_of_others(others), "others", f"{OTHERS}. {ABOUT_OTHERS}")


def _latex_table(found: Grid, name: str, caption: str) -> str:
    # Lines in narrow columns should not be stretched: \raggedright in each cell, and \tabularnewline to go with it.
    places = len(found.columns) - 1
    width = min(WIDEST, (WIDTH - NARROWEST) / places)
    columns = f"p{{{WIDTH - places * width:.3f}\\textwidth}}" + f"p{{{width:.3f}\\textwidth}}" * places
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
    """All tables in LaTeX, with what was left out as comments."""
    parts = in_order(collection, [latex(table, collection.runs) for table in TABLES.values()], _latex_others)
    return "\n".join([LATEX_HEAD, *parts, *(f"% {line}\n" for line in remarks(collection))])
