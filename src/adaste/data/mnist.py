"""Handwritten digits and their look-alikes: MNIST's idx files, and the digits that come with scikit-learn."""

import gzip
import importlib.util
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste.data.dataset import (
    Content,
    DataError,
    Layout,
    Part,
    listing,
    part_from_arrays,
    require_files,
    require_labels,
)

UNSIGNED_BYTES = 0x08
MOST_BYTES = 1 << 31
"""A header that promises more is taken for damage, not for a reason to reserve the memory."""


@dataclass(frozen=True, kw_only=True)
class Idx(Layout):
    """train-images-idx3-ubyte, train-labels-idx1-ubyte and t10k-..., each with or without .gz."""

    classes: tuple[str, ...]
    size: tuple[int, int]

    def files(self, root: Path) -> list[Path]:
        return [
            _find_file(root, f"{part}-{content}-ubyte")
            for part in ("train", "t10k")
            for content in ("images-idx3", "labels-idx1")
        ]

    def read(self, root: Path, *, progress: bool) -> Content:
        train_images, train_labels, test_images, test_labels = self.files(root)
        return Content(self.classes, self._part(train_images, train_labels), self._part(test_images, test_labels))

    def _part(self, images_path: Path, labels_path: Path) -> Part:
        images = read_idx(images_path, dimensions=3)
        if images.shape[1:] != self.size:
            raise DataError(f"{images_path} must hold images of {self.size}, found {images.shape[1:]}")
        labels = require_labels(read_idx(labels_path, dimensions=1), len(self.classes), labels_path)
        if len(labels) != len(images) or not len(labels):
            raise DataError(f"{labels_path} has {len(labels)} labels, but {images_path.name} has {len(images)} images")
        return part_from_arrays(images[..., np.newaxis], labels)


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Return the bytes in an idx file: two zeros, the type, the number of dimensions, their sizes, the values."""
    header = 4 + 4 * dimensions
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            start = file.read(header)
            if len(start) < header or start[:4] != bytes((0, 0, UNSIGNED_BYTES, dimensions)):
                raise DataError(
                    f"{path} must begin with 0 0 {UNSIGNED_BYTES} {dimensions} (an idx file of bytes with "
                    f"{dimensions} dimensions), found {' '.join(map(str, start[:4])) or 'an empty file'}"
                )
            shape = struct.unpack(f">{dimensions}I", start[4:])
            count = math.prod(shape)
            content = file.read(count + 1) if count <= MOST_BYTES else b""
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is truncated or damaged: {error}") from error
    if len(content) != count:
        found = "more" if len(content) > count else f"{len(content):,}"
        raise DataError(
            f"{path} must hold {count:,} bytes ({' x '.join(map(str, shape))}) after its header, found {found}"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _find_file(root: Path, name: str) -> Path:
    for path in (root / name, root / f"{name}.gz"):
        if path.is_file():
            return path
    raise DataError(f"{root} lacks {name} or {name}.gz; found: {listing(root)}")


TEST_SIZE = 500
FILE = "digits.csv.gz"


@dataclass(frozen=True, kw_only=True)
class Digits(Layout):
    """Split once and for all into 1,297 and 500 images with equal shares of every class."""

    roots: tuple[str, ...] = ()

    def find(self, folder: Path) -> Path | None:
        package = importlib.util.find_spec("sklearn")
        return Path(package.origin).parent / "datasets" / "data" if package and package.origin else None

    def expected(self) -> str:
        return (
            "the package scikit-learn, which brings the images (the extra 'demo': pip install '.[demo]' in a checkout)"
        )

    def files(self, root: Path) -> list[Path]:
        require_files(root, [FILE])
        return [root / FILE]

    def read(self, root: Path, *, progress: bool) -> Content:
        from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]

        table = np.loadtxt(root / FILE, delimiter=",")
        pixels, labels = table[:, :-1], table[:, -1].astype(np.int64)
        train, test, train_labels, test_labels = train_test_split(
            pixels, labels, test_size=TEST_SIZE, stratify=labels, random_state=0
        )
        classes = tuple(str(digit) for digit in range(10))
        return Content(
            classes, part_from_arrays(_to_bytes(train), train_labels), part_from_arrays(_to_bytes(test), test_labels)
        )


def _to_bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale 0..16 to 0..255."""
    return np.round(pixels * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
