"""The facts about a data set before it is read: where its files come from and lie, and how they are read.

A layout never keeps all decoded images in memory: it says how many there are and fills the array it is given.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste._util.checks import require
from adaste.data.dataset import DataError, shorten_list
from adaste.data.download import Download


@dataclass(frozen=True)
class Part:
    """The training or the test images before they are decoded; `shape` is that of one image."""

    labels: NDArray[np.int64]
    shape: tuple[int, int, int]
    fill: Callable[[NDArray[np.uint8]], None]


@dataclass(frozen=True)
class Content:
    """The content of a data set's files: its classes and images."""

    classes: tuple[str, ...]
    train: Part
    test: Part


@dataclass(frozen=True)
class Archive:
    """An archive as published, and the folder inside it that holds the data."""

    name: str
    root: str


@dataclass(frozen=True, kw_only=True)
class Layout(ABC):
    """A way a data set is laid out in files. Frozen: its fields say all that decides what is read."""

    roots: tuple[str, ...]
    """Folders it may lie in, relative to the folder of all data."""

    archives: tuple[Archive, ...] = ()

    def find(self, folder: Path) -> Path | None:
        """Return the folder that holds it: one of its roots, or `folder` itself if that is named like one.

        A folder without anything in it, as a download that failed leaves behind, is none.
        """
        places = [folder / root for root in self.roots]
        if folder.resolve().name in self.roots:
            places.append(folder)
        return next((place for place in places if place.is_dir() and any(place.iterdir())), None)

    def find_archive(self, folder: Path) -> Archive | None:
        """Return the archive that holds it, or None."""
        return next((archive for archive in self.archives if (folder / archive.name).is_file()), None)

    def expected(self) -> str:
        """Return what is looked for, in words."""
        folders = " or ".join(f"{root}/" for root in self.roots)
        return " or ".join([folders, *(archive.name for archive in self.archives)])

    @abstractmethod
    def files(self, root: Path) -> list[Path]:
        """Return all files its content depends on, in a fixed order. Raise DataError if some are missing."""

    @abstractmethod
    def read(self, root: Path, *, progress: bool) -> Content:
        """Return the content of the files. Raise DataError if they are damaged."""

    def options(self) -> dict[str, Any]:
        """Return what decides the decoded images besides the files; part of the digest."""
        return {}


def part_from_arrays(images: NDArray[np.uint8], labels: NDArray[Any]) -> Part:
    """Return a part whose images, uint8 (n, height, width, channels), are in memory already."""
    height, width, channels = images.shape[1:]
    return Part(labels.astype(np.int64), (height, width, channels), partial(_copy, images))


def _copy(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    target[...] = source


def require_labels(labels: Sequence[int] | NDArray[Any], classes: int, path: Path) -> NDArray[np.int64]:
    """Return labels as an array. Raise DataError unless each is the index of a class."""
    try:
        array = np.asarray(labels)
    except ValueError as error:  # lists of different lengths
        raise DataError(f"{path}: the labels are not a list of whole numbers ({error})") from None
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DataError(f"{path}: labels must be a list of whole numbers, got {array.dtype} of the shape {array.shape}")
    wrong = set(array[(array < 0) | (array >= classes)].tolist())
    if wrong:
        raise DataError(
            f"{path}: labels must be 0 to {classes - 1} ({classes} classes), found {shorten_list(map(str, wrong))}"
        )
    return array.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set as published. Fields that depend on the user's own files are None."""

    name: str
    title: str
    size: tuple[int, int, int] | None
    """Height, width and channels of an image."""
    classes: int | None
    train: int | None
    test: int | None
    mean: tuple[float, ...] | None
    """Per channel, on the scale 0..1. None: computed from the training images, as is `std`."""
    std: tuple[float, ...] | None
    layouts: tuple[Layout, ...]
    downloads: tuple[Download, ...] = ()
    home: str
    licence: str

    def __post_init__(self) -> None:
        if not self.layouts:
            raise ValueError(f"{self.name} needs at least one layout")
        for what in ("classes", "train", "test"):
            require(what, getattr(self, what), least=1, optional=True)
