"""What a node of a Ray cluster does for a run, in this process."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adaste.runs.folder import RunFolder
from adaste.runs.study.ray_worker import Work, make
from support.waiting import soon, wait_until

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


class Posts:
    """A board that nobody asks."""

    def __init__(self) -> None:
        self.post, self.posted = self, list[tuple[Path, bytes | None]]()

    def remote(self, folder: Path, records: bytes | None) -> None:
        self.posted.append((folder, records))


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program in the place of `adaste train`; it is in the folder of its run."""

    def write(text: str) -> None:
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\ncd "$(dirname "$6")"\n{text}\n')
        path.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(path))

    return write


@pytest.mark.slow
def test_a_node_that_does_not_see_the_folder_works_elsewhere_and_returns_all_files(
    tmp_path: Path, child: Callable[[str], None]
) -> None:
    left_behind = "touch .lock .two.12.0123abcd.tmp"
    child(
        f"mkdir checkpoints; echo 1 > checkpoints/one; {left_behind}; cat recipe.json; echo 3 > metrics.jsonl; sleep 1"
    )
    board, folder = Posts(), tmp_path / "elsewhere"
    made = make(Work(folder, ".mark", "{}\n"), board)
    assert made.ending.code == 0
    assert made.files == {
        "checkpoints/one": b"1\n",
        "log.txt": b"{}\n",
        "metrics.jsonl": b"3\n",
        "recipe.json": b"{}\n",
    }
    assert board.posted[-1] == (folder, b"3\n")
    assert not folder.exists()


@pytest.fixture(params=[False, True], ids=["heeded", "ignored"])
def interrupts(request: pytest.FixtureRequest) -> Iterator[None]:
    """As in a node that was started at a terminal, and as in one that a script has started in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if request.param else signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interrupts")
def test_a_node_lets_its_child_save_when_it_is_interrupted(tmp_path: Path, child: Callable[[str], None]) -> None:
    child("trap 'echo saved; exit 143' TERM; touch ready; while :; do sleep 0.05; done")
    (tmp_path / ".mark").touch()

    def interrupt() -> None:
        wait_until((tmp_path / "ready").exists)
        os.kill(os.getpid(), signal.SIGINT)

    soon(interrupt)
    board = Posts()
    made = make(Work(tmp_path, ".mark", ""), board)
    assert (made.ending.code, made.ending.problem, made.files) == (143, "saved", {})
    assert board.posted[0] == (tmp_path, None)


@pytest.mark.slow
def test_a_node_waits_for_the_folder_of_a_run_that_is_still_ending(
    tmp_path: Path, child: Callable[[str], None]
) -> None:
    child("exit 0")
    (tmp_path / ".mark").touch()
    freed = list[float]()

    def hold() -> None:
        with RunFolder(tmp_path).lock():
            held.set()
            time.sleep(0.6)
            freed.append(time.monotonic())

    held = threading.Event()
    soon(hold)
    held.wait()
    assert make(Work(tmp_path, ".mark", ""), Posts()).ending.code == 0
    assert freed and not (time.monotonic() < freed[0])
