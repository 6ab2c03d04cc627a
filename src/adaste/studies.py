"""Many runs: each in a child process, several at a time. What is finished is skipped, what was interrupted goes on."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import FrameType, MappingProxyType

from adaste.recipe import Recipe
from adaste.records import Record
from adaste.results import Result, best_of, claim, read_records, read_result

INTERVAL = 0.25
"""Seconds between two looks at the children."""

RECENT = 5
"""Epochs whose mean says how long the next ones will take."""

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that let all children save."""

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class State(Enum):
    """What has become of a run."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Job:
    """A run to be made."""

    name: str
    recipe: Recipe
    folder: Path


@dataclass(frozen=True)
class Status:
    """How far a run is, as its files tell.

    problem  why it failed, in one line.
    updated  when its last record was written, in seconds since the epoch.
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
        return next((r.test_accuracy for r in reversed(self.records) if r.test_accuracy is not None), None)

    @property
    def best(self) -> float | None:
        """The test accuracy of the best epoch so far."""
        best = best_of(self.records)
        return best.test_accuracy if best else None

    @property
    def seconds_left(self) -> float | None:
        """How long it will still take if it goes on like this; None where nothing can be said."""
        if self.state is not State.RUNNING or not self.records:
            return None
        recent = self.records[-RECENT:]
        per_epoch = sum(record.seconds + record.evaluation_seconds for record in recent) / len(recent)
        left = (self.job.recipe.epochs - len(self.records)) * per_epoch
        return max(0.0, left - (time.time() - self.updated))


def folder_of(name: str, recipe: Recipe, runs: Path) -> Path:
    """Where a run belongs: equal recipes in equal folders, so that what was begun is found again."""
    return runs / f"{name}-{recipe.digest}"


class Study:
    """Jobs at work, at most `processes` at a time.

        statuses = Study(jobs, processes=4, options=["--device", "cuda"]).run(watch=print)

    options    further arguments of `adaste train`.
    variables  further environment variables of the children.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        processes: int = 1,
        options: Sequence[str] = (),
        variables: Mapping[str, str] = NO_VARIABLES,
    ) -> None:
        if processes < 1:
            raise ValueError(f"a study needs at least one process, got {processes}")
        self._jobs, self._processes = list({job.folder: job for job in jobs}.values()), processes
        self._options, self._variables = list(options), dict(variables)
        self._waiting = list(self._jobs)
        self._children: dict[Path, _Child] = {}
        self._ended: dict[Path, Status] = {}
        self._read: dict[Path, tuple[int, list[Record]]] = {}
        self._signals: list[int] = []

    @property
    def stopped_by(self) -> int | None:
        """The signal that ended it before all was done."""
        return self._signals[0] if self._signals else None

    def run(self, watch: Callable[[list[Status]], None]) -> list[Status]:
        """Run all jobs; `watch` is told how they are doing, a few times per second and at the end.

        A run that fails does not stop the others. Ctrl-C, SIGTERM and SIGHUP let the children save; a second one kills.
        """
        with self._listening():
            try:
                while True:
                    self._look_after_children()
                    self._start_children()
                    watch(self.statuses())
                    if not self._children:
                        return self.statuses()
                    time.sleep(INTERVAL)
            finally:
                for child in self._children.values():
                    child.kill()

    def statuses(self) -> list[Status]:
        """How every job is doing, in the order they were given."""
        return [self._ended.get(job.folder) or self._status(job) for job in self._jobs]

    def _status(self, job: Job) -> Status:
        if self._signals and job.folder not in self._children:
            return self._seen(job, State.STOPPED)
        return self._seen(job, State.RUNNING if job.folder in self._children else State.WAITING)

    def _seen(self, job: Job, state: State, problem: str | None = None) -> Status:
        path = job.folder / "metrics.jsonl"
        changed = path.stat().st_mtime_ns if path.exists() else 0
        try:
            if job.folder not in self._read or self._read[job.folder][0] != changed:
                self._read[job.folder] = changed, read_records(job.folder)
            return Status(job, state, self._read[job.folder][1], read_result(job.folder), problem, changed / 1e9)
        except ValueError as error:  # damaged files of one run are no reason to end the others
            return Status(job, state, problem=problem or str(error))

    def _start_children(self) -> None:
        while self._waiting and not self._signals and len(self._children) < self._processes:
            job = self._waiting.pop(0)
            try:
                job.folder.mkdir(parents=True, exist_ok=True)
                claim(job.recipe, job.folder)
                if read_result(job.folder) is not None:
                    self._ended[job.folder] = self._seen(job, State.DONE)
                else:
                    self._children[job.folder] = _Child(job, self._options, self._variables)
            except (OSError, ValueError) as error:
                self._ended[job.folder] = Status(job, State.FAILED, problem=str(error))

    def _look_after_children(self) -> None:
        for child in self._children.values():
            child.tell(len(self._signals))
        for folder, child in list(self._children.items()):
            code = child.process.poll()
            if code is None:
                continue
            del self._children[folder]
            if code == 0:
                self._ended[folder] = self._seen(child.job, State.DONE)
            elif self._signals:
                self._ended[folder] = self._seen(child.job, State.STOPPED)
            else:
                self._ended[folder] = self._seen(child.job, State.FAILED, child.problem(code))

    @contextmanager
    def _listening(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def hear(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)

        # A terminal that is closed would leave the children behind, unless it was said (nohup) that all should go on.
        heard = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, hear) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Child:
    """A process that makes a run in a folder that holds its recipe; what it prints goes to log.txt there."""

    def __init__(self, job: Job, options: Sequence[str], variables: Mapping[str, str]) -> None:
        self.job, self._told = job, 0
        recipe = job.folder / "recipe.json"
        self._log = job.folder / "log.txt"
        with self._log.open("ab") as log:
            self._start_of_log = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "adaste", "train", str(recipe), "--folder", str(job.folder), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                process_group=0,  # a Ctrl-C at the terminal reaches the study alone, which passes it on once
            )

    def tell(self, signals: int) -> None:
        """Pass on that so many signals have come: the first lets it save, the next one kills it."""
        if signals > 0 and self._told == 0:
            self.process.terminate()
        if signals > 1 and self._told < 2:
            self.kill()
        self._told = signals

    def kill(self) -> None:
        """End it now, with all processes it has started itself."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def problem(self, code: int) -> str:
        """Why it ended with this code, in one line: the last one it printed."""
        with self._log.open("rb") as log:
            log.seek(self._start_of_log)
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        ending = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return ending if code < 0 or not lines else lines[-1].removeprefix("error: ")
