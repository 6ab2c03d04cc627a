"""Which run of a study starts next: how long runs take, and which of them end within a time limit.

A machine that several runs share gives each its part. An estimate therefore says how long an epoch takes the machine:
with n runs at a time, an epoch of each takes n times as long.
"""

import math
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adaste._util.checks import require, require_count
from adaste._util.serial import require_types
from adaste.runs.checkpoint import Checkpoints
from adaste.training.records import epoch_seconds

if TYPE_CHECKING:
    from adaste.runs.study.study import Job

START = 15.0
"""Seconds for imports, compilation and the slow first steps of a run (results/benchmarks/training-h200.json)."""

SETTLED = 3
"""Epochs after which the records of a run count more than an estimate; the first one includes compilation."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How long the epochs of a run take.

    Args:
        seconds: Machine time per epoch, tests included: with three runs at a time, a third of an epoch of each.
        at_once: The number of runs that shared the machine when it was measured; None if it does not matter.
    """

    seconds: float
    at_once: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        require("seconds", self.seconds, above=0)
        if self.at_once is not None:
            require_count("at_once", self.at_once, least=1)


@dataclass(frozen=True)
class TimeLimit:
    """The end of a study, by `time.monotonic`, and the number of runs that share the machine until then."""

    ends: float
    at_once: int

    @property
    def left(self) -> float:
        """The seconds that are left; negative afterwards."""
        return self.ends - time.monotonic()


class Queue:
    """The runs of a study that wait to be started.

    Runs that were begun come first, then the teachers of others, then the rest in the given order. With a time limit,
    the longest of each come first, `take` passes over those that would not end in time, and runs without any estimate
    are the last. A run whose teacher is in the study waits until that has ended.
    """

    def __init__(self, jobs: Iterable["Job"], limit: TimeLimit | None = None) -> None:
        self._limit, waiting = limit, list(jobs)
        self._folders = {job.recipe.digest: job.folder for job in waiting}
        self._teachers = {self._folders.get(_teacher_of(job)) for job in waiting}
        self._needs: Mapping[Path, float | None] = seconds_to_end(waiting, limit.at_once) if limit else {}
        self._waiting = sorted(waiting, key=self._rank)

    def take(self, ended: Collection[Path]) -> "Job | None":
        """Return the next run and remove it from the queue; None if no run can start now and would end in time.

        Args:
            ended: The folders of the runs that have ended.
        """
        left = self._limit.left if self._limit else math.inf
        for job in self._waiting:
            teacher = self.teacher(job)
            if (teacher is None or teacher in ended) and (self._needs.get(job.folder) or 0.0) < left:
                self._waiting.remove(job)
                return job
        return None

    def teacher(self, job: "Job") -> Path | None:
        """Return the folder of the run's teacher; None if it has none in the study."""
        return self._folders.get(_teacher_of(job))

    def _rank(self, job: "Job") -> tuple[bool, bool, bool, bool, float]:
        needs = self._needs.get(job.folder, 0.0)
        teaches = job.folder in self._teachers
        return not job.finished, not _saved_epochs(job), not teaches, needs is None, -(needs or 0.0)


def seconds_to_end(jobs: Collection["Job"], at_once: int) -> dict[Path, float | None]:
    """Return how long each run still takes with so many at a time, by folder: 0 if it is finished, None if unknown."""
    unfinished = {job.folder: job for job in jobs if not job.finished}
    sharing = min(at_once, len(unfinished))  # the last few have the machine to themselves
    needs = {folder: _seconds_to_end(job, sharing) for folder, job in unfinished.items()}
    return {job.folder: 0.0 for job in jobs} | needs


def _seconds_to_end(job: "Job", at_once: int) -> float | None:
    """Return how long the epochs after the last checkpoint take, by the run's own records or by its estimate.

    Records do not say how many runs shared the machine: they count as they are.
    """
    saved, per_epoch = _saved_epochs(job), job.estimate.seconds * at_once if job.estimate else None
    try:
        records = job.files.read_records()[:saved]
    except (ValueError, OSError):  # the study tells of damaged files
        records = []
    if len(records) >= SETTLED or (records and per_epoch is None):
        per_epoch = epoch_seconds(records)
    return None if per_epoch is None else START + (job.recipe.epochs - saved) * per_epoch


def _teacher_of(job: "Job") -> str:
    """Return the digest of the recipe of a run's teacher; empty if it has none."""
    return job.recipe.distillation.teacher if job.recipe.distillation else ""


def _saved_epochs(job: "Job") -> int:
    return Checkpoints(job.files.checkpoints).saved_epochs
