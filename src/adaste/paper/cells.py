"""Compare runs with the cells of tables, or with recipes that belong to no table: pure functions of results."""

import dataclasses
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from adaste._util.serial import brief
from adaste.paper.families import Family, Setup
from adaste.paper.index import Run
from adaste.paper.tables import Row, recipes_named
from adaste.recipes.recipe import Recipe
from adaste.training.records import best_tested

Unseeded: TypeAlias = tuple[Recipe, str | None]
"""What runs of a cell share: the recipe without its seed, and the digest of images of one's own (`Run.unseeded`)."""


@dataclass(frozen=True)
class OverSeeds:
    """Mean and standard deviation over seeds; the deviation needs two runs."""

    mean: float
    spread: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "OverSeeds":
        """Return the summary of at least one value."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class Cell:
    """The runs of one recipe on the same images, which differ only in their seeds.

    Args:
        last: Test accuracy of the last epoch.
        best: Test accuracy of the best epoch of each run, which is what the paper reports.
        difference: `last` minus the published number, in points; None where there is none.
        seconds: Mean duration of a run.
        hardware: The devices of the runs.
        versions: Other versions of adaste that made some of them.
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
        """The number of runs."""
        return len(self.runs)


def cells_of(runs: Iterable[Run], family: Family, row: Row, setup: Setup) -> list[Cell]:
    """Return the cells of a method in a setup, one per length of run, the longest first."""
    mine = [run for run in runs if run.belongs_to(family, row.method, setup)]
    lengths = sorted({run.recipe.epochs for run in mine}, reverse=True)
    published = row.published.get(setup.name)
    return [
        cell_of([run for run in mine if run.recipe.epochs == epochs], published.accuracy if published else None)
        for epochs in lengths
    ]


def common_length(rows: Iterable[Sequence[Cell]]) -> int:
    """Return the length of run that most rows have, the longer of two; 0 if there is no run."""
    counts = Counter(cell.epochs for cells in rows for cell in cells)
    return max(counts, key=lambda epochs: (counts[epochs], epochs), default=0)


def cells_of_one_length(rows: Sequence[Sequence[Cell]]) -> list[Cell | None]:
    """Return a cell per row, all of the length that most rows have; None for the other rows."""
    common = common_length(rows)
    return [next((cell for cell in cells if cell.epochs == common), None) for cells in rows]


def best_test_accuracy(run: Run) -> float:
    """Return the best test accuracy of any epoch: chosen on the test images, as in the paper."""
    best = best_tested(run.records)
    assert best is not None and best.test_accuracy is not None  # the last epoch is always tested
    return best.test_accuracy


def cell_of(runs: Sequence[Run], published: float | None) -> Cell:
    """Return the cell of the runs of one recipe; `published` is the paper's number, if there is one."""
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
    """Return the device of a run's last start; for a CPU with its threads, since results depend on them."""
    here = run.environments[-1] if run.environments else {}
    if here.get("gpu"):
        return str(here["gpu"])
    threads = threads_of(run)
    counted = f"{' and '.join(map(str, threads))} thread{'' if threads == (1,) else 's'}"
    return ", ".join([str(here.get("processor") or "unknown"), *([counted] if threads else [])])


def threads_of(run: Run) -> tuple[int, ...]:
    """Return torch's numbers of CPU threads, start by start, each once; empty if they were not recorded."""
    known = [start["threads"] for start in run.environments if isinstance(start.get("threads"), int)]
    return tuple(dict.fromkeys(known))


@dataclass(frozen=True)
class CustomRecipe:
    """A recipe that belongs to no table, with its runs.

    Args:
        name: The name of most of their folders, without the digest, or the method's.
        settings: The fields that differ from recipes of the same name and length, as in `base.lr=0.1`; also from the
            recipe of the tables, if the name is that of one of their cells. `images=DIGEST` where the images do.
        setup: The data and the network.
    """

    name: str
    settings: tuple[str, ...]
    setup: str
    cell: Cell

    @property
    def title(self) -> str:
        """As in `mine (base.lr=0.1, batch=64)`."""
        return f"{self.name} ({', '.join(self.settings)})" if self.settings else self.name


def custom_recipes_of(runs: Iterable[Run]) -> list[CustomRecipe]:
    """Return the recipes that belong to no table, ordered by setup."""
    groups: dict[Unseeded, list[Run]] = {}
    for run in runs:
        if not run.cell_ids:
            groups.setdefault(run.unseeded, []).append(run)
    names = {unseeded: _name(group) for unseeded, group in groups.items()}
    found = [
        CustomRecipe(
            name=names[unseeded],
            settings=tuple(_settings(unseeded, names)),
            setup=f"{unseeded[0].data} {type(unseeded[0].network).__name__}",
            cell=cell_of(group, None),
        )
        for unseeded, group in groups.items()
    ]
    return sorted(found, key=lambda other: (other.setup, other.name, -other.cell.epochs, other.settings))


def _name(group: Sequence[Run]) -> str:
    """Return the name of most of their folders, or the method's if every folder has its own."""
    names = Counter(run.folder.name.removesuffix(f"-{run.digest}") for run in group)
    (name, count), *_ = names.most_common(1)
    return name if count > 1 or len(group) == 1 else type(group[0].recipe.estimator).__name__


def _settings(mine: Unseeded, names: dict[Unseeded, str]) -> Iterator[str]:
    """Yield what tells a recipe from those that a reader could confuse it with: same name, or the cell of that name."""
    recipe, images = mine
    shown = [other for other in names if _words(other, names) == _words(mine, names)]
    yield from _differences(recipe, [*(other for other, _ in shown), *recipes_named(names[mine], recipe.epochs)])
    if any(other == recipe and theirs != images for other, theirs in shown):
        yield f"images={images[:8] if images else 'not recorded'}"


def _words(unseeded: Unseeded, names: dict[Unseeded, str]) -> tuple[Any, ...]:
    """Return what a table shows of a recipe, but for its settings."""
    recipe, _ = unseeded
    return names[unseeded], recipe.data, type(recipe.network), recipe.epochs


def _differences(mine: Any, every: Sequence[Any], path: str = "") -> Iterator[str]:
    """Yield `field=value` of `mine` for fields that differ, inside of nested values of one class, too."""
    for field in dataclasses.fields(mine):
        own, values = getattr(mine, field.name), [getattr(value, field.name) for value in every]
        if all(value == own for value in values):
            continue
        where = f"{path}{field.name}"
        if dataclasses.is_dataclass(own) and all(type(value) is type(own) for value in values):
            yield from _differences(own, values, f"{where}.")
        else:
            yield f"{where}={brief(own)}"
