"""A data set once it has been read: images as bytes, labels as integers; and the error if it cannot be read."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray


class DataError(ValueError):
    """Data that is missing, damaged or of another layout: says which file, and what was expected."""


def shorten_list(names: Iterable[str], most: int = 10) -> str:
    """Return the first names of a list that may be long."""
    listed = sorted(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more if listed else "nothing"


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
