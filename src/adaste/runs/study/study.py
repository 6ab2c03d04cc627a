"""Many runs, several at a time. Finished ones are skipped, interrupted ones resumed first."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from adaste._util.signals import handle_signals
from adaste.data import is_own
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import Result, RunFolder, TakenError
from adaste.runs.study.processes import Ending
from adaste.runs.study.schedule import Estimate, Queue, TimeLimit
from adaste.training.records import Record, best_of, last_tested, seconds_left

INTERVAL = 0.25
"""Seconds between two looks at the runs."""


class State(Enum):
    """The state of a run in a study."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    SKIPPED = "skipped"
    """Another process trains it, or its teacher."""


@dataclass(frozen=True)
class Job:
    """A run of a study; without an estimate, nobody knows how long it takes before its first epochs."""

    name: str
    recipe: Recipe
    folder: Path
    estimate: Estimate | None = None

    @property
    def files(self) -> RunFolder:
        """The files of the run."""
        return RunFolder(self.folder)

    @property
    def finished(self) -> bool:
        """Whether the run has a result. A damaged one does not count: the study tells of it."""
        try:
            return self.files.read_result() is not None
        except (ValueError, OSError):
            return False


@dataclass(frozen=True)
class Status:
    """The progress of a run, read from its files.

    Args:
        problem: Why it failed or was skipped, in one line.
        updated: When its last record was written, in seconds since the epoch.
    """

    job: Job
    state: State
    records: Sequence[Record] = ()
    result: Result | None = None
    problem: str | None = None
    updated: float = 0.0

    @property
    def accuracy(self) -> float | None:
        """The latest test accuracy."""
        last = last_tested(self.records)
        return last.test_accuracy if last else None

    @property
    def best(self) -> float | None:
        """The test accuracy of the best epoch so far."""
        best = best_of(self.records)
        return best.test_accuracy if best else None

    @property
    def seconds_left(self) -> float | None:
        """The estimated time until the run ends; None if there is no estimate."""
        if self.state is not State.RUNNING or not self.records:
            return None
        left = seconds_left(self.records, self.job.recipe.epochs)
        return max(0.0, left - (time.time() - self.updated))


def folder_of(name: str, recipe: Recipe, runs: Path) -> Path:
    """Return the folder of a run: one for equal recipes, so that a run is found again under any name.

    Equal recipes for images of one's own may be for other images, and only the name says for which.
    """
    own = runs / f"{name}-{recipe.digest}"
    if is_own(recipe.data):
        return own
    begun = sorted(folder for folder in runs.glob(f"*-{recipe.digest}") if folder.is_dir())
    return own if own in begun or not begun else begun[0]


class Runner(Protocol):
    """Executes runs: in processes of this machine, or on the nodes of a cluster. Folders identify the runs."""

    def can_start_another(self) -> bool:
        """Return whether it takes one more run now."""

    def start(self, job: Job) -> None:
        """Start a run, whose folder holds its recipe."""

    def running(self) -> Collection[Path]:
        """Return the runs at work; one that was started may still wait."""

    def ended(self) -> Mapping[Path, Ending]:
        """Return the runs that have ended since the last call; their folders are complete."""

    def stop(self) -> None:
        """Ask all runs to save and end."""

    def kill(self) -> None:
        """Kill all runs."""


class Study:
    """Executes jobs and follows them.

        statuses = Study(jobs, Processes(4, options=["--device", "cuda"])).run(watch=print)

    Equal folders are one job. With a time limit, only runs that should end in time are started, and those that still
    run when it is over save and end.
    """

    def __init__(self, jobs: Sequence[Job], runner: Runner, limit: TimeLimit | None = None) -> None:
        self._jobs, self._runner, self._limit = {job.folder: job for job in jobs}, runner, limit
        self._queue = Queue(self._jobs.values(), limit)
        self._at_work: set[Path] = set()
        self._ended: dict[Path, Status] = {}
        self._known_records: dict[Path, tuple[tuple[float, int], list[Record]]] = {}
        self._signals: list[int] = []

    @property
    def stopped_by(self) -> int | None:
        """The signal that ended the study early; None if none did."""
        return self._signals[0] if self._signals else None

    def run(self, watch: Callable[[list[Status]], None]) -> list[Status]:
        """Run all jobs; call `watch` with their statuses a few times per second and at the end.

        A run that fails does not stop the others, and one that another process trains is skipped. Ctrl-C, SIGTERM and
        SIGHUP let the runs save; a second one kills.
        """
        # The end of a terminal, too, would leave the runs behind, unless it was said (nohup) that all should go on.
        with handle_signals(self._signals.append):
            try:
                while True:
                    self._stop_runs_if_due()
                    self._record_endings()
                    self._start_waiting()
                    watch(self.statuses())
                    if not self._at_work:
                        return self.statuses()
                    time.sleep(INTERVAL)
            except BaseException:
                # A pipe's reader may have heard the same Ctrl-C (| tee), and rich then exits: the runs still save.
                self._stop_and_wait()
                raise
            finally:
                self._runner.kill()

    def statuses(self) -> list[Status]:
        """Return the status of every job, in the order they were given."""
        running = self._runner.running()
        return [self._ended.get(folder) or self._status(job, folder in running) for folder, job in self._jobs.items()]

    def _status(self, job: Job, running: bool) -> Status:
        if self._signals and job.folder not in self._at_work:
            return self._read_status(job, State.STOPPED)
        return self._read_status(job, State.RUNNING if running else State.WAITING)

    def _read_status(self, job: Job, state: State, problem: str | None = None) -> Status:
        path = job.files.metrics_file
        try:
            known = path.stat() if path.exists() else None
            # The size, too: some file systems count in seconds, and there may be several epochs in one.
            changed = (known.st_mtime, known.st_size) if known else (0.0, 0)
            if job.folder not in self._known_records or self._known_records[job.folder][0] != changed:
                self._known_records[job.folder] = changed, job.files.read_records()
            records, result = self._known_records[job.folder][1], job.files.read_result()
            return Status(job, state, records, result, problem, changed[0])
        except (OSError, ValueError) as error:  # files of one run, damaged or gone, are no reason to end the others
            return Status(job, state, problem=problem or str(error))

    def _stop_runs_if_due(self) -> None:
        if len(self._signals) > 1:
            self._runner.kill()
        elif self._is_stopping:
            self._runner.stop()

    @property
    def _is_stopping(self) -> bool:
        """Whether runs are to save and end: a signal came, or the time is over."""
        return bool(self._signals) or (self._limit is not None and self._limit.left <= 0)

    def _stop_and_wait(self) -> None:
        self._runner.stop()
        while self._at_work and len(self._signals) < 2:
            time.sleep(INTERVAL)
            self._record_endings()

    def _record_endings(self) -> None:
        for folder, ending in self._runner.ended().items():
            self._at_work.remove(folder)
            if ending.code == 0:
                self._ended[folder] = self._read_status(self._jobs[folder], State.DONE)
            elif self._is_stopping and ending.by_signal:
                self._ended[folder] = self._read_status(self._jobs[folder], State.STOPPED)
            elif ending.code == TakenError.exit_code:
                self._ended[folder] = self._read_status(self._jobs[folder], State.SKIPPED, ending.problem)
            else:
                files = RunFolder(folder)
                with suppress(OSError):  # the folder may be gone
                    # It was killed, or failed too early to write this itself.
                    if files.read_problem() is None and not files.is_taken():
                        files.write_problem(ending.problem or f"exit code {ending.code}")
                self._ended[folder] = self._read_status(self._jobs[folder], State.FAILED, ending.problem)

    def _has_teacher_elsewhere(self, job: Job) -> bool:
        """Return whether another process still trains the run's teacher."""
        teacher = self._queue.teacher(job)
        return (
            teacher in self._ended and self._ended[teacher].state is State.SKIPPED and not self._jobs[teacher].finished
        )

    def _start_waiting(self) -> None:
        while not self._is_stopping and self._runner.can_start_another() and (job := self._queue.take(self._ended)):
            if self._has_teacher_elsewhere(job):
                problem = "its teacher is trained by another process: run the same command when that has ended"
                self._ended[job.folder] = self._read_status(job, State.SKIPPED, problem)
                continue
            try:
                job.folder.mkdir(parents=True, exist_ok=True)
                job.files.claim(job.recipe)
                if job.files.read_result() is not None:
                    self._ended[job.folder] = self._read_status(job, State.DONE)
                else:
                    job.files.forget_problem()
                    self._runner.start(job)
                    self._at_work.add(job.folder)
            except (OSError, ValueError) as error:
                self._ended[job.folder] = Status(job, State.FAILED, problem=str(error))
