"""The kernel's locks, which end with a process whatever happens to it: one process at a time in a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def locked(file: int | IO[bytes] | IO[str]) -> bool:
    """Take the lock on an open file, until that is closed; False where another process has it."""
    import fcntl  # not on Windows

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class TakenError(RuntimeError):
    """Another process is at work in a folder."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock."""
    with (folder / ".lock").open("w") as lock:
        if not locked(lock):
            raise TakenError(f"another process trains in {folder}: wait for it, or use another folder")
        yield


def is_taken(folder: Path) -> bool:
    """Whether a process holds the folder's lock now."""
    try:
        with alone_in(folder):
            return False
    except TakenError:
        return True
