"""The task of a node of a Ray cluster: execute a run, report its progress, return its files.

It uses nothing of Ray except that a board's methods are called through `.remote`, and needs no torch: the child has it.
"""

import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adaste._util.signals import listen_for_stop
from adaste.runs.folder import RunFolder
from adaste.runs.study.processes import Child, Ending

INTERVAL = 0.25
"""Seconds between two looks at the child."""

PATIENCE = 120.0
"""Seconds for a folder to become free: some file systems hold the locks of a lost node for that long."""


@dataclass(frozen=True)
class Work:
    """A run to be executed.

    Args:
        folder: The folder of the run, as the study sees it.
        mark: The unique name of a file in it: a node that sees the file shares the file system.
    """

    folder: Path
    mark: str
    recipe: str
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """How a run ended, and its files; none if the node shares the file system."""

    ending: Ending
    files: Mapping[str, bytes] = field(default_factory=dict)


class Board:
    """A mailbox of nodes for the study: the runs at work, and the records of those whose files it cannot see."""

    def __init__(self) -> None:
        self._news: dict[Path, bytes | None] = {}

    def post(self, folder: Path, records: bytes | None) -> None:
        """Report that the run is at work, and its records if the study cannot see them."""
        self._news[folder] = records

    def take(self) -> dict[Path, bytes | None]:
        """Return the news since the last call."""
        news, self._news = self._news, {}
        return news


def make(work: Work, board: Any) -> Made:
    """Execute a run in its folder, resuming it; in a temporary folder from the beginning if its own cannot be seen.

    Ray cancels by an interrupt, which lets the run save; also on a node that a script has started in the background,
    where interrupts are ignored. Other signals let it save, too, and then kill this process: Ray starts the run on
    another node.
    """
    with listen_for_stop(always=(signal.SIGINT,)) as heard, _folder_for(work) as folder:
        shared = folder == work.folder
        files = RunFolder(folder)
        # A run whose node was lost may still be ending. If it does not, the child will say so.
        deadline = time.monotonic() + PATIENCE
        while files.is_taken() and not heard.number and time.monotonic() < deadline:
            time.sleep(INTERVAL)
        child = Child(folder, work.options, work.variables)
        try:
            while (ending := child.ended()) is None:
                if heard.number:
                    child.stop()
                metrics = files.metrics_file
                records = metrics.read_bytes() if metrics.exists() else b""
                board.post.remote(work.folder, None if shared else records)
                time.sleep(INTERVAL)
        finally:
            child.kill()
        if heard.number not in (0, signal.SIGINT):
            os.kill(os.getpid(), signal.SIGKILL)
        return Made(ending, {} if shared else files.files())


@contextmanager
def _folder_for(work: Work) -> Iterator[Path]:
    if (work.folder / work.mark).exists():
        yield work.folder
        return
    with tempfile.TemporaryDirectory(prefix="adaste-") as name:
        folder = Path(name)
        RunFolder(folder).recipe_file.write_text(work.recipe)
        yield folder
