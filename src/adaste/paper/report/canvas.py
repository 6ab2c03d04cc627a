"""The figures of runs, drawn with matplotlib in colours that colour-blind readers can tell apart."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from adaste.paper.cells import Cell, cells_of, cells_of_one_length
from adaste.paper.families import Family, Setup
from adaste.paper.figures import Curve, Figure, Panel, curves_of, label, note_on_lengths, use_style
from adaste.paper.index import Run
from adaste.paper.report.texts import display_name, format_number, format_summary
from adaste.paper.tables import QUOTED, RERUN, Table

LOOK: Mapping[str, Any] = MappingProxyType(
    {
        "axes.titlesize": 10.5,
        "figure.titlesize": 11.5,
        "figure.titleweight": "bold",
        "font.size": 9.5,
        "grid.color": "#e8e8e8",
        "legend.fontsize": 8.5,
    }
)
"""For figures with a title of their own above the panels."""

GREY = "#767676"


def entitle(drawing: Drawing, title: str) -> None:
    """Put a title on the left above all panels."""
    drawing.suptitle(title, x=0.01, ha="left")


LOOKS = MappingProxyType(
    {
        "full-precision": ("#555555", (0, (2.5, 1))),
        "binaryconnect": ("#56b4e9", (0, (4, 1.5))),
        "md-tanh-s": ("#e69f00", (0, (1, 1))),
        "bayesbinn": ("#8a4f7d", (0, (6, 1.5, 1, 1.5))),
        "adaste": ("#f0746e", "-"),
        "adaste-annealed": ("#b2001d", "-"),
    }
)
"""Colour and dashes of the methods in figures of curves."""

AXES = MappingProxyType({"test_accuracy": "test accuracy (%)", "loss": "training loss"})


def draw_figure(figure: Figure, family: Family, runs: Sequence[Run]) -> Drawing | None:
    """Return a figure of the paper with the runs of one family; None if there are none."""
    panels = [(panel, curves_of(figure, panel, family, runs)) for panel in figure.panels]
    every = [curve for _, curves in panels for curve in curves]
    if not any(curve.count for curve in every):
        return None
    lines = math.ceil(len(panels) / 2)
    with use_style(LOOK):
        drawing = Drawing(figsize=(9.6, 0.7 + 4.0 * lines), layout="constrained")
        for axes, (panel, curves) in zip(drawing.subplots(lines, 2, squeeze=False).flat, panels, strict=True):
            _draw_panel(axes, panel, curves, every)
        note = note_on_lengths(figure, every)
        title = f"{display_name(figure.name)}: {figure.title} (family {family.name})"
        entitle(drawing, f"{title}\n{note}" if note else title)
    return drawing


def _draw_panel(axes: Axes, panel: Panel, curves: Sequence[Curve], every: Sequence[Curve]) -> None:
    for curve in curves:
        colour, dashes = LOOKS[curve.method]
        named = label(curve, every)
        if not curve.count:
            axes.plot([], [], color=GREY, linestyle=":", linewidth=1, label=named)
            continue
        axes.plot(curve.epochs, curve.mean, color=colour, linestyle=dashes, linewidth=1.6, label=named)
        if curve.count > 1:
            axes.fill_between(curve.epochs, curve.least, curve.most, color=colour, alpha=0.18, linewidth=0)
    axes.set(title=panel.setup.title, xlabel="epoch", ylabel=AXES[panel.quantity])
    drawn = [curve for curve in curves if curve.count]
    if drawn:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        axes.set_xlim(left=0)
        _leave_out_the_first_epochs(axes, drawn, rising=panel.quantity == "test_accuracy")
    else:
        axes.set(xticks=[], yticks=[])
    # Below the panel: inside it there is not always a place without curves.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)


def _leave_out_the_first_epochs(axes: Axes, curves: Sequence[Curve], *, rising: bool) -> None:
    """Begin the scale where the worst curve is after a tenth of its way: before that all of them are far from it."""
    worst = [(min if rising else max)(curve.mean[len(curve.mean) // 10 :]) for curve in curves]
    best = [(max if rising else min)(curve.most if rising else curve.least) for curve in curves]
    start, end = (min(worst), max(best)) if rising else (max(worst), min(best))
    room = 0.04 * abs(end - start) or 1.0
    low, high = min(start, end) - room, max(start, end) + room
    axes.set_ylim(low, high)
    if not all(low <= value <= high for curve in curves for value in curve.mean):
        axes.set_ylabel(f"{axes.get_ylabel()}, first epochs cut off")


FAMILY_LOOKS = MappingProxyType(
    {"paper": ("#009e73", "s"), "released": ("#0072b2", "o"), "ours": ("#d55e00", "D"), "ablation": ("#0072b2", "o")}
)
"""Colour and mark of the families in figures of accuracies."""

PUBLISHED_MARKS = MappingProxyType({RERUN: "o", QUOTED: "^", "": "o"})
PUBLISHED_TITLES = MappingProxyType(
    {RERUN: "published, own runs (best epoch)", QUOTED: "published, quoted", "": "published (best epoch)"}
)


def draw_overview(table: Table, setup: Setup, runs: Sequence[Run]) -> Drawing | None:
    """Return a figure of every method in a setup: filled marks are runs, larger if longer, hollow ones published."""
    rows = {row.method: row for row in reversed(table.rows)}
    methods = list(dict.fromkeys(row.method for row in table.rows))
    found = {
        (family.name, method): cells
        for family in table.families
        for method in methods
        if (cells := cells_of(runs, family, rows[method], setup))
    }
    if not found:
        return None
    with use_style(LOOK):
        drawing = Drawing(figsize=(7.6, 1.5 + 0.36 * len(methods)), layout="constrained")
        axes = drawing.subplots()
        published = _draw_published(axes, table, setup, methods)
        lasts = [run.result.last_accuracy for cells in found.values() for cell in cells for run in cell.runs]
        known = published or lasts
        low = min(known) - max(2, 0.15 * (max(known) - min(known)))  # room for the numbers of arrows
        families = [family.name for family in table.families]
        sizes = _sizes(found)
        for (family, method), cells in found.items():
            shift = 0.28 * (families.index(family) - (len(families) - 1) / 2)
            for cell in cells:
                _draw_cell(axes, cell, methods.index(method) + shift, family, sizes[family, cell.epochs], low)
        made = {method for _, method in found}
        names = [rows[method].title + ("" if method in made else " (no run)") for method in methods]
        axes.set(xlim=(low, max([*published, *lasts]) + 0.5), ylim=(len(methods) - 0.4, -0.6))
        axes.set(xlabel="test accuracy (%), last epoch: mean, least and most over seeds")
        axes.set_yticks(range(len(methods)), names)
        axes.grid(visible=False, axis="y")
        handles = [*_family_handles(sizes), *_published_handles(table, setup)]
        drawing.legend(handles=handles, loc="outside lower center", ncols=3)
        entitle(drawing, f"{setup.title}: test accuracy of every method")
    return drawing


def _draw_published(axes: Axes, table: Table, setup: Setup, methods: Sequence[str]) -> list[float]:
    numbers = []
    for row in table.rows:
        there = row.published.get(setup.name)
        if there is not None:
            numbers.append(there.accuracy)
            axes.plot(
                there.accuracy,
                methods.index(row.method),
                PUBLISHED_MARKS[row.mark],
                markersize=11,
                markerfacecolor="none",
                markeredgecolor="#333333",
                markeredgewidth=1.1,
            )
    return numbers


def _sizes(found: Mapping[tuple[str, str], Sequence[Cell]]) -> dict[tuple[str, int], float]:
    """Return the size of the marks by family and length of run."""
    lengths: dict[str, set[int]] = {}
    for (family, _), cells in found.items():
        lengths.setdefault(family, set()).update(cell.epochs for cell in cells)
    return {
        (family, epochs): 4.5 + 2.5 * rank
        for family, known in lengths.items()
        for rank, epochs in enumerate(sorted(known))
    }


def _draw_cell(axes: Axes, cell: Cell, height: float, family: str, size: float, low: float) -> None:
    """Draw a mark at the mean and a line from least to most; an arrow if it lies beyond the edge."""
    colour, mark = FAMILY_LOOKS[family]
    lasts = [run.result.last_accuracy for run in cell.runs]
    if cell.last.mean < low:
        axes.annotate(
            f" {format_number(cell.last.mean)}",
            xy=(low, height),
            xytext=(12, 0),
            textcoords="offset points",
            color=colour,
            fontsize=7.5,
            va="center",
            arrowprops={"arrowstyle": "->", "color": colour, "shrinkA": 0, "shrinkB": 0},
        )
        return
    axes.plot([min(lasts), max(lasts)], [height, height], color=colour, linewidth=1.4)
    axes.plot(cell.last.mean, height, mark, color=colour, markersize=size)


def _family_handles(sizes: Mapping[tuple[str, int], float]) -> list[Line2D]:
    handles = []
    for (family, epochs), size in sizes.items():
        colour, mark = FAMILY_LOOKS[family]
        named = f"family {family}, {epochs} epochs"
        handles.append(Line2D([], [], color=colour, marker=mark, linestyle="", markersize=size, label=named))
    return handles


def _published_handles(table: Table, setup: Setup) -> list[Line2D]:
    marks = dict.fromkeys(row.mark for row in table.rows if setup.name in row.published)
    return [
        Line2D(
            [],
            [],
            marker=PUBLISHED_MARKS[mark],
            markersize=9,
            markerfacecolor="none",
            markeredgecolor="#333333",
            linestyle="",
            label=PUBLISHED_TITLES[mark],
        )
        for mark in marks
    ]


def draw_ablation(table: Table, runs: Sequence[Run]) -> Drawing | None:
    """Return a figure of the ablation; None if there is no run of it."""
    (family,), (setup,) = table.families, table.setups
    cells = cells_of_one_length([cells_of(runs, family, row, setup) for row in table.rows])
    made = [cell for cell in cells if cell is not None]
    if not made:
        return None
    colour, mark = FAMILY_LOOKS[family.name]
    with use_style(LOOK):
        drawing = Drawing(figsize=(7.6, 1.1 + 0.34 * len(cells)), layout="constrained")
        axes = drawing.subplots()
        for height, cell in enumerate(cells):
            if cell is None:
                axes.text(1, height, "missing", color=GREY, va="center", fontsize=8.5)
                continue
            axes.plot([0, cell.last.mean], [height, height], color=colour, linewidth=1.2, alpha=0.35)
            axes.plot(cell.last.mean, height, mark, color=colour, markersize=6)
            axes.annotate(
                format_summary(cell.last),
                (cell.last.mean, height),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
            )
        axes.set(xlim=(0, 112), ylim=(len(cells) - 0.4, -0.6), xlabel="test accuracy (%), last epoch")
        axes.set_yticks(range(len(cells)), [row.title for row in table.rows])
        axes.set_xticks(range(0, 101, 20))
        axes.grid(visible=False, axis="y")
        counts = " to ".join(str(count) for count in sorted({min(c.count for c in made), max(c.count for c in made)}))
        entitle(drawing, f"{table.title}: {setup.title} ({made[0].epochs} epochs, n = {counts})")
    return drawing
