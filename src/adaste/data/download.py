"""Files from their publishers, and the archives among them unpacked.

Downloads are resumed where they broke off and compared with the published checksum. Archives are extracted as if they
came from an enemy: a data set is unpacked whole or not at all. Only plain files and folders below the archive's own top
are admitted: no absolute paths, no "..", no links, no devices. Numbers and sizes are bounded, and so is how much larger
than the archive its content may be.
"""

import gzip
import hashlib
import http.client
import io
import os
import stat
import struct
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Literal

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from adaste._util.files import NotWrittenError, atomic_folder, try_lock
from adaste.data.dataset import DataError, Download, listing

BLOCK = 1 << 18
TIMEOUT = 60.0
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a server after which it is worth asking again."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often a download is tried, and the pause before the second time; each later pause is twice as long."""

    attempts: int = 5
    first_pause: float = 2.0
    sleep: Callable[[float], None] = time.sleep


class _RejectedError(Exception):
    """The server's answer will not change by asking again."""


def fetch(download: Download, folder: Path, *, progress: bool, patience: Patience | None = None) -> Path:
    """Download a file into `folder` unless it is there already, and return its path."""
    target = folder / download.path
    if target.is_file() and _is_whole(target, download):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with _lock_part(part):
        with bar(target.name, download.bytes, shown=progress, in_bytes=True) as show:
            _retry(download, part, show, patience or Patience())
        if not _is_whole(part, download):
            part.unlink()
            raise DataError(
                f"{download.url} gave other bytes than published (md5 {download.md5} was expected); "
                "the file was removed, try again later or fetch it elsewhere"
            )
        part.replace(target)
    return target


@contextmanager
def _lock_part(part: Path) -> Iterator[None]:
    """Lock a file, to which only one process may add; at the end it is removed if it is empty."""
    with part.open("ab") as file:
        try:
            there = try_lock(file) and part.exists()  # until just now another process may have had it
            taken = not (there and os.path.samestat(part.stat(), os.fstat(file.fileno())))
        except (OSError, ImportError):  # a system or a file system without locks
            taken = False
        if taken:
            raise DataError(f"another process is downloading {part}: wait for it")
        try:
            yield
        finally:
            if part.exists() and not part.stat().st_size:
                part.unlink()


def _retry(download: Download, part: Path, show: Callable[[int], None], patience: Patience) -> None:
    pause = patience.first_pause
    for attempt in range(1, patience.attempts + 1):
        try:
            _continue(download, part, show)
            return
        except _RejectedError as error:
            raise DataError(f"{download.url} could not be downloaded: {error}") from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
            if attempt == patience.attempts:
                arrived = f"; what arrived is in {part} and will be continued" if part.stat().st_size else ""
                raise DataError(
                    f"{download.url} could not be downloaded in {attempt} attempts, "
                    f"the last one failed with: {error}{arrived}"
                ) from error
        patience.sleep(pause)
        pause *= 2


def _continue(download: Download, part: Path, show: Callable[[int], None]) -> None:
    """Fetch what is missing of `part`. Raise ConnectionError if the connection ends before the file does."""
    done = part.stat().st_size if part.is_file() else 0
    if done > download.bytes:
        os.truncate(part, 0)
        done = 0
    if done == download.bytes:
        return
    request = urllib.request.Request(download.url, headers={"User-Agent": "adaste"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    with _open_url(request, part) as answer:
        if answer.status != 206 or not answer.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            done = 0  # the server sends the whole file, whatever it was asked for
        with _open_part(part, "ab" if done else "wb") as file:
            while block := _read(answer, min(BLOCK, download.bytes - done + 1)):
                done += len(block)
                if done > download.bytes:
                    file.truncate(0)
                    raise _RejectedError(f"the file is larger than the published {download.bytes:,} bytes")
                file.write(block)
                show(done)
            file.flush()
            os.fsync(file.fileno())
    if done < download.bytes:
        raise ConnectionError(f"the connection ended after {done:,} of {download.bytes:,} bytes")


def _read(answer: http.client.HTTPResponse, size: int) -> bytes:
    try:
        return answer.read(size)
    except OSError as error:  # there are many, of sockets and of TLS, and none is of a file
        raise ConnectionError(str(error)) from error


@contextmanager
def _open_part(part: Path, mode: Literal["ab", "wb"]) -> Iterator[BinaryIO]:
    try:
        with part.open(mode) as file:
            yield file
    except ConnectionError:
        raise
    except OSError as error:
        raise NotWrittenError.because(error, f"write {part}", "it will be continued") from error


def _open_url(request: urllib.request.Request, part: Path) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the server has less than we have: begin anew
            os.truncate(part, 0)
        elif error.code not in PASSING:
            raise _RejectedError(f"the server answered {error.code} {error.reason}") from error
        raise
    except urllib.error.URLError:
        raise
    except OSError as error:
        raise ConnectionError(str(error)) from error
    return answer


def _is_whole(path: Path, download: Download) -> bool:
    if path.stat().st_size != download.bytes:
        return False
    found = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest() == download.md5


@contextmanager
def bar(what: str, total: int, *, shown: bool, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a bar on the standard error stream during the block; yield the function that takes how much is done."""
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


END_BYTES = 22 + 65_535 + 20 + 56
"""At the end of a zip: the record that ends it, the longest comment, and the two records before it of zip64."""
DAMAGE = (
    EOFError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    gzip.BadGzipFile,
    NotImplementedError,
    UnicodeError,
)
"""Errors that Python's readers raise for damaged archives."""
LONGEST_NAME, LONGEST_PART = 1_000, 255
"""Bytes of a member's name, and between its slashes: with less than this a file system has no trouble."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits of what an archive may become. The largest data set here has 130,000 entries and 1.6 GB."""

    entries: int = 500_000
    file_bytes: int = 2 << 30
    total_bytes: int = 16 << 30
    ratio: float = 200.0
    free_bytes: int = 64 << 20
    """Up to here the ratio is not looked at: small archives of plain images are honestly well compressed."""


class _RefusedError(Exception):
    """An archive has a member that no archive of a data set has."""


def extract(archive: Path, root: str, into: Path, *, bounds: Bounds | None = None, progress: bool = False) -> Path:
    """Unpack the folder `root` of an archive (.zip, .tar.gz, .tgz) to `into / root`, and return its path.

    It is unpacked beside its place and renamed at the end, so that a folder that is there is complete.

    Raises:
        DataError: if the archive is damaged, unsafe or lacks the folder.
        NotWrittenError: if the folder cannot be written.
    """
    place = into / root
    unpack = _unpack_zip if archive.suffix == ".zip" else _unpack_tar
    try:
        with atomic_folder(place, root) as unfinished:
            size = archive.stat().st_size
            with (
                bar(f"extracting {archive.name}", size, shown=progress, in_bytes=True) as show,
                _Archive(archive.open("rb", buffering=0)) as file,
            ):
                unpack(file, _Room(unfinished, size, bounds or Bounds()), show)
            if not (unfinished / root).is_dir():
                raise DataError(f"{archive} must hold the folder {root}/; found: {listing(unfinished)}")
    except _RefusedError as error:
        raise DataError(f"{archive} was not extracted: {error}") from error
    except DAMAGE as error:
        raise DataError(f"{archive} is truncated or damaged, fetch it again: {error}") from error
    except OSError as error:
        raise NotWrittenError.because(error, f"extract {archive} to {place}") from error
    return place


class _Archive(io.BufferedReader):
    """The file of an archive, in which a reference to a place outside of it is damage, not an error of the system."""

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        size = os.fstat(self.fileno()).st_size
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: size}[whence]
        if not 0 <= start + place <= size:
            raise EOFError(f"it refers to byte {start + place:,} of {size:,}")
        return super().seek(place, whence)


class _Room:
    """The folder that members are written to, and how much of the bounds they have used."""

    def __init__(self, target: Path, archive_bytes: int, bounds: Bounds) -> None:
        self.target, self.bounds = target, bounds
        self.entries = self.bytes = 0
        self.most = min(bounds.total_bytes, max(bounds.free_bytes, int(bounds.ratio * archive_bytes)))

    def count_bytes(self, size: int) -> None:
        """Add to the size of all that is extracted."""
        self.bytes += size
        if self.bytes > self.most:
            raise _RefusedError(f"it holds more than {self.most:,} bytes, which is too much for an archive of its size")

    def admit(self, name: str, *, is_file: bool, size: int) -> None:
        """Count a member; raise an error if its name or its size is not that of a new file or of a folder."""
        self.entries += 1
        if self.entries > self.bounds.entries:
            raise _RefusedError(f"it has more than {self.bounds.entries:,} entries")
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or any(sign in name for sign in ("\\", ":", "\0")):
            raise _RefusedError(f"{name!r} would lie outside of its folder")
        if len(os.fsencode(name)) > LONGEST_NAME or any(len(os.fsencode(part)) > LONGEST_PART for part in parts):
            raise _RefusedError(f"the name {name[:40]!r}... is too long")
        if is_file and not parts:
            raise _RefusedError(f"{name!r} is the name of a folder, but a file in it")
        if size > self.bounds.file_bytes:
            raise _RefusedError(f"{name!r} has {size:,} bytes, more than {self.bounds.file_bytes:,}")
        path = self.target.joinpath(*parts)
        folders = [folder for folder in (path, *path.parents) if folder.is_relative_to(self.target)][is_file:]
        if any(folder.is_file() for folder in folders):
            raise _RefusedError(f"{name!r} needs a folder where it has a file")
        if is_file and path.exists():
            raise _RefusedError(f"{name!r} is in it twice")


class _Counted:
    """A stream that reports to the room what is read from it, whatever it is read for."""

    def __init__(self, stream: gzip.GzipFile, room: _Room) -> None:
        self.stream, self.room = stream, room

    def read(self, size: int) -> bytes:
        content = self.stream.read(size)
        self.room.count_bytes(len(content))
        return content


def _unpack_tar(file: IO[bytes], room: _Room, show: Callable[[int], None]) -> None:
    with gzip.GzipFile(fileobj=file) as plain:
        counted = _Counted(plain, room)
        with tarfile.open(fileobj=counted, mode="r|") as members:  # type: ignore[call-overload]
            if hasattr(tarfile, "data_filter"):  # not in Python 3.11.0 to 3.11.3, which Debian 12 has
                members.extraction_filter = tarfile.data_filter
            for member in members:
                if not (member.isdir() or member.isreg()) or member.issparse():
                    raise _RefusedError(f"{member.name!r} is a link or a device, not a file")
                room.admit(member.name, is_file=member.isreg(), size=member.size)
                members.extract(member, room.target, set_attrs=False)
                show(file.tell())
        while counted.read(BLOCK):  # to the end, where gzip keeps the checksum
            pass


def _unpack_zip(file: IO[bytes], room: _Room, show: Callable[[int], None]) -> None:
    used = 0
    with zipfile.ZipFile(file) as members:
        _require_all(members, file)
        for member in members.infolist():
            name = member.filename
            if not name:
                raise zipfile.BadZipFile("it has a file without a name")
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _RefusedError(f"{name!r} is a link or a device, not a file")
            if member.flag_bits & 1:
                raise _RefusedError(f"{name!r} is encrypted")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise _RefusedError(f"{name!r} is compressed by another method than deflate")
            is_file = not name.endswith("/")  # not is_dir(), which some versions of Python cannot ask of an empty name
            room.admit(name, is_file=is_file, size=member.file_size)
            room.count_bytes(member.file_size)
            written = Path(members.extract(member, room.target))
            if is_file and written.stat().st_size != member.file_size:
                raise EOFError(f"{name!r} is incomplete")
            used += member.compress_size
            show(used)


def _require_all(members: zipfile.ZipFile, file: IO[bytes]) -> None:
    """Compare the number of members with the one at a zip's end: an entry of a wrong length hides those behind it.

    Programs that know no zip64 write the last 16 bits of a larger number, so these are all that can be compared.
    """
    file.seek(max(0, file.seek(0, os.SEEK_END) - END_BYTES))
    end = file.read()
    (declared,) = struct.unpack_from("<H", end, end.rfind(b"PK\5\6") + 10)
    if declared == 0xFFFF and b"PK\6\6" in end:
        (declared,) = struct.unpack_from("<Q", end, end.rfind(b"PK\6\6") + 32)
    found = len(members.infolist())
    if found % (1 << 16) != declared % (1 << 16):
        raise zipfile.BadZipFile(f"its directory shows {found:,} of {declared:,} entries")
