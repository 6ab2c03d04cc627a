"""Figures of curves over epochs."""

import math
from collections.abc import Sequence
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from adaste.paper.collection import Run
from adaste.paper.drawing import in_style
from adaste.paper.families import Family
from adaste.paper.figures import Figure, Panel
from adaste.paper.report.canvas.looks import GREY, LOOK, entitle
from adaste.paper.report.cell_format import titled_name
from adaste.paper.report.curves import Curve, curves_of, label, note_on_lengths

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
    """A figure of the paper with the runs of one family; None where there are none."""
    panels = [(panel, curves_of(figure, panel, family, runs)) for panel in figure.panels]
    every = [curve for _, curves in panels for curve in curves]
    if not any(curve.count for curve in every):
        return None
    lines = math.ceil(len(panels) / 2)
    with in_style(LOOK):
        drawing = Drawing(figsize=(9.6, 0.7 + 4.0 * lines), layout="constrained")
        for axes, (panel, curves) in zip(drawing.subplots(lines, 2, squeeze=False).flat, panels, strict=True):
            _draw_panel(axes, panel, curves, every)
        note = note_on_lengths(figure, every)
        title = f"{titled_name(figure.name)}: {figure.title} (family {family.name})"
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
    axes.set(title=panel.place.title, xlabel="epoch", ylabel=AXES[panel.quantity])
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
