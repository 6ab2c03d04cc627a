"""The figures: panels of curves over epochs, made from runs, one of them ours, and two that show functions.

And how figures are drawn and become files: equal ones give equal bytes, whatever the user's own settings are. Drawing
needs matplotlib (the extra 'demo': `pip install '.[demo]'` in a checkout), which is imported when a figure is made.
"""

import io
import logging
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from adaste._util.packages import require_package
from adaste.paper.families import SETUPS, Family, Setup
from adaste.paper.index import Run
from adaste.paper.tables import TABLES

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Panel:
    """Curves of several methods in one setup.

    Args:
        quantity: A field of Record: "test_accuracy" or "loss".
    """

    setup: Setup
    quantity: str
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """A figure, whose panels have the same quantity and methods; `epochs` is the length of its curves."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    epochs: int


RACE = ("binaryconnect", "md-tanh-s", "bayesbinn", "adaste", "adaste-annealed")
"""The methods in the figures of accuracy: "BC, MD (using the tanh mapping), and BayesBiNN" and both forms of AdaSTE."""

LOSSES = ("bayesbinn", "adaste", "adaste-annealed")
"""The methods in the figures of training loss."""

BESIDE_REAL = ("full-precision", "adaste", "adaste-annealed")
"""The methods in the figure of long runs."""


def _pair(data: str, quantity: str, methods: tuple[str, ...]) -> tuple[Panel, ...]:
    return tuple(Panel(SETUPS[f"{data}-{network}"], quantity, methods) for network in ("resnet18", "vgg16"))


FIGURES = MappingProxyType(
    {
        figure.name: figure
        for figure in (
            Figure("figure3", "Test accuracy, CIFAR-10", _pair("cifar10", "test_accuracy", RACE), 200),
            Figure("figure4", "Training loss, CIFAR-10", _pair("cifar10", "loss", LOSSES), 200),
            Figure("figure5", "Test accuracy, CIFAR-100", _pair("cifar100", "test_accuracy", RACE), 200),
            Figure("figure6", "Training loss, CIFAR-100", _pair("cifar100", "loss", LOSSES), 200),
            Figure(
                "figure7",
                "Test accuracy of long runs",
                (
                    *_pair("cifar10", "test_accuracy", ("bayesbinn", "adaste")),
                    *_pair("cifar100", "test_accuracy", ("bayesbinn", "adaste")),
                ),
                700,
            ),
            Figure(
                "long-runs",
                "Test accuracy beside full precision",
                (
                    *_pair("cifar10", "test_accuracy", BESIDE_REAL),
                    *_pair("cifar100", "test_accuracy", BESIDE_REAL),
                ),
                500,
            ),
        )
    }
)
"""The figures of runs by name. The last one is ours: runs as long as those of the paper's tables."""

ILLUSTRATIONS = MappingProxyType({"figure1": "adaptive-slope", "figure2": "forward-map"})
"""The figures of functions by name, with what they are called in docs/mathematics.md: they need no runs."""


TITLES = MappingProxyType({row.method: row.title for table in TABLES.values() for row in table.rows})
"""The names of methods in the tables."""


@dataclass(frozen=True)
class Curve:
    """A quantity over epochs: its mean over runs that differ in their seeds alone, and its least and most.

    Args:
        length: Epochs of the runs; the curve may be their beginning only.
        count: How many runs there are; without one, or where they have no finite number, the curve has no points.
    """

    method: str
    epochs: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    least: tuple[float, ...] = ()
    most: tuple[float, ...] = ()
    length: int = 0
    count: int = 0


@dataclass(frozen=True)
class Series:
    """A quantity at every epoch, over runs that differ in their seeds alone; None where no run has a finite number.

    Args:
        count: How many of the runs have numbers at all.
    """

    mean: tuple[float | None, ...]
    least: tuple[float | None, ...]
    most: tuple[float | None, ...]
    count: int


def series_of(runs: Sequence[Run], quantity: str) -> Series | None:
    """Return mean, least and greatest value of a field of records; None if there is no finite number."""
    columns = [[getattr(record, quantity) for record in run.records] for run in runs]
    finite = [[value if value is not None and math.isfinite(value) else None for value in column] for column in columns]
    measured = [column for column in finite if any(value is not None for value in column)]
    if not measured:
        return None
    epochs = [[float(value) for value in values if value is not None] for values in zip(*measured, strict=True)]
    return Series(
        mean=tuple(statistics.fmean(values) if values else None for values in epochs),
        least=tuple(min(values, default=None) for values in epochs),
        most=tuple(max(values, default=None) for values in epochs),
        count=len(measured),
    )


def shared_length(figure: Figure, family: Family, setup: Setup, runs: Sequence[Run]) -> int:
    """Return the length of run that a figure compares in a setup; 0 if each method shows its longest.

    That is the figure's own length if any of the methods has runs of it, else the longest that all with runs have.
    """
    groups = [
        {run.recipe.epochs for run in runs if run.belongs_to(family, method, setup)}
        for method in figure.panels[0].methods
    ]
    lengths = [group for group in groups if group]
    if any(figure.epochs in group for group in lengths):
        return figure.epochs
    return max(set.intersection(*lengths), default=0) if lengths else 0


def curves_of(figure: Figure, panel: Panel, family: Family, runs: Sequence[Run]) -> list[Curve]:
    """Return a curve per method of the panel, from runs of the shared length or else from its longest ones."""
    shared = shared_length(figure, family, panel.setup, runs)
    found = []
    for method in panel.methods:
        mine = [run for run in runs if run.belongs_to(family, method, panel.setup)]
        lengths = {run.recipe.epochs for run in mine}
        length = shared if shared in lengths else max(lengths, default=0)
        found.append(_curve(figure, panel, method, [run for run in mine if run.recipe.epochs == length]))
    return found


def _curve(figure: Figure, panel: Panel, method: str, runs: Sequence[Run]) -> Curve:
    series = series_of(runs, panel.quantity)
    if series is None:
        return Curve(method)
    points = zip(series.mean, series.least, series.most, strict=True)
    known = [(epoch, *point) for epoch, point in enumerate(points, 1) if epoch <= figure.epochs and None not in point]
    if not known:
        return Curve(method)
    epochs, mean, least, most = zip(*known, strict=True)
    return Curve(method, epochs, mean, least, most, runs[0].recipe.epochs, series.count)


def note_on_lengths(figure: Figure, curves: Sequence[Curve]) -> str:
    """Return a note about runs of another length than the figure's; an empty text if there are none."""
    odd = [curve for curve in curves if curve.count and curve.length != figure.epochs]
    if not odd:
        return ""
    whose = "Some runs" if any(curve.length == figure.epochs for curve in curves) else "Runs"
    return f"{whose} of {_lengths(figure, odd)} epochs instead of {figure.epochs}"


def note_on_panel(figure: Figure, family: Family, curves: Sequence[Curve]) -> str:
    """Return the note below a panel: methods without a curve, and curves of another length."""

    def titles(chosen: Sequence[Curve]) -> str:  # with semicolons between them: they hold commas
        absent = " (no recipe in this family)"
        return "; ".join(TITLES[curve.method] + ("" if curve.method in family.makers else absent) for curve in chosen)

    missing = [curve for curve in curves if not curve.count]
    odd = [curve for curve in curves if curve.count and curve.length != figure.epochs]
    whose = f": {titles(odd)}" if len(missing) + len(odd) < len(curves) else ""
    parts = [
        *([f"Missing: {titles(missing)}."] if missing else []),
        *([f"Runs of {_lengths(figure, odd)} epochs instead of {figure.epochs}{whose}."] if odd else []),
    ]
    return " ".join(parts)


def _lengths(figure: Figure, curves: Sequence[Curve]) -> str:
    lengths = sorted({curve.length for curve in curves})
    return " and ".join(
        f"{length} (first {figure.epochs})" if length > figure.epochs else str(length) for length in lengths
    )


def label(curve: Curve, curves: Sequence[Curve]) -> str:
    """Return a curve's name for a legend, with the length of its runs if the figure's curves differ in it."""
    title = TITLES[curve.method]
    if not curve.count:
        return f"{title}: missing"
    mixed = len({other.length for other in curves if other.count}) > 1
    parts = [*([f"{curve.length} ep."] if mixed else []), *([f"n={curve.count}"] if curve.count > 1 else [])]
    return f"{title} ({', '.join(parts)})" if parts else title


STYLE: Mapping[str, Any] = MappingProxyType(
    {
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "adaste",
    }
)
"""The style of all figures; the salt makes the identifiers inside an SVG file the same every time."""

NO_DATES: Mapping[str, dict[str, Any]] = MappingProxyType({"svg": {"Date": None}, "pdf": {"CreationDate": None}})
"""Metadata to leave out, for each form of file."""


@contextmanager
def use_style(look: Mapping[str, Any]) -> Iterator[None]:
    """Inside, matplotlib draws in the common style and this look, the sizes and weights that suit a kind of figure."""
    with require_package("matplotlib", extra="demo", purpose="a figure"):
        import matplotlib.style
    with matplotlib.style.context({**STYLE, **look}, after_reset=True):
        yield


def render_figure(figure: "matplotlib.figure.Figure", ending: str, look: Mapping[str, Any]) -> bytes:
    """A figure as the content of a file; in its look, because ticks are made only now."""
    content = io.BytesIO()
    with use_style(look), _log_errors_only("fontTools"):  # which warns of the dates in matplotlib's own fonts
        figure.savefig(content, format=ending, metadata=NO_DATES[ending])
    return content.getvalue()


@contextmanager
def _log_errors_only(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
