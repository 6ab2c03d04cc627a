"""One process at a time in a folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class TakenError(RuntimeError):
    """Another process is at work in a folder."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which ends with the process whatever happens to it."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TakenError(f"another process trains in {folder}: wait for it, or use another folder") from error
        yield


def is_taken(folder: Path) -> bool:
    """Whether a process holds the folder's lock now."""
    try:
        with alone_in(folder):
            return False
    except TakenError:
        return True
