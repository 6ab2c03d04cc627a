"""What is shown of a run and of a study, on a terminal and in a file."""

import io
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from adaste.cli import console
from adaste.cli import terminal as displays
from adaste.cli.console import SELDOM, Lines, Plain, Several, duration, outcome
from adaste.cli.terminal import Bar, LiveTable
from adaste.data import load
from adaste.recipes.presets import recipe
from adaste.runs.folder import Result
from adaste.runs.run import run
from adaste.runs.study.study import Job, State, Status
from adaste.training.trainer import Record, Training


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def terminal(width: int = 160) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=40, color_system=None)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def record(epoch: int, accuracy: float | None, held_out: float | None = None) -> Record:
    return Record(
        epoch=epoch,
        loss=0.5,
        train_accuracy=90.0,
        test_loss=0.4,
        test_accuracy=accuracy,
        holdout_accuracy=held_out,
        lr=0.1,
        method={},
        flipped=0.0123,
        latent=1.0,
        seconds=2.0,
        images_per_second=12345.0,
        evaluation_seconds=1.0,
    )


def test_a_terminal_sees_the_numbers_of_the_last_epoch_and_the_whole_bar(tmp_path: Path, data_folder: Path) -> None:
    screen = terminal()
    with Bar(screen) as bar:
        result = run(
            recipe("digits-mlp-adaste", epochs=3),
            tmp_path / "run",
            load("digits", data_folder),
            device=torch.device("cpu"),
            observer=bar,
        )
    last = printed(screen).split("epoch ")[-1]
    assert last.startswith("3/3")
    assert f"test {result.last_accuracy:.2f} %  left 0:00:00  best {result.best_accuracy:.2f} %" in last
    assert all(word in last for word in ("loss", "flips", "images/s"))


def test_steps_are_drawn_at_most_a_few_times_per_second(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(recipe("digits-mlp-adaste", epochs=3), load("digits", data_folder), device=torch.device("cpu"))
    clock = [100.0]
    monkeypatch.setattr(displays.time, "monotonic", lambda: clock[0])
    with Bar(terminal()) as bar:
        bar.begins(training, [])
        drawn = []
        monkeypatch.setattr(bar._progress, "refresh", lambda: drawn.append(clock[0]))
        for _ in range(1000):
            clock[0] += 0.001
            bar.stepped(training)
        assert 4 <= len(drawn) <= 10


def test_a_resumed_run_does_not_take_earlier_epochs_for_speed(data_folder: Path) -> None:
    training = Training(recipe("digits-mlp-adaste", epochs=50), load("digits", data_folder), device=torch.device("cpu"))
    training.epoch = 25
    screen = terminal()
    with Bar(screen) as bar:
        bar.begins(training, [record(epoch, 80.0 + epoch) for epoch in range(25)])
        (task,) = bar._progress.tasks
        assert task.completed == 25 * training.steps_per_epoch
        assert task.speed is None
    assert "going on in epoch 26" in printed(screen)
    assert "test 104.00 %" in printed(screen) and "best 104.00 %" in printed(screen)


def test_a_file_gets_a_line_at_the_start_and_one_per_epoch_and_no_control_characters(data_folder: Path) -> None:
    training = Training(recipe("digits-mlp-adaste", epochs=3), load("digits", data_folder), device=torch.device("cpu"))
    screen = Console(file=io.StringIO(), width=40)
    with Plain(screen) as plain:
        plain.begins(training, [])
        for epoch in range(3):
            plain.stepped(training)
            plain.epoch_ended(record(epoch, 90.0))
    first, *others = printed(screen).splitlines()
    assert "3 epochs" in first
    numbers = "test 90.00 %  best 90.00 %  loss 0.5000  flips 1.23 %  12,345 images/s"
    assert others == [f"epoch 1/3  {numbers}  left 6.0 s", f"epoch 2/3  {numbers}  left 3.0 s", f"epoch 3/3  {numbers}"]
    assert "\x1b" not in printed(screen)


def test_a_file_gets_a_line_now_and_then_in_long_epochs(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(recipe("digits-mlp-adaste", epochs=3), load("digits", data_folder), device=torch.device("cpu"))
    screen, clock = Console(file=io.StringIO(), width=40), [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    with Plain(screen) as plain:
        plain.begins(training, [])
        for training.step in range(1, 10):
            clock[0] += SELDOM / 3
            plain.stepped(training)
    assert printed(screen).splitlines()[1:] == [f"epoch 1/3  step {step} of 10" for step in (3, 6, 9)]


def test_several_observers_hear_the_same(data_folder: Path) -> None:
    screens = [Console(file=io.StringIO()) for _ in range(2)]
    Several(*map(Plain, screens)).says("[bold]something[/bold]")
    assert [printed(screen) for screen in screens] == ["[bold]something[/bold]\n"] * 2


def statuses(tmp_path: Path) -> list[Status]:
    jobs = [Job(f"run-{index}", recipe("digits-mlp-adaste", epochs=10), tmp_path / str(index)) for index in range(4)]
    records = [record(0, 90.0, held_out=1.0), record(1, 95.0, held_out=3.0), record(2, 96.0, held_out=2.0)]
    return [
        Status(jobs[0], State.DONE, records, Result(96.0, 95.0, 1, 3, 75.0)),
        Status(jobs[1], State.FAILED, [], problem="no such [thing]"),
        Status(jobs[2], State.RUNNING, records, updated=time.time()),
        Status(jobs[3], State.WAITING),
    ]


def test_a_study_on_a_terminal_is_a_table_with_every_run(tmp_path: Path) -> None:
    screen = terminal()
    with LiveTable(screen) as table:
        table(statuses(tmp_path))
    final = printed(screen).split("run  ")[-1]
    rows = {
        line.split()[0].rstrip(","): line for line in final.splitlines() if line.startswith("run-") and "  " in line
    }
    assert list(rows) == [f"run-{index}" for index in range(4)]
    running = rows["run-2"]
    assert all(word in running for word in ("running", "3/10", "0.5000", "96.00", "95.00", "1.23", "12,345", "s"))
    assert "no such [thing]" in final
    assert "1 waiting, 1 running, 1 done, 1 failed" in final


def test_a_study_in_a_file_is_one_line_per_run_that_has_ended_and_now_and_then_one_on_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, clock = Console(file=io.StringIO(), width=40), [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    with Lines(screen) as lines:
        for _ in range(4):
            lines(statuses(tmp_path))
            clock[0] += SELDOM / 2
    on_all = "1 waiting, 1 running, 1 done, 1 failed; epochs 3/10"
    assert printed(screen).splitlines() == [
        "run-0, seed 0: 96.00 % after 3 epochs, best 95.00 % (epoch 2), 1:15 min",
        "run-1, seed 0: failed after 0/10 epochs: no such [thing]",
        *[on_all] * 3,
    ]


def test_the_time_left_counts_from_the_last_record(tmp_path: Path) -> None:
    running = statuses(tmp_path)[2]
    assert running.seconds_left == pytest.approx(7 * 3.0, abs=0.5)
    assert statuses(tmp_path)[3].seconds_left is None


@pytest.mark.parametrize(("seconds", "words"), [(4.21, "4.2 s"), (187, "3:07 min"), (8049, "2:14:09 h")])
def test_durations_are_for_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_epochs_are_counted_from_one_where_people_read_them() -> None:
    assert outcome(Result(90.0, 91.0, 0, 5, 10.0)) == "90.00 % after 5 epochs, best 91.00 % (epoch 1), 10.0 s"
