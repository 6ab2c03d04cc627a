"""What is seen of a run and of a study in real terminals of several widths, also after Ctrl-C."""

import json
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from adaste.cli import main
from adaste.cli.terminal import LiveTable, shorten
from adaste.recipes.presets import recipe
from adaste.runs.study.processes import Ending
from adaste.runs.study.study import Job, State, Study
from adaste.training.records import Record
from support.terminals import terminal

WIDTHS = [60, 80, 100, 160]
LESSER = ["best", "loss", "flips", "images/s", "after"]
"""What a run may leave out, that which goes last first."""


def record(epoch: int) -> Record:
    return Record(
        epoch=epoch,
        loss=0.5,
        train_accuracy=90.0,
        test_loss=0.4,
        test_accuracy=91.25,
        holdout_accuracy=None,
        lr=0.1,
        method={},
        flipped=0.0123,
        latent=1.0,
        seconds=2.0,
        images_per_second=12345.0,
        evaluation_seconds=1.0,
    )


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_is_one_line_that_leaves_lesser_things_out_and_nothing_broken_after_an_interrupt(
    width: int, tmp_path: Path
) -> None:
    arguments = ["train", "digits-mlp-adaste", "--epochs", "900", "--folder", str(tmp_path / "run")]
    with terminal(width, lambda: main([*arguments, "--data", str(tmp_path), "--threads", "1"])) as screen:
        lines = screen.until(lambda lines: "%  left 0:" in lines[-1])
        (shown,) = [line for line in lines if "epoch " in line]
        assert lines[-1] == shown
        assert shown.startswith("epoch ") and "/900  ─" in shown.replace("━", "─")
        assert 0 < shown.index("─") < shown.index(" %  left 0:") <= width
        there = [word in shown for word in LESSER]
        assert there == sorted(there, reverse=True)
        assert any(there) == (width > 60) and all(there) == (width == 160)
        screen.press(b"\x03")
        assert screen.ended() == 128 + signal.SIGINT
    lines = screen.screen.lines
    (shown,) = [line for line in lines if line.startswith("epoch ")]
    assert "left" in shown and "^C" not in "".join(lines)
    after = "".join(lines[lines.index(shown) + 1 :])
    assert after.startswith(str(tmp_path)) and after.endswith("run the same command again to resume")


class Pretended:
    """A runner whose runs write three records each and go on until they are stopped."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._running: dict[Path, int] = {}
        self._stopped = False

    def can_start_another(self) -> bool:
        return len(self._running) < self._count

    def start(self, job: Job) -> None:
        self._running[job.folder] = 0
        lines = [json.dumps(asdict(record(epoch))) + "\n" for epoch in range(3)]
        (job.folder / "metrics.jsonl").write_text("".join(lines))

    def running(self) -> Collection[Path]:
        return list(self._running)

    def ended(self) -> Mapping[Path, Ending]:
        if not self._stopped:
            return {}
        endings = {folder: Ending(128 + signal.SIGINT, "stopped") for folder in self._running}
        self._running.clear()
        time.sleep(0.3)
        return endings

    def stop(self) -> None:
        self._stopped = True

    def kill(self) -> None:
        self._running.clear()


def study(folder: Path, count: int) -> int:
    """A study of so many runs, six at a time."""
    jobs = [
        Job("cifar10-resnet18-adaste-printed-annealed", recipe("digits-mlp-adaste", seed=seed), folder / str(seed))
        for seed in range(count)
    ]
    made = Study(jobs, Pretended(6))
    with LiveTable(Console()) as display:
        made.run(display)
    return made.stopped_by or 0


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_study_is_one_line_per_run_and_nothing_broken_after_an_interrupt(width: int, tmp_path: Path) -> None:
    with terminal(width, lambda: study(tmp_path, 8)) as screen:
        lines = screen.until(lambda lines: any("6 running" in line for line in lines))
        head, *rows = [line for line in lines if line]
        assert head.split()[:2] == ["run", "state"] and "test %" in head and "left" in head
        assert [row.split()[-1] for row in rows[6:8]] == ["0/20", "0/20"]
        for seed, row in enumerate(rows[:6]):
            assert row.startswith("cifar10") and f", seed {seed}  running  " in row
            assert row.split("running")[1].split()[:2] == ["3/20", "91.25"]
        assert rows[8].startswith("2 waiting, 6 running") and len(rows) == 9
        assert ("images/s" in head, ".." in rows[0]) == (width == 160, width < 100)
        screen.press(b"\x03")
        assert screen.ended() == signal.SIGINT
    lines = [line for line in screen.screen.lines if line]
    assert "^C" not in "".join(lines)
    assert len(lines) == 10
    assert all(State.STOPPED.value in line for line in lines[1:9])
    assert lines[9] == "8 stopped"


def test_a_study_of_more_runs_than_there_are_lines_shows_those_at_work_and_counts_the_others(tmp_path: Path) -> None:
    with terminal(80, lambda: study(tmp_path, 40), height=12) as screen:
        lines = screen.until(lambda lines: any("6 running" in line for line in lines))
        lines = [line for line in lines if line]
        assert len(lines) == 11
        assert lines[-1].startswith("34 waiting, 6 running") and lines[-1].endswith("(31 more)")
        assert sum("running" in line for line in lines[1:-1]) == 6
        screen.press(b"\x03")
        screen.ended()
    ended = [line for line in screen.screen.lines if "stopped" in line]
    assert len(ended) == 41


@pytest.mark.parametrize(
    ("width", "short"), [(7, "abcdefg"), (6, "ab..fg"), (5, "a..fg"), (4, "a..g"), (3, "..g"), (2, ".."), (1, ".")]
)
def test_names_lose_their_middle(width: int, short: str) -> None:
    assert shorten("abcdefg", width) == short
