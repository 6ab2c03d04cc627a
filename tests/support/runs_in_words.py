"""What pages say of runs and of the paper, as their text has it."""

from collections.abc import Mapping
from typing import Protocol

from adaste.paper.cells import OverSeeds, best_test_accuracy
from adaste.paper.collection import Collection, Run
from adaste.paper.published import Published
from adaste.paper.tables import TABLES


class Found(Protocol):
    def __call__(self, name: str, epochs: int = 60, *, mended: bool = False, digest: str = "") -> Run: ...


class Reached(Protocol):
    def __call__(self, name: str, epochs: int = 60) -> OverSeeds: ...


def runs_named(collection: Collection, name: str, epochs: int = 60) -> list[Run]:
    """The runs of that name and length that belong to a cell of the tables, by seed."""
    runs = [
        run
        for run in collection.runs
        if run.folder.name.rpartition("-")[0] == name and run.addresses and run.recipe.epochs == epochs
    ]
    return sorted(runs, key=lambda run: run.recipe.seed)


def accuracy(run: Run, epoch: int) -> str:
    return f"{run.records[epoch - 1].test_accuracy:.2f}"


def best(run: Run) -> str:
    return f"{best_test_accuracy(run):.2f}"


def flipped(run: Run, epoch: int, digits: int = 1) -> str:
    return f"{100 * run.records[epoch - 1].flipped:.{digits}f}"


def published_of(method: str) -> Mapping[str, Published]:
    """What the paper has of a method in Table 1, by place."""
    return next(row for row in TABLES["table1"].rows if row.method == method).published


def below(one: Run, other: Run) -> str:
    return f"{other.result.last_accuracy - one.result.last_accuracy:.2f}"


def ends(*runs: Run) -> str:
    return " and ".join(f"{run.result.last_accuracy:.2f}" for run in runs)
