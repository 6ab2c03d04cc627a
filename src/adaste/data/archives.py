"""Archives, extracted as if they came from an enemy: a data set is unpacked whole or not at all.

Only plain files and folders below the archive's own top are admitted: no absolute paths, no "..", no links, no devices.
Numbers and sizes are bounded, and so is how much larger than the archive its content may be.
"""

import gzip
import io
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from adaste._util.files import NotWrittenError, folder_beside
from adaste.data.messages import DataError, bar, listing

BLOCK = 1 << 20
END_BYTES = 22 + 65_535 + 20 + 56
"""At the end of a zip: the record that ends it, the longest comment, and the two records before it of zip64."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
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
"""What Python's readers raise for archives that are not as they were."""
LONGEST_NAME, LONGEST_PART = 1_000, 255
"""Bytes of a member's name, and between its slashes: with less than this a file system has no trouble."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What an archive may become. The largest data set here has 130,000 entries and 1.6 GB."""

    entries: int = 500_000
    file_bytes: int = 2 << 30
    total_bytes: int = 16 << 30
    ratio: float = 200.0
    free_bytes: int = 64 << 20
    """Up to here the ratio is not looked at: small archives of plain images are honestly well compressed."""


def extract(archive: Path, root: str, into: Path, *, bounds: Bounds | None = None, progress: bool = False) -> Path:
    """Unpack the folder `root` of an archive (.zip, .tar.gz, .tgz) to `into / root` and give its path.

    It is unpacked beside its place and renamed at the end, so that a folder that is there is complete.
    """
    place = into / root
    try:
        with folder_beside(place) as unfinished:
            _unpack(archive, unfinished, bounds or Bounds(), progress)
            if not (unfinished / root).is_dir():
                raise DataError(f"{archive} must hold the folder {root}/; found: {listing(unfinished)}")
            try:
                (unfinished / root).rename(place)
            except OSError:
                if not place.is_dir():  # else another process was faster
                    raise
    except OSError as error:
        raise NotWrittenError.because(error, f"extract {archive} to {place}") from error
    return place


def _unpack(archive: Path, target: Path, bounds: Bounds, progress: bool) -> None:
    try:
        unpack = _unpack_zip if archive.suffix == ".zip" else _unpack_tar
        show_bar = bar(f"extracting {archive.name}", archive.stat().st_size, shown=progress, in_bytes=True)
        with show_bar as show, _Archive(archive.open("rb", buffering=0)) as file:
            for used in unpack(file, _Room(archive, target, bounds)):
                show(used)
    except DAMAGE as error:
        raise DataError(f"{archive} is truncated or damaged, fetch it again: {error}") from error


class _Archive(io.BufferedReader):
    """The file of an archive, in which a reference to a place outside of it is damage, not an error of the system."""

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        size = os.fstat(self.fileno()).st_size
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: size}[whence]
        if not 0 <= start + place <= size:
            raise EOFError(f"it refers to byte {start + place:,} of {size:,}")
        return super().seek(place, whence)


class _Room:
    """Where members are written to, and how much of the bounds they have used."""

    def __init__(self, archive: Path, target: Path, bounds: Bounds) -> None:
        self.archive, self.target, self.bounds = archive, target, bounds
        self.entries = 0
        self.bytes = 0
        ratio_bytes = int(bounds.ratio * archive.stat().st_size)
        self.most = min(bounds.total_bytes, max(bounds.free_bytes, ratio_bytes))

    def refuse(self, why: str) -> DataError:
        return DataError(f"{self.archive} was not extracted: {why}")

    def count(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self.most:
            raise self.refuse(f"it holds more than {self.most:,} bytes, which is too much for an archive of its size")

    def make_folder(self, name: str) -> None:
        """The top itself may be a member, too: `tar -c .` calls it "."."""
        self._make(self.path(name), name)

    def _make(self, folder: Path, name: str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise self.refuse(f"{name!r} needs a folder where it has a file") from None

    def path(self, name: str) -> Path:
        """The place of a member."""
        self.entries += 1
        if self.entries > self.bounds.entries:
            raise self.refuse(f"it has more than {self.bounds.entries:,} entries")
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or any(sign in name for sign in ("\\", ":", "\0")):
            raise self.refuse(f"{name!r} would lie outside of its folder")
        if len(os.fsencode(name)) > LONGEST_NAME or any(len(os.fsencode(part)) > LONGEST_PART for part in parts):
            raise self.refuse(f"the name {name[:40]!r}... is too long")
        return self.target.joinpath(*parts)

    def write(self, name: str, size: int, source: IO[bytes]) -> None:
        """Copy one file, of which not more than the size it declares is read."""
        path = self.path(name)
        if path == self.target:
            raise self.refuse(f"{name!r} is the name of a folder, but a file in it")
        if size > self.bounds.file_bytes:
            raise self.refuse(f"{name!r} has {size:,} bytes, more than {self.bounds.file_bytes:,}")
        self._make(path.parent, name)
        try:
            with path.open("xb") as file:
                shutil.copyfileobj(source, file, BLOCK)
                written = file.tell()
        except FileExistsError:
            raise self.refuse(f"{name!r} is in it twice") from None
        if written != size:
            raise DataError(f"{self.archive} is truncated or damaged, fetch it again: {name!r} is incomplete")


class _Counted:
    """A stream that reports what is read from it, whatever it is read for."""

    def __init__(self, stream: gzip.GzipFile, room: _Room) -> None:
        self.stream, self.room = stream, room

    def read(self, size: int) -> bytes:
        content = self.stream.read(size)
        self.room.count(len(content))
        return content


def _unpack_tar(file: IO[bytes], room: _Room) -> Iterator[int]:
    """Write all members; gives how many bytes of the archive were used so far."""
    with gzip.GzipFile(fileobj=file) as plain:
        counted = _Counted(plain, room)
        with tarfile.open(fileobj=counted, mode="r|") as members:  # type: ignore[call-overload]
            for member in members:
                if member.isdir():
                    room.make_folder(member.name)
                elif member.isreg() and not member.issparse():
                    room.write(member.name, member.size, cast("IO[bytes]", members.extractfile(member)))
                else:
                    raise room.refuse(f"{member.name!r} is a link or a device, not a file")
                yield file.tell()
        while counted.read(BLOCK):  # to the end, where gzip keeps the checksum
            pass


def _unpack_zip(file: IO[bytes], room: _Room) -> Iterator[int]:
    used = 0
    with zipfile.ZipFile(file) as members:
        _require_all(members, file)
        for member in members.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise room.refuse(f"{member.filename!r} is a link or a device, not a file")
            if member.flag_bits & 1:
                raise room.refuse(f"{member.filename!r} is encrypted")
            if member.compress_type not in METHODS:
                raise room.refuse(f"{member.filename!r} is compressed by another method than deflate")
            if member.filename.endswith("/"):  # not is_dir(), which some versions of Python cannot ask of an empty name
                room.make_folder(member.filename)
            else:
                room.count(member.file_size)
                with members.open(member) as source:
                    room.write(member.filename, member.file_size, source)
            used += member.compress_size
            yield used


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
