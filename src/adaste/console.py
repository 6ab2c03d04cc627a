"""What a terminal shows of a run, and of a study."""

import time
from collections.abc import Sequence
from types import MappingProxyType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from adaste.observer import Observer
from adaste.records import Record
from adaste.results import Result, best_of, last_tested
from adaste.studies.study import State, Status
from adaste.train import Training

REFRESH = 0.2
"""Seconds between two drawings: one takes a few milliseconds of the process that trains."""

COLOURS = MappingProxyType(
    {
        State.WAITING: "dim",
        State.RUNNING: "cyan",
        State.DONE: "green",
        State.FAILED: "red",
        State.STOPPED: "yellow",
    }
)


class Quiet:
    """An observer for output that goes to a file: one line when training begins, and what is worth a line."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begins(self, training: Training, records: list[Record]) -> None:
        self.says(opening(training))

    def stepped(self, training: Training) -> None: ...
    def epoch_ended(self, record: Record) -> None: ...

    def says(self, text: str) -> None:
        _print(self._console, text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


class Bar(Quiet):
    """An observer for a terminal: a bar over the whole run with the numbers of the last epoch.

    Drawn from the thread that trains, seldom: a thread of its own would take the interpreter from it at any time.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
            expand=True,
            speed_estimate_period=60.0,
        )
        self._task = self._progress.add_task("", total=None, start=False, epoch="", numbers="")
        self._drawn = 0.0
        self._epochs = self._steps_per_epoch = 0
        self._records: list[Record] = []

    def begins(self, training: Training, records: list[Record]) -> None:
        super().begins(training, records)
        self._epochs, self._steps_per_epoch = training.recipe.epochs, training.steps_per_epoch
        self._records = list(records)
        # Not an update: what an earlier start has done says nothing of the speed of this one.
        self._progress.reset(
            self._task,
            total=self._epochs * self._steps_per_epoch,
            completed=training.epoch * self._steps_per_epoch + training.step,
            epoch=self._epoch(training.epoch),
            numbers=numbers_of(self._records),
        )
        self._progress.start()

    def stepped(self, training: Training) -> None:
        now = time.monotonic()
        if now - self._drawn >= REFRESH:
            self._drawn = now
            done = training.epoch * self._steps_per_epoch + training.step
            self._progress.update(self._task, completed=done, epoch=self._epoch(training.epoch))
            self._progress.refresh()

    def epoch_ended(self, record: Record) -> None:
        self._records.append(record)
        self._progress.update(
            self._task,
            completed=(record.epoch + 1) * self._steps_per_epoch,
            epoch=self._epoch(record.epoch),
            numbers=numbers_of(self._records),
        )

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def _epoch(self, epoch: int) -> str:
        return f"{epoch + 1}/{self._epochs}"


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
    """A study for output that goes to a file: one line for every run that has ended."""

    def __init__(self, console: Console) -> None:
        self._console, self._told = console, set[str]()

    def __call__(self, statuses: Sequence[Status]) -> None:
        for status in statuses:
            folder = str(status.job.folder)
            if status.state not in (State.WAITING, State.RUNNING) and folder not in self._told:
                self._told.add(folder)
                _print(self._console, line_of(status))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


class LiveTable:
    """A study for a terminal: one table that is kept up to date, and stays at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._statuses: Sequence[Status] = ()

    def __call__(self, statuses: Sequence[Status]) -> None:
        self._statuses = statuses
        # Where there are more than fit, those at work are seen.
        order = [State.RUNNING, State.FAILED, State.STOPPED, State.WAITING, State.DONE]
        self._live.update(table_of(sorted(statuses, key=lambda status: order.index(status.state))), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()
        self._console.print(table_of(self._statuses))


def table_of(statuses: Sequence[Status]) -> Table:
    """A study as a table: a row per run."""
    counts = [f"{sum(s.state is state for s in statuses)} {state.value}" for state in State]
    table = Table(caption=", ".join(count for count in counts if not count.startswith("0 ")), expand=True)
    table.add_column("run", ratio=1, overflow="fold")
    table.add_column("state")
    for name in ("epoch", "loss", "test %", "best %", "flips %", "images/s", "left"):
        table.add_column(name, justify="right", no_wrap=True)
    for status in statuses:
        last = status.records[-1] if status.records else None
        problem = f"\n[red]{escape(status.problem)}[/red]" if status.problem else ""
        table.add_row(
            f"{escape(title(status))}{problem}",
            f"[{COLOURS[status.state]}]{status.state.value}[/]",
            f"{len(status.records)}/{status.job.recipe.epochs}",
            f"{last.loss:.4f}" if last else "",
            _number(status.accuracy),
            _number(status.best),
            _number(100 * last.flipped if last and last.flipped is not None else None),
            f"{last.images_per_second:,.0f}" if last else "",
            duration(status.seconds_left) if status.seconds_left is not None else "",
        )
    return table


def line_of(status: Status) -> str:
    """A run of a study that has ended, in one line."""
    if status.result is not None:
        return f"{title(status)}: {outcome(status.result)}"
    progress = f"{len(status.records)}/{status.job.recipe.epochs} epochs"
    return f"{title(status)}: {status.state.value} after {progress}{f': {status.problem}' if status.problem else ''}"


def title(status: Status) -> str:
    """A run of a study by its name and seed."""
    return f"{status.job.name}, seed {status.job.recipe.seed}"


def numbers_of(records: Sequence[Record]) -> str:
    """What the last of the records says, and the best accuracy so far."""
    if not records:
        return ""
    last, tested, best = records[-1], last_tested(records), best_of(records)
    parts = [f"loss {last.loss:.4f}"]
    if tested and best:
        parts.append(f"test {_number(tested.test_accuracy)} % (best {_number(best.test_accuracy)} %)")
    if last.flipped is not None:
        parts.append(f"flips {100 * last.flipped:.2f} %")
    return "  ".join([*parts, f"{last.images_per_second:,.0f} images/s"])


def opening(training: Training) -> str:
    """What is about to happen, in one line."""
    recipe = training.recipe
    start = f", going on in epoch {training.epoch + 1}" if training.epoch or training.step else ""
    return (
        f"{type(recipe.estimator).__name__}, {type(recipe.network).__name__} on {recipe.data}, {recipe.epochs} epochs, "
        f"seed {recipe.seed}, on {training.device} ({training.choice.way.value}){start}"
    )


def outcome(result: Result) -> str:
    """A finished run in one line."""
    return (
        f"{result.last_accuracy:.2f} % after {result.epochs} epochs, "
        f"best {result.best_accuracy:.2f} % (epoch {result.best_epoch + 1}), {duration(result.seconds)}"
    )


def duration(seconds: float) -> str:
    """Seconds for people: 4.2 s, 3:07 min, 2:14:09 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def _print(console: Console, text: str) -> None:
    """As it is: names of files may hold what looks like markup, and lines are the terminal's to break."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
