"""What a node of a cluster does for a study: make a run, tell how it goes, bring back what it leaves.

Knows nothing of Ray but that a board's methods are called through `.remote`, and needs no torch: the child has it.
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

from adaste._util.signals import listening
from adaste.runs.folder import RunFolder
from adaste.runs.study.processes import Child, Ending

INTERVAL = 0.25
"""Seconds between two looks at the child."""

PATIENCE = 120.0
"""Seconds for a folder to become free: so long may a file system hold the lock of a node that was lost."""


@dataclass(frozen=True)
class Work:
    """A run to be made.

    folder  where the run belongs, as the study sees it.
    mark    a file in it, of a name that no other study uses: where it is seen, the file system is shared.
    """

    folder: Path
    mark: str
    recipe: str
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """How a run ended, and the files to be brought back: none where they are in their place already."""

    ending: Ending
    files: Mapping[str, bytes] = field(default_factory=dict)


class Board:
    """Where nodes leave news for the study: the runs they work on, and records of those whose files it cannot see."""

    def __init__(self) -> None:
        self._news: dict[Path, bytes | None] = {}

    def post(self, folder: Path, records: bytes | None) -> None:
        """Say that the run is at work, and that these are its records if they are not in their place."""
        self._news[folder] = records

    def take(self) -> dict[Path, bytes | None]:
        """The news since this was asked last."""
        news, self._news = self._news, {}
        return news


def make(work: Work, board: Any) -> Made:
    """Make a run in its folder, going on where it was interrupted; where that is not seen, elsewhere and anew.

    An interrupt, which is how Ray cancels, lets it save; also on a node that a script has started in the background,
    where interrupts are ignored. Other signals do so, too, but end this process in the way that makes Ray start the run
    on another node.
    """
    with listening(always=(signal.SIGINT,)) as heard, _folder_for(work) as folder:
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
