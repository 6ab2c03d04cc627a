"""Files and folders: written whole or not at all; what a file that may come from anyone seems to be."""

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, BinaryIO, Self

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""The kernel's name for its present start."""

UNFINISHED = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp")
"""The names of files and folders that are being written."""


class NotWrittenError(OSError):
    """A file could not be written. The file of before is still there, unchanged."""

    @classmethod
    def because(cls, error: OSError, what: str, after: str = "") -> Self:
        """Return the error that says what could not be done, why, and what that leaves behind."""
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


def write_json(path: Path, plain: Any) -> None:
    """Write plain data as JSON that people can read, whole or not at all."""
    write_atomically(path, (json.dumps(plain, indent=1) + "\n").encode())


def _sibling(path: Path) -> Path:
    """Return a name beside `path`. Not from tempfile: the file gets the permissions that the user's umask gives."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


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
    """Add `content` to the end of a file, which is created if it is missing."""
    try:
        with path.open("ab") as file:
            file.write(content)
    except OSError as error:
        raise NotWrittenError.because(error, f"add to {path}", "its end may be incomplete") from error


def remove_unfinished(folder: Path) -> None:
    """Remove the files that a process which was killed has left half-written in `folder`, but none below it.

    Only where no other process is writing.
    """
    for path in folder.glob(".*.tmp"):
        if UNFINISHED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, part: str = "") -> Iterator[Path]:
    """Yield an empty folder beside `path`; at the end it, or the `part` of it, is renamed to `path`.

    So a folder at `path` is complete. If the block raises, nothing is left. If another process has made `path` in the
    meantime, that one stays.
    """
    with _folder_beside(path) as folder:
        yield folder
        try:
            (folder / part).rename(path)
        except OSError:
            if not path.is_dir():
                raise


def remove_folder(path: Path) -> None:
    """Remove a folder so that no other process finds half of it; it may be gone already."""
    with _folder_beside(path) as folder, suppress(FileNotFoundError):
        path.rename(folder / path.name)


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; those that killed processes have left there are removed first."""
    for folder in stale_folders(path.parent, "."):
        shutil.rmtree(folder, ignore_errors=True)
    with temporary_folder(path.parent, f".{path.name}.") as folder:
        yield folder


@contextmanager
def temporary_folder(parent: Path, prefix: str, mode: int = 0o777) -> Iterator[Path]:
    """Yield a new folder in `parent` whose name begins with `prefix`; it is removed at the end."""
    folder, lock = _make_folder(parent, prefix, mode)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def stale_folders(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield the temporary folders that dead processes of this user have left, each while its lock is held."""
    kernel = _kernel_start()
    names = re.compile(rf"{re.escape(prefix)}.*{kernel}\.\d+\.[0-9a-f]{{8}}\.tmp", re.DOTALL)
    try:
        found = [path for path in parent.iterdir() if kernel and names.fullmatch(path.name)]
    except OSError:  # a folder that cannot be listed may still be written to
        return
    for folder in found:
        lock = _lock_folder(folder)
        if lock is not None:
            try:
                yield folder
            finally:
                os.close(lock)


def _make_folder(parent: Path, prefix: str, mode: int) -> tuple[Path, int | None]:
    # Not from tempfile: the folder gets the permissions the user's umask gives to everything else.
    own = f"{os.getpid()}.{secrets.token_hex(4)}.tmp"
    kernel = _kernel_start()
    if kernel is not None:
        folder = parent / f"{prefix}{kernel}.{own}"
        folder.mkdir(mode)
        lock = _lock_folder(folder)
        if lock is not None:
            return folder, lock
        # No locks here, or another process has taken it for left over before it was held.
        shutil.rmtree(folder, ignore_errors=True)
    folder = parent / f"{prefix}{own}"
    folder.mkdir(mode)
    return folder, None


def _kernel_start() -> str | None:
    """Return a name for this start of this kernel, the same in all its containers; None if it has none."""
    try:
        return BOOT.read_text(encoding="ascii").strip().replace("-", "")[:12]
    except (OSError, UnicodeDecodeError):
        return None


def _lock_folder(folder: Path) -> int | None:
    """Return an open file that holds a folder's lock; None if it cannot be had or the folder is gone."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if try_lock(lock):
            there = folder.lstat()  # another process may have removed it after it was opened
            if os.path.samestat(there, os.fstat(lock)) and there.st_uid == os.geteuid():
                return lock
    except OSError:
        pass
    os.close(lock)
    return None


def try_lock(file: int | IO[bytes] | IO[str]) -> bool:
    """Lock an open file until it is closed. Return False if another process has the lock."""
    import fcntl  # not on Windows

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


ENOUGH = 32
"""Bytes from the start of a file that tell what it is."""

BEGINNINGS: MappingProxyType[bytes, str] = MappingProxyType(
    {
        b"\x89PNG\r\n\x1a\n": "a PNG",
        b"\xff\xd8\xff": "a JPEG",
        b"GIF8": "a GIF",
        b"BM": "a BMP",
        b"RIFF": "a RIFF file, such as WebP",
        b"%PDF-": "a PDF",
        b"PK\x03\x04": "a ZIP archive, such as a checkpoint of torch: use `adaste export`",
        b"\x80\x02": "a pickle, such as an old checkpoint of torch",
        b"\x1f\x8b": "a gzip archive",
        b"\x89HDF\r\n\x1a\n": "an HDF5 file",
        b"\x93NUMPY": "a numpy array",
        b"GGUF": "a GGUF file",
        b"version https://git-lfs": "a pointer of Git LFS: `git lfs pull` fetches the file",
    }
)
"""The same as in runtime/src/format/file_kind.cpp, which stands alone."""

ONNX_FIELDS = b"\x12\x1a\x22\x2a\x32\x3a\x42"
"""Fields of a model behind the version of its format, as protocol buffers begin them."""

TEXT = bytes(range(ord(" "), ord("~") + 1)) + b"\n\r\t"


def file_kind(content: bytes) -> str | None:
    """Return what a file is by its first bytes, "a PNG" for example, or None where these tell nothing."""
    begin = content[:ENOUGH]
    named = next((name for magic, name in BEGINNINGS.items() if begin.startswith(magic)), None)
    if named is not None:
        return named
    if len(begin) > 2 and begin[0] == 8 and 0 < begin[1] < 32 and begin[2] in ONNX_FIELDS:
        return "ONNX"
    return "text" if begin and all(byte in TEXT for byte in begin) else None


def kind_of_file(path: Path) -> str | None:
    """Return the same for the file at `path`."""
    with path.open("rb") as file:
        return file_kind(file.read(ENOUGH))


def printable(text: str) -> str:
    """Return `text` with escapes for what a terminal would obey."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
