"""Archives, extracted as if they came from an enemy: a data set is unpacked whole or not at all.

Only plain files and folders below the archive's own top are admitted: no absolute paths, no "..", no links, no devices.
Numbers and sizes are bounded, and so is how much larger than the archive its content may be.
"""

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from adaste._util.files import NotWrittenError, atomic_folder
from adaste.data.dataset import DataError, listing
from adaste.data.download import bar

BLOCK = 1 << 20
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
