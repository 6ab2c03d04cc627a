"""A data set: the facts about it before it is read, what it is once it has been, and the error if it cannot be.

Once it has been read, its images are bytes and its labels integers. Before, a source says where its files come from,
and a layout how they lie and are read. A layout never keeps all decoded images in memory: it says how many there are
and fills the array it is given.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adaste._util.checks import list_names, require


class DataError(ValueError):
    """Data that is missing, damaged or of another layout: says which file, and what was expected."""


def shorten_list(names: Iterable[str], most: int = 10) -> str:
    """Return the first names, in order, of a list that may be long or empty."""
    return list_names(sorted(names), most) or "nothing"


def listing(folder: Path) -> str:
    """Return the names in a folder, for an error message."""
    if not folder.is_dir():
        return "no such folder" if not folder.exists() else "a file, not a folder"
    return shorten_list(path.name + ("/" if path.is_dir() else "") for path in folder.iterdir())


def require_files(root: Path, names: Iterable[str]) -> None:
    """Check that a folder holds all the files of its layout."""
    missing = [name for name in names if not (root / name).is_file()]
    if missing:
        raise DataError(f"{root} lacks {shorten_list(missing)}; found: {listing(root)}")


@dataclass(frozen=True)
class Split:
    """Images, uint8 (n, height, width, channels), and their labels, int64 (n,). Both are read-only.

    The images may be memory-mapped: they are read from the disk when they are looked at.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.images.dtype != np.uint8 or self.images.ndim != 4:
            raise ValueError(
                "images must be uint8 of the shape (n, height, width, channels), "
                f"got {self.images.dtype} of the shape {self.images.shape}"
            )
        if self.labels.dtype != np.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"labels must be int64, one for each of {len(self.images)} images, "
                f"got {self.labels.dtype} of the shape {self.labels.shape}"
            )
        for name in ("images", "labels"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """Images to train with and images to test with. `mean` and `std` are per channel, on the scale 0..1.

    `digest` names the content: the same files give the same digest on every machine.
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    digest: str

    def __post_init__(self) -> None:
        height, width, channels = self.train.images.shape[1:]
        if self.test.images.shape[1:] != (height, width, channels):
            raise ValueError(
                f"images for training and testing must have one shape, got {(height, width, channels)} "
                f"and {self.test.images.shape[1:]}"
            )
        if len(self.mean) != channels or len(self.std) != channels:
            raise ValueError(
                f"mean and std need one value for each of {channels} channels, got {self.mean}, {self.std}"
            )
        for name, split in (("train", self.train), ("test", self.test)):
            if not len(split):
                raise ValueError(f"{name} must hold at least one image, got none")
            # On a GPU a label without a class would end the process in the middle of training.
            least, most = int(split.labels.min()), int(split.labels.max())
            if least < 0 or most >= len(self.classes):
                raise ValueError(
                    f"labels of {name} must be 0 to {len(self.classes) - 1} ({len(self.classes)} classes), "
                    f"got {least} to {most}"
                )


def subset(split: Split, chosen: ArrayLike) -> Split:
    """Return a copy of the images at the given indices, or where a mask is true."""
    index = np.asarray(chosen)
    return Split(np.asarray(split.images)[index], split.labels[index])


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


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file at its publisher: `path` is where it belongs inside the data folder."""

    url: str
    path: str
    bytes: int
    md5: str

    def __post_init__(self) -> None:
        require("bytes", self.bytes, least=1)
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"url must begin with https:// or http://, got {self.url!r}")
        if len(self.md5) != 32:
            raise ValueError(f"md5 must have 32 hexadecimal digits, got {self.md5!r}")


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
