"""Decoded data sets on the disk: four arrays to be memory-mapped and a manifest that says what they must be.

    .adaste-cache/<digest>/{train,test}-{images,labels}.npy, manifest.json

An entry is written beside its place and renamed, so that one that is there is complete. Every array is compared with
the hash in the manifest when it is opened; a damaged entry is written again.

The digest of a data set is taken of the names, sizes and SHA-256 hashes of its files. Hashing 100,000 images again
at every start would take longer than reading the decoded ones, so the digest is remembered under the names, sizes and
times of change (in nanoseconds) of the files. A file that is changed and keeps both its size and its time is not
noticed.
"""

import hashlib
import json
import logging
import os
import string
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste._util.files import NotWrittenError, atomic_folder, remove_folder, write_atomically
from adaste.data.dataset import DataError, Dataset, Split
from adaste.data.layout import Content, Part

FOLDER = ".adaste-cache"
MANIFEST = "manifest.json"
FORMAT = 1
IMAGES_AT_A_TIME = 1024
ATTEMPTS = 3
"""Another process may remove an entry it found damaged while this one has made it anew."""

log = logging.getLogger("adaste.data")

Normal = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of every channel, on the scale 0..1."""


class _DamagedError(Exception):
    """An entry is not what its manifest says."""


def cache_folder(folder: Path) -> Path:
    """Return the folder of a data folder's caches: inside it, or in the user's cache directory if need be."""
    place = folder / FOLDER
    try:
        if folder.is_dir():
            place.mkdir(exist_ok=True)
            if os.access(place, os.W_OK):
                return place
    except OSError:
        log.debug("%s cannot be made, the user's cache directory is used", place)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adaste"
        home.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # the latter where the user has no home
        raise DataError(
            f"decoded images need a place: {place} cannot be written, and neither can the user's cache directory "
            f"({error}); set XDG_CACHE_HOME to a folder that can"
        ) from error
    return home


def open_prepared(entry: Path, name: str) -> Dataset | None:
    """Open the data set in a folder `entry` that another user writes. Return None if it is missing or damaged."""
    try:
        return _open(entry, name)
    except _DamagedError as error:
        log.debug("%s is not used (%s)", entry, error)
        return None


def open_or_make(entry: Path, name: str, read: Callable[[], Content], normal: Normal | None) -> Dataset:
    """Open the data set in the folder `entry`, named by its digest. Read and write it if it is missing or damaged."""
    for _ in range(ATTEMPTS):
        if not entry.exists():
            _write(entry, name, read(), normal)
        try:
            return _open(entry, name)
        except _DamagedError as error:
            log.warning("the cache %s is damaged (%s): it is made again", entry, error)
            remove_folder(entry)
    raise DataError(f"{entry} was written and then read back differently, {ATTEMPTS} times: check the disk")


def _open(entry: Path, name: str) -> Dataset:
    try:
        manifest = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or manifest["name"] != name:
            raise _DamagedError("it is another data set or of another version")
        arrays = {file: _array(entry / file, **expected) for file, expected in manifest["arrays"].items()}
        train, test = (Split(arrays[f"{part}-images.npy"], arrays[f"{part}-labels.npy"]) for part in ("train", "test"))
        mean, std = tuple(manifest["mean"]), tuple(manifest["std"])
        return Dataset(name, tuple(manifest["classes"]), train, test, mean, std, digest=entry.name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _DamagedError(f"{type(error).__name__}: {error}") from error


def _array(path: Path, *, bytes: int, sha256: str) -> NDArray[Any]:
    size = path.stat().st_size
    if size != bytes:
        raise _DamagedError(f"{path.name} has {size:,} bytes instead of {bytes:,}")
    if array_hash(path) != sha256:
        raise _DamagedError(f"{path.name} has another content")
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _write(entry: Path, name: str, content: Content, normal: Normal | None) -> None:
    try:
        with atomic_folder(entry) as folder:
            _write_into(folder, name, content, normal)
    except OSError as error:
        raise NotWrittenError.because(error, f"write the cache {entry}", "nothing was kept") from error


def _write_into(folder: Path, name: str, content: Content, normal: Normal | None) -> None:
    for part, source in (("train", content.train), ("test", content.test)):
        np.save(folder / f"{part}-labels.npy", source.labels)
        _fill(folder / f"{part}-images.npy", source)
    mean, std = normal or _mean_and_std(np.load(folder / "train-images.npy", mmap_mode="r"))
    arrays = {
        path.name: {"bytes": path.stat().st_size, "sha256": array_hash(path)} for path in sorted(folder.glob("*.npy"))
    }
    manifest = {"format": FORMAT, "name": name, "classes": content.classes, "mean": mean, "std": std, "arrays": arrays}
    write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def _fill(path: Path, part: Part) -> None:
    shape = (len(part.labels), *part.shape)
    images = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    if hasattr(os, "posix_fallocate"):
        # A full disk must be an error now: on writing to mapped memory it would kill the process.
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    part.fill(images)
    images.flush()


def _mean_and_std(images: NDArray[np.uint8]) -> Normal:
    """Return both per channel, in exact integer arithmetic: the result does not depend on an order of summation."""
    channels = images.shape[-1]
    total, squares = np.zeros(channels, np.int64), np.zeros(channels, np.int64)
    for start in range(0, len(images), IMAGES_AT_A_TIME):
        values = np.asarray(images[start : start + IMAGES_AT_A_TIME]).reshape(-1, channels)
        counts = np.stack([np.bincount(values[:, channel], minlength=256) for channel in range(channels)])
        levels = np.arange(256)
        total += counts @ levels
        squares += counts @ levels**2
    count = images.size // channels
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - mean**2, 0)) / 255
    return tuple((mean / 255).tolist()), tuple(np.where(std > 0, std, 1.0).tolist())


LENGTH = 32
BLOCK = 1 << 20
PIECE = 32 << 20


def content_digest(root: Path, files: list[Path], recipe: dict[str, Any], memory: Path) -> str:
    """Return the digest of the files under `root` and of how they are read; the folder `memory` remembers it."""
    state = [(_relative_name(path, root), (found := path.stat()).st_size, found.st_mtime_ns) for path in files]
    note = memory / f"{digest_of([str(root.resolve()), recipe, state])}.digest"
    known = _recall(note)
    if known:
        return known
    with _thread_pool() as pool:
        hashes = list(pool.map(_file_hash, files))
    content = [(name, size, found) for (name, size, _), found in zip(state, hashes, strict=True)]
    digest = digest_of([recipe, content])
    memory.mkdir(parents=True, exist_ok=True)
    write_atomically(note, digest.encode())
    return digest


def array_hash(path: Path) -> str:
    """Return the hash of a large file: that of the SHA-256 hashes of its pieces, which are computed in parallel."""
    with _thread_pool() as pool:
        pieces = pool.map(lambda start: _hash(path, start, PIECE), range(0, path.stat().st_size, PIECE))
        return hashlib.sha256(b"".join(pieces)).hexdigest()


def _thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1))


def _relative_name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def digest_of(content: Iterable[Any]) -> str:
    """Return a name for plain data: the start of a SHA-256."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:LENGTH]


def _recall(note: Path) -> str | None:
    try:
        text = note.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) == LENGTH and set(text) <= set(string.hexdigits) else None


def _file_hash(path: Path) -> str:
    return _hash(path, 0, path.stat().st_size).hex()


def _hash(path: Path, start: int, length: int) -> bytes:
    found = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        while length > 0 and (block := file.read(min(BLOCK, length))):
            found.update(block)
            length -= len(block)
    return found.digest()
