"""The figures: panels of curves over epochs, made from runs, one of them ours, and two that show functions."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from adaste.paper.families import Family
from adaste.paper.index import Run
from adaste.paper.setups import SETUPS, Setup
from adaste.paper.tables import TABLES


@dataclass(frozen=True)
class Panel:
    """Curves of several methods in one setup.

    quantity  a field of Record: "test_accuracy" or "loss".
    """

    setup: Setup
    quantity: str
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """A figure; `epochs` is the length of its curves."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    epochs: int


RACE = ("binaryconnect", "md-tanh-s", "bayesbinn", "adaste", "adaste-annealed")
"""Who is in the figures of accuracy: "BC, MD (using the tanh mapping), and BayesBiNN" and both forms of AdaSTE."""

LOSSES = ("bayesbinn", "adaste", "adaste-annealed")
"""Who is in the figures of training loss."""

BESIDE_REAL = ("full-precision", "adaste", "adaste-annealed")
"""Who is in the figure of long runs."""


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
"""What methods are called in the tables."""


@dataclass(frozen=True)
class Curve:
    """A quantity over epochs: its mean over runs that differ in their seeds alone, and its least and most.

    length  of the runs; the curve may be their beginning only.
    count   how many runs there are; without one, or where they have no finite number, the curve has no points.
    """

    method: str
    epochs: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    least: tuple[float, ...] = ()
    most: tuple[float, ...] = ()
    length: int = 0
    count: int = 0


def curves_of(figure: Figure, panel: Panel, family: Family, runs: Sequence[Run]) -> list[Curve]:
    """A curve per method of the panel.

    Where a method has runs of the figure's own length, each shows that or else its longest. Where none has, all are of
    the longest one that all methods with runs have, or without such a one each of its own; longer runs show their
    beginning.
    """
    groups = {method: _runs_of(family, method, panel, runs) for method in panel.methods}
    lengths = [{run.recipe.epochs for run in group} for group in groups.values() if group]
    there = set().union(*lengths)
    shared = set.intersection(*lengths) if lengths and figure.epochs not in there else set()
    return [
        _curve(figure, panel, method, [run for run in group if not shared or run.recipe.epochs in shared])
        for method, group in groups.items()
    ]


def _runs_of(family: Family, method: str, panel: Panel, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.belongs_to(family, method, panel.setup)]


def _curve(figure: Figure, panel: Panel, method: str, runs: Sequence[Run]) -> Curve:
    lengths = {run.recipe.epochs for run in runs}
    if not lengths:
        return Curve(method)
    length = figure.epochs if figure.epochs in lengths else max(lengths)
    chosen = [run for run in runs if run.recipe.epochs == length]
    points = []
    for epoch in range(min(length, figure.epochs)):
        values = [getattr(run.records[epoch], panel.quantity) for run in chosen]
        known = [float(value) for value in values if value is not None and math.isfinite(value)]
        if known:
            points.append((epoch + 1, statistics.fmean(known), min(known), max(known)))
    if not points:
        return Curve(method)
    epochs, mean, least, most = zip(*points, strict=True)
    return Curve(method, epochs, mean, least, most, length, len(chosen))


def note_on_lengths(figure: Figure, curves: Sequence[Curve]) -> str:
    """What a title has to say about runs of another length than the figure's; nothing where there are none."""
    there = {curve.length for curve in curves if curve.count}
    lengths = sorted(there - {figure.epochs})
    if not lengths:
        return ""
    whose = "Some runs" if figure.epochs in there else "Runs"
    said = [f"{length} (first {figure.epochs})" if length > figure.epochs else str(length) for length in lengths]
    return f"{whose} of {' and '.join(said)} epochs instead of {figure.epochs}"


def label(curve: Curve, curves: Sequence[Curve]) -> str:
    """A curve's name for a legend, with the length of its runs where that differs among all curves of the figure."""
    title = TITLES[curve.method]
    if not curve.count:
        return f"{title}: missing"
    mixed = len({other.length for other in curves if other.count}) > 1
    parts = [*([f"{curve.length} ep."] if mixed else []), *([f"n={curve.count}"] if curve.count > 1 else [])]
    return f"{title} ({', '.join(parts)})" if parts else title
