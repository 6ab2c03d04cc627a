"""The curves of a figure, as numbers to draw: which runs, how much of them, and their mean over seeds."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from adaste.paper.collection import Run
from adaste.paper.families import Family
from adaste.paper.figures import Figure, Panel
from adaste.paper.tables import TABLES

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
    return [run for run in runs if run.belongs_to(family, method, panel.place)]


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
