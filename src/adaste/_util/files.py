"""Files and folders that are whole or not there: written beside their place and renamed into it."""

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from adaste._util.stale_dirs import left_over, temporary_folder

UNFINISHED = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp")
"""The names of files and folders that are being written."""


class NotWrittenError(OSError):
    """A file could not be written. What was at its place before is still there, unchanged."""

    @classmethod
    def because(cls, error: OSError, what: str, after: str = "") -> Self:
        """The error that says `what` could not be done and why, and what that leaves behind."""
        return cls(error.errno, f"could not {what} ({error.strerror or error}){f'; {after}' if after else ''}")


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write `content`, or let it write into an open binary file, so that no reader ever finds half a file at `path`.

    The bytes reach the disk before the name does, so neither a crash nor a full disk can cost the old file. A link
    stays, and what it leads to is written; so does a pipe or a device, which takes the bytes as they come.
    """
    if _takes_bytes_as_they_come(path):
        _write_into(path, content)
        return
    place = Path(os.path.realpath(path))
    unfinished = _sibling(place)
    try:
        if place.is_symlink():  # a circle of them, which leads nowhere
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        with unfinished.open("xb") as file:
            _give(content, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(place)
    except OSError as error:
        intact = "the file that was there is intact" if place.exists() else "nothing was left in its place"
        leads = f", which leads to {place}," if path.is_symlink() and place != path else ""
        raise NotWrittenError.because(error, f"write {path}{leads}", intact) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _takes_bytes_as_they_come(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:  # there is nothing yet, or nothing to be seen
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write_into(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    try:
        with path.open("wb") as file:
            _give(content, file)
    except OSError as error:
        raise NotWrittenError.because(error, f"write into {path}") from error


def _give(content: bytes | Callable[[BinaryIO], object], file: BinaryIO) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)


def append(path: Path, content: bytes) -> None:
    """Add `content` to the end of a file, which is made where there is none."""
    try:
        with path.open("ab") as file:
            file.write(content)
    except OSError as error:
        raise NotWrittenError.because(error, f"add to {path}", "its end may be incomplete") from error


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """An empty folder beside `path`, to be renamed to it when it is complete; else removed at the end.

    Those that killed processes have left there are removed first.
    """
    for folder in left_over(path.parent, "."):
        shutil.rmtree(folder, ignore_errors=True)
    with temporary_folder(path.parent, f".{path.name}.") as folder:
        yield folder


def remove_unfinished(folder: Path) -> None:
    """Remove the files that a process which was killed has left half-written in `folder`, but none below it.

    Only where no other process is writing.
    """
    for path in folder.glob(".*.tmp"):
        if UNFINISHED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def _sibling(path: Path) -> Path:
    """Not from tempfile: what is made here gets the permissions the user's umask gives to everything else."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
