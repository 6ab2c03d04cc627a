"""From a name and a folder to a data set: find the files, extract them, decode them once, open what was decoded."""

import dataclasses
import logging
import os
from functools import partial
from pathlib import Path

from rich.console import Console

from adaste.data.archives import extract
from adaste.data.cache import FOLDER as CACHES
from adaste.data.cache import FORMAT, cache_folder, content_digest, digest_of, open_or_make, open_prepared
from adaste.data.dataset import DataError, Dataset, listing
from adaste.data.download import fetch
from adaste.data.folders import ClassFolders
from adaste.data.layout import Archive, Layout, Source
from adaste.data.sources import FOLDER, SOURCES

ENVIRONMENT = "ADASTE_DATA"
SIDES = range(8, 1025)

log = logging.getLogger("adaste.data")


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
    shared = place / CACHES
    dataset = open_prepared(shared / digest, name) if shared != caches else None
    if dataset is None:
        dataset = open_or_make(caches / digest, name, partial(layout.read, root, progress=progress), normal)
    _report(dataset, source, progress)
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
