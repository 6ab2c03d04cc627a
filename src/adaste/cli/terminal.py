"""Show a run or a study on a terminal while it is made: the most important facts first, as its width allows.

All that is drawn anew ends with an empty line, on which the cursor stands. Text that the terminal itself writes
there, as the ^C of an interrupt, is wiped away with it and pushes nothing up that would then stay.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.markup import escape
from rich.progress import Progress, Task
from rich.table import Table
from rich.text import Text

from adaste.cli.console import Plain, duration, number, numbers_of, say, summary_of, title
from adaste.runs.study.study import State, Status
from adaste.training.records import Record
from adaste.training.trainer import Training

REFRESH = 0.2
"""Seconds between two drawings: one takes a few milliseconds of the process that trains."""

SHORTEST_BAR = 10
GAP = "  "

COLOURS = MappingProxyType(
    {
        State.WAITING: "dim",
        State.RUNNING: "cyan",
        State.DONE: "green",
        State.FAILED: "red",
        State.STOPPED: "yellow",
        State.SKIPPED: "yellow",
    }
)

LIVELY = (State.RUNNING, State.FAILED, State.STOPPED, State.SKIPPED, State.WAITING, State.DONE)
"""The order of rows while a study runs: where there are more than fit, those at work are seen."""


class Bar(Plain):
    """An observer for a terminal: a bar over the whole run with the numbers of the last epoch.

    Drawn from the thread that trains, seldom: a thread of its own would take the interpreter from it at any time.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._progress = _RunProgress(console=console, auto_refresh=False, transient=True, speed_estimate_period=60.0)
        self._task = self._progress.add_task("", total=None, start=False, epoch="", numbers=())
        self._drawn = 0.0
        self._steps_per_epoch = 0

    def begins(self, training: Training, records: list[Record]) -> None:
        super().begins(training, records)
        self._steps_per_epoch = training.steps_per_epoch
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
        if self._progress.live.is_started:
            self._progress.stop()
            self._console.print(_Line(self._progress.tasks[0]))

    def _epoch(self, epoch: int) -> str:
        return f"epoch {epoch + 1}/{self._epochs}"


class _RunProgress(Progress):
    """Rich's progress, for its estimate of the time left, shown as one line of ours."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield _Line(task)
        yield ""


@dataclass(frozen=True)
class _Line:
    """A run in one line: epoch, bar, accuracy and time left; then as many of the other numbers as there is room for."""

    task: Task

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        accuracy, *others = self.task.fields["numbers"] or [""]
        epoch, left = self.task.fields["epoch"], f"left {_clock(self.task.time_remaining)}"
        told = [accuracy] * bool(accuracy) + [left]
        room = options.max_width - len(GAP.join([epoch, *told])) - len(GAP) - SHORTEST_BAR
        for text in (*others, f"after {_clock(self.task.finished_time or self.task.elapsed)}"):
            room -= len(GAP) + len(text)
            if room < 0:
                break
            told.append(text)
        words = GAP.join(["", *told])
        width = max(0, options.max_width - len(epoch) - len(GAP) - len(words))
        # Not rich's own bar: without colours that ends where the work does, and what stands behind it would move.
        done = round(width * self.task.percentage / 100)
        heavy, light = ("#", "-") if options.ascii_only else ("━", "─")
        bar = (heavy * done, "cyan"), (light * (width - done), "dim")
        yield Text.assemble(epoch + GAP, *bar, words, no_wrap=True, overflow="crop")


class LiveTable:
    """A study for a terminal: one table that is kept up to date, and stays at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._statuses: Sequence[Status] = ()

    def __call__(self, statuses: Sequence[Status]) -> None:
        self._statuses = statuses
        self._live.update(_Screen(statuses), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()
        self._console.print(table_of(self._statuses, self._console.width))
        for status in self._statuses:
            if status.problem:
                say(self._console, f"{title(status)}: {status.problem}")
        say(self._console, summary_of(self._statuses))


@dataclass(frozen=True)
class _Screen:
    """As many rows of a study as a screen holds, those at work first."""

    statuses: Sequence[Status]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(1, console.height - 3)  # but for the head of the table, the summary and an empty line
        rows = sorted(self.statuses, key=lambda status: LIVELY.index(status.state))
        yield table_of(rows[:room], options.max_width)
        more = f" ({len(rows) - room} more)" if len(rows) > room else ""
        yield Text(f"{summary_of(self.statuses)}{more}", no_wrap=True, overflow="ellipsis")
        yield ""


@dataclass(frozen=True)
class _Column:
    """A column of a study: its heading, its cells, and a cell of the usual width, so that it seldom changes."""

    name: str
    cells: tuple[str, ...]
    usual: str = ""

    @property
    def width(self) -> int:
        return max(map(len, (self.name, self.usual, *self.cells)))


def table_of(statuses: Sequence[Status], width: int) -> Table:
    """Return a study as a table: a line per run, with as many columns as fit.

    Names are shortened in the middle: their ends tell runs apart.
    """
    names = [title(status) for status in statuses]
    state, *columns = _columns(statuses)
    told, wanted = columns[:3], columns[3:]
    longest = max(map(len, ("run", *names)))
    room = width - state.width - sum(len(GAP) + column.width for column in told) - len(GAP)
    least = min(longest, width // 2)
    for column in wanted:
        if room - len(GAP) - column.width < least:
            break
        room -= len(GAP) + column.width
        told.append(column)
    table = Table(box=None, padding=(0, len(GAP), 0, 0), pad_edge=False)
    table.add_column("run", no_wrap=True, width=max(1, min(longest, room)))
    table.add_column(state.name, no_wrap=True, width=state.width)
    for column in told:
        table.add_column(column.name, justify="right", no_wrap=True, width=column.width)
    for index, (name, status) in enumerate(zip(names, statuses, strict=True)):
        table.add_row(
            escape(shorten(name, max(1, room))),
            f"[{COLOURS[status.state]}]{status.state.value}[/]",
            *(column.cells[index] for column in told),
        )
    return table


def _columns(statuses: Sequence[Status]) -> list[_Column]:
    """Return all columns but the names, the most important first."""
    lasts = [status.records[-1] if status.records else None for status in statuses]
    lefts = [status.seconds_left for status in statuses]
    return [
        _Column("state", tuple(status.state.value for status in statuses)),
        _Column("epoch", tuple(f"{len(status.records)}/{status.job.recipe.epochs}" for status in statuses)),
        _Column("test %", tuple(number(status.accuracy) for status in statuses)),
        _Column("left", tuple("" if left is None else duration(left) for left in lefts), "59:59 min"),
        _Column("best %", tuple(number(status.best) for status in statuses)),
        _Column("loss", tuple(f"{last.loss:.4f}" if last else "" for last in lasts)),
        _Column(
            "flips %",
            tuple(number(100 * last.flipped if last and last.flipped is not None else None) for last in lasts),
        ),
        _Column("images/s", tuple(f"{last.images_per_second:,.0f}" if last else "" for last in lasts)),
    ]


def shorten(name: str, width: int) -> str:
    """Return the name, its middle cut out if it is longer than `width`."""
    if len(name) <= width:
        return name
    head = max(0, width - 2) // 2
    tail = max(0, width - 2 - head)
    return f"{name[:head]}..{name[len(name) - tail :]}"[:width]


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "-:--:--"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
