"""What a data set is once it has been read: images as bytes, labels as integers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
