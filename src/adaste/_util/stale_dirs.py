"""Temporary folders that outlive a killed process, told from those of live ones.

Whoever makes such a folder holds the kernel's lock on it, which ends with the process whatever happens to that: a
folder whose lock is free was left behind. Machines that share a file system may not see each other's locks, so a
folder's name also says which start of which kernel it is of, and only folders of this one are looked at. Those of other
machines, and of before a restart, stay.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adaste._util.locks import locked

BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def temporary_folder(parent: Path, prefix: str, mode: int = 0o777) -> Iterator[Path]:
    """A new folder in `parent` whose name begins with `prefix`; what is at its place at the end is removed."""
    folder, lock = _made(parent, prefix, mode)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def left_over(parent: Path, prefix: str) -> Iterator[Path]:
    """The folders that dead processes of this user have left of what `temporary_folder` made; each held in its turn."""
    kernel = _kernel()
    names = re.compile(rf"{re.escape(prefix)}.*{kernel}\.\d+\.[0-9a-f]{{8}}\.tmp", re.DOTALL)
    try:
        found = [path for path in parent.iterdir() if kernel and names.fullmatch(path.name)]
    except OSError:  # a folder that cannot be listed may still be written to
        return
    for folder in found:
        lock = _lock_of(folder)
        if lock is not None:
            try:
                yield folder
            finally:
                os.close(lock)


def _made(parent: Path, prefix: str, mode: int) -> tuple[Path, int | None]:
    # Not from tempfile: the folder gets the permissions the user's umask gives to everything else.
    own = f"{os.getpid()}.{secrets.token_hex(4)}.tmp"
    kernel = _kernel()
    if kernel is not None:
        folder = parent / f"{prefix}{kernel}.{own}"
        folder.mkdir(mode)
        lock = _lock_of(folder)
        if lock is not None:
            return folder, lock
        # No locks here, or another process has taken it for left over before it was held.
        shutil.rmtree(folder, ignore_errors=True)
    folder = parent / f"{prefix}{own}"
    folder.mkdir(mode)
    return folder, None


def _kernel() -> str | None:
    """A name for this start of this kernel, the same in all its containers; None where it has none."""
    try:
        return BOOT.read_text(encoding="ascii").strip().replace("-", "")[:12]
    except (OSError, UnicodeDecodeError):
        return None


def _lock_of(folder: Path) -> int | None:
    """An open file that holds a folder's lock; None where it cannot be had or the folder is gone or of another user."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if locked(lock):
            there = folder.lstat()  # another process may have removed it after it was opened
            if os.path.samestat(there, os.fstat(lock)) and there.st_uid == os.geteuid():
                return lock
    except OSError:
        pass
    os.close(lock)
    return None
