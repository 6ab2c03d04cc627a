"""What runs say about a cell: a pure function of results."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adaste.paper.collection import Run
from adaste.paper.families import Family
from adaste.paper.setups import Place
from adaste.paper.tables import Row
from adaste.runs.folder import best_tested


@dataclass(frozen=True)
class OverSeeds:
    """Mean and spread over seeds; the spread (a standard deviation) needs two runs."""

    mean: float
    spread: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "OverSeeds":
        """The summary of at least one value."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class Cell:
    """Runs of one recipe that differ in their seeds alone.

    last        test accuracy of the last epoch.
    best        that of the best test epoch of each run, which is what the paper reports.
    difference  of `last` from the published number, in points; None where there is none.
    seconds     of a run, on average.
    hardware    what they ran on.
    versions    of adaste that made some of them, but this one.
    """

    runs: tuple[Run, ...]
    epochs: int
    last: OverSeeds
    best: OverSeeds
    difference: float | None
    best_difference: float | None
    seconds: float
    hardware: tuple[str, ...]
    versions: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many runs."""
        return len(self.runs)


def cells_of(runs: Iterable[Run], family: Family, row: Row, place: Place) -> list[Cell]:
    """The cells of a method at a place, one per length of run, the longest first; none where there is no run."""
    mine = [run for run in runs if run.belongs_to(family, row.method, place)]
    lengths = sorted({run.recipe.epochs for run in mine}, reverse=True)
    published = row.published.get(place.name)
    return [
        cell_of([run for run in mine if run.recipe.epochs == epochs], published.accuracy if published else None)
        for epochs in lengths
    ]


def of_one_length(rows: Sequence[Sequence[Cell]]) -> list[Cell | None]:
    """A cell of each row, all of the length that most rows have runs of (of two such lengths the longer)."""
    counts = Counter(cell.epochs for cells in rows for cell in cells)
    common = max(counts, key=lambda epochs: (counts[epochs], epochs), default=0)
    return [next((cell for cell in cells if cell.epochs == common), None) for cells in rows]


def best_test_accuracy(run: Run) -> float:
    """Of the epoch with the best test accuracy: chosen on the test images, as in the paper."""
    best = best_tested(run.records)
    assert best is not None and best.test_accuracy is not None  # the last epoch is always tested
    return best.test_accuracy


def cell_of(runs: Sequence[Run], published: float | None) -> Cell:
    """What runs of one recipe say, beside the published number if there is one."""
    runs = sorted(runs, key=lambda run: run.recipe.seed)
    last = OverSeeds.of([run.result.last_accuracy for run in runs])
    best = OverSeeds.of([best_test_accuracy(run) for run in runs])
    return Cell(
        runs=tuple(runs),
        epochs=runs[0].recipe.epochs,
        last=last,
        best=best,
        difference=None if published is None else last.mean - published,
        best_difference=None if published is None else best.mean - published,
        seconds=statistics.fmean(run.result.seconds for run in runs),
        hardware=tuple(sorted({hardware_of(run) for run in runs})),
        versions=tuple(sorted({version for run in runs for version in run.other_versions})),
    )


def hardware_of(run: Run) -> str:
    """The device of a run's last start; for a CPU also the numbers of threads, since results depend on them."""
    here = run.environments[-1] if run.environments else {}
    if here.get("gpu"):
        return str(here["gpu"])
    threads = threads_of(run)
    counted = f"{' and '.join(map(str, threads))} thread{'' if threads == (1,) else 's'}"
    return ", ".join([str(here.get("processor") or "unknown"), *([counted] if threads else [])])


def threads_of(run: Run) -> tuple[int, ...]:
    """The numbers of threads that torch had on the CPU, start by start, each once; none where that was not written."""
    known = [start["threads"] for start in run.environments if isinstance(start.get("threads"), int)]
    return tuple(dict.fromkeys(known))
