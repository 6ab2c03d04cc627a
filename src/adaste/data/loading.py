"""From a name and a folder to a data set: find the files, extract them, decode them once, open what was decoded.

Decoded data sets lie on the disk as four arrays to be memory-mapped and a manifest that says what they must be:

    .adaste-cache/<digest>/{train,test}-{images,labels}.npy, manifest.json

An entry is written beside its place and renamed, so that one that is there is complete. Every array is compared with
the hash in the manifest when it is opened; a damaged entry is written again.

The digest of a data set is taken of the names, sizes and SHA-256 hashes of its files. Hashing 100,000 images again
at every start would take longer than reading the decoded ones, so the digest is remembered under the names, sizes and
times of change (in nanoseconds) of the files. A file that is changed and keeps both its size and its time is not
noticed.
"""

import dataclasses
import hashlib
import json
import logging
import os
import string
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from adaste._util.files import NotWrittenError, atomic_folder, remove_folder, write_atomically
from adaste.data.dataset import Archive, Content, DataError, Dataset, Layout, Part, Source, Split, listing, shorten_list
from adaste.data.download import extract, fetch
from adaste.data.folders import ClassFolders
from adaste.data.sources import FOLDER, SOURCES

CACHE = ".adaste-cache"
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
    place = folder / CACHE
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


ENVIRONMENT = "ADASTE_DATA"
SIDES = range(8, 1025)


def data_folder(folder: Path | None = None) -> Path:
    """Return the folder of all data: the one given, that of the environment variable ADASTE_DATA, or ./data."""
    return Path(folder if folder is not None else os.environ.get(ENVIRONMENT) or "data")


def load(name: str, folder: Path | None = None, *, progress: bool = False) -> Dataset:
    """Read a data set by its name in `SOURCES`, or `folder:SIDE` for images of one's own as squares of SIDE pixels.

    The first time, archives are extracted beside themselves and images are decoded into a cache that is memory-mapped
    from then on; it lies in `.adaste-cache` inside the data folder, or in the user's cache directory where that is not
    writable (what was cached inside it before is used nevertheless). Photographs (Imagenette) become squares of 256
    pixels: the shorter side resized, the middle of the longer one kept. Fewer images than published are accepted, and
    their number reported.
    """
    source, place = find_source(name), data_folder(folder)
    layout, root = _find_or_extract(source, place, progress=progress)
    caches = cache_folder(place)
    recipe = {"format": FORMAT, "name": name, "layout": type(layout).__name__, **layout.options()}
    digest = content_digest(root, layout.files(root), recipe, memory=caches)
    normal = (source.mean, source.std) if source.mean and source.std else None
    shared = place / CACHE
    dataset = open_prepared(shared / digest, name) if shared != caches else None
    if dataset is None:
        dataset = open_or_make(caches / digest, name, partial(layout.read, root, progress=progress), normal)
    _report(dataset, source, progress)
    if is_own(name):
        tested = set(dataset.test.labels.tolist())
        if untested := [each for label, each in enumerate(dataset.classes) if label not in tested]:
            log.warning("%s has no images to test these classes with: %s", root, shorten_list(untested))
    return dataset


def available(folder: Path | None = None) -> list[tuple[Source, Path | None]]:
    """Return every data set with the folder or archive it was found in, or None."""
    place = data_folder(folder)
    return [(source, _find_files(source, place)) for source in SOURCES.values()]


def get(name: str, folder: Path | None = None, *, progress: bool = False) -> Path:
    """Download a data set from its publisher into the data folder. Return the archive, or the folder of its files."""
    source, place = find_source(name), data_folder(folder)
    if not source.downloads:
        raise DataError(f"{name} is not downloaded: it needs {_expected(source)}")
    fetched = [fetch(download, place, progress=progress) for download in source.downloads]
    return fetched[0] if len(fetched) == 1 else fetched[0].parent


def is_own(name: str) -> bool:
    """Return whether a name stands for the user's own images, whichever these are: `folder` or `folder:SIDE`."""
    return name.partition(":")[0] == FOLDER.name


def survey(name: str, folder: Path | None = None) -> tuple[int, int]:
    """Return the number of the user's own training images, and their side once they are decoded."""
    layout, root = _find_or_extract(find_source(name), data_folder(folder), progress=False)
    assert isinstance(layout, ClassFolders)  # the one layout of images of one's own
    return layout.survey(root)


def find_source(name: str) -> Source:
    """Return the source of a name, which may contain the size of the user's own images: `folder:96`."""
    if name in SOURCES:
        return SOURCES[name]
    kind, _, side = name.partition(":")
    if kind != FOLDER.name:
        raise DataError(f"there is no data set {name!r}; there are: {', '.join(SOURCES)}")
    if not (side.isascii() and side.isdigit() and int(side) in SIDES):
        raise DataError(
            f"{name!r} must be {FOLDER.name}:SIDE with a side of {SIDES[0]} to {SIDES[-1]} pixels, got {side!r}"
        )
    layout = ClassFolders(roots=FOLDER.layouts[0].roots, side=int(side))
    return dataclasses.replace(FOLDER, name=name, size=(int(side), int(side), 3), layouts=(layout,))


def _find_files(source: Source, place: Path) -> Path | None:
    located = _locate(source, place)
    return located[1] if located else None


def _find_or_extract(source: Source, place: Path, *, progress: bool) -> tuple[Layout, Path]:
    """Return the layout of the data and its folder, extracted if there is only an archive."""
    located = _locate(source, place)
    if located is None:
        advice = f"; `adaste data get {source.name}` downloads it" if source.downloads else ""
        raise DataError(
            f"{source.name} was not found in {place}: expected {_expected(source)}; found: {listing(place)}{advice}; "
            "--data DIR or ADASTE_DATA names another folder of data"
        )
    layout, path, archive = located
    if archive is None:
        return layout, path
    into = _extraction_folder(path)
    return layout, layout.find(into) or extract(path, archive.root, into, progress=progress)


def _locate(source: Source, place: Path) -> tuple[Layout, Path, Archive | None] | None:
    """Return the layout with its folder, or else with its archive and what that is; None if neither exists."""
    for layout in source.layouts:
        root = layout.find(place)
        if root:
            return layout, root, None
    for layout in source.layouts:
        archive = layout.find_archive(place)
        if archive:
            return layout, place / archive.name, archive
    return None


def _extraction_folder(archive: Path) -> Path:
    """Return the archive's folder, or if that is not writable a folder of the user's cache for this archive alone."""
    if os.access(archive.parent, os.W_OK):
        return archive.parent
    found = archive.stat()
    key = digest_of([str(archive.resolve()), found.st_size, found.st_mtime_ns])
    into = cache_folder(archive.parent) / f"extracted-{key}"
    into.mkdir(exist_ok=True)
    return into


def _expected(source: Source) -> str:
    return " or ".join(layout.expected() for layout in source.layouts)


def _report(dataset: Dataset, source: Source, progress: bool) -> None:
    counts = [
        (len(dataset.train), source.train),
        (len(dataset.test), source.test),
        (len(dataset.classes), source.classes),
    ]
    train, test, classes = (
        f"{found:,}" + (f" (published: {published:,})" if published not in (None, found) else "")
        for found, published in counts
    )
    size = " x ".join(map(str, dataset.train.images.shape[1:]))
    line = f"{dataset.name}: {train} training and {test} test images of {size}, {classes} classes"
    log.info(line)
    if progress:
        Console(stderr=True).print(line, highlight=False)
