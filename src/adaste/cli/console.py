"""Describe a run and a study in words, line by line where output goes to a file."""

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console

from adaste.runs.folder import Result
from adaste.runs.run import Observer
from adaste.runs.study.schedule import seconds_to_end
from adaste.runs.study.study import Job, State, Status
from adaste.training.records import Record, best_of, last_tested, seconds_left
from adaste.training.trainer import Training

SELDOM = 30.0
"""Seconds after which a file gets a line even if no epoch has ended."""


class Plain:
    """An observer for output that goes to a file: a line at the start, one per epoch, one at least every 30 s."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._records: list[Record] = []
        self._epochs = 0
        self._told = 0.0

    def begins(self, training: Training, records: list[Record]) -> None:
        self._records, self._epochs = list(records), training.recipe.epochs
        self.says(opening(training))

    def stepped(self, training: Training) -> None:
        if time.monotonic() - self._told >= SELDOM:
            done = f"step {training.step} of {training.steps_per_epoch}"
            self.says(f"epoch {training.epoch + 1}/{self._epochs}  {done}")

    def epoch_ended(self, record: Record) -> None:
        self._records.append(record)
        words = [f"epoch {record.epoch + 1}/{self._epochs}", *numbers_of(self._records)]
        if record.epoch + 1 < self._epochs:
            words.append(f"left {duration(seconds_left(self._records, self._epochs))}")
        self.says("  ".join(words))

    def says(self, text: str) -> None:
        self._told = time.monotonic()
        say(self._console, text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


class Several:
    """Observers who watch the same run."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def begins(self, training: Training, records: list[Record]) -> None:
        for observer in self._observers:
            observer.begins(training, records)

    def stepped(self, training: Training) -> None:
        for observer in self._observers:
            observer.stepped(training)

    def epoch_ended(self, record: Record) -> None:
        for observer in self._observers:
            observer.epoch_ended(record)

    def says(self, text: str) -> None:
        for observer in self._observers:
            observer.says(text)


class Lines:
    """A study for output that goes to a file: a line per run that has ended, and on all at both ends and every 30 s."""

    def __init__(self, console: Console) -> None:
        self._console, self._ended = console, set[str]()
        self._statuses: Sequence[Status] = ()
        self._told = 0.0

    def __call__(self, statuses: Sequence[Status]) -> None:
        begins, self._statuses = not self._statuses, statuses
        for status in statuses:
            folder = str(status.job.folder)
            if status.state not in (State.WAITING, State.RUNNING) and folder not in self._ended:
                self._ended.add(folder)
                self._say(line_of(status))
        if begins or time.monotonic() - self._told >= SELDOM:
            self._say(summary_of(statuses))

    def _say(self, text: str) -> None:
        self._told = time.monotonic()
        say(self._console, text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._say(summary_of(self._statuses))


def line_of(status: Status) -> str:
    """Return one line about a run of a study that has ended."""
    if status.result is not None:
        return f"{title(status)}: {outcome(status.result)}"
    progress = f"{len(status.records)}/{status.job.recipe.epochs} epochs"
    return f"{title(status)}: {status.state.value} after {progress}{f': {status.problem}' if status.problem else ''}"


def title(status: Status) -> str:
    """Return the name and seed of a run of a study."""
    return f"{status.job.name}, seed {status.job.recipe.seed}"


def summary_of(statuses: Sequence[Status]) -> str:
    """Return one line about a study: how many runs are in which state, and the epochs of the running ones."""
    counts = {state: sum(status.state is state for status in statuses) for state in State}
    states = ", ".join(f"{count} {state.value}" for state, count in counts.items() if count)
    running = [status for status in statuses if status.state is State.RUNNING]
    progress = ", ".join(f"{len(status.records)}/{status.job.recipe.epochs}" for status in running)
    return f"{states}; epochs {progress}" if progress else states


def summary_of_rest(jobs: Sequence[Job], at_once: int) -> str:
    """Return one line on the runs of a study that are not finished: how many, and how long they still take."""
    needs = [seconds for seconds in seconds_to_end(jobs, at_once).values() if seconds != 0]
    known = [seconds for seconds in needs if seconds is not None]
    words = f"{len(needs)} of {len({job.folder for job in jobs})} runs left"
    if known:
        # The machine is never idle: while fewer runs share it, each of them is faster.
        words += f", about {duration(sum(known) / min(at_once, len(needs)))} with {at_once} at a time"
        words += f" (the shortest takes {duration(min(known))})"
    if len(known) < len(needs):
        words += f"; {len(needs) - len(known)} without an estimate"
    return words


def numbers_of(records: Sequence[Record]) -> list[str]:
    """Return the numbers of the last record and the best accuracy so far, the most important first."""
    if not records:
        return []
    last, tested, best = records[-1], last_tested(records), best_of(records)
    parts = []
    if tested and best:
        parts += [f"test {number(tested.test_accuracy)} %", f"best {number(best.test_accuracy)} %"]
    parts.append(f"loss {last.loss:.4f}")
    if last.flipped is not None:
        parts.append(f"flips {100 * last.flipped:.2f} %")
    return [*parts, f"{last.images_per_second:,.0f} images/s"]


def opening(training: Training) -> str:
    """Return one line about a run that starts."""
    recipe = training.recipe
    start = f", going on in epoch {training.epoch + 1}" if training.epoch or training.step else ""
    return (
        f"{type(recipe.estimator).__name__}, {type(recipe.network).__name__} on {recipe.data}, {recipe.epochs} epochs, "
        f"seed {recipe.seed}, on {training.device} ({training.execution.mode.value}){start}"
    )


def outcome(result: Result) -> str:
    """Return one line about a finished run."""
    return (
        f"{result.last_accuracy:.2f} % after {result.epochs} epochs, "
        f"best {result.best_accuracy:.2f} % (epoch {result.best_epoch + 1}), {duration(result.seconds)}"
    )


def duration(seconds: float) -> str:
    """Return a duration as text: 4.2 s, 3:07 min, 2:14:09 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def say(console: Console, text: str) -> None:
    """Print a line unchanged: file names may contain markup, and the terminal breaks long lines."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def number(value: float | None) -> str:
    """Return a percentage with two digits; an empty text for None."""
    return "" if value is None else f"{value:.2f}"
