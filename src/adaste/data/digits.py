"""The 1,797 handwritten digits that come with scikit-learn: 8 x 8 pixels with 17 levels of grey."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste.data.errors import require_files
from adaste.data.layout import Content, Layout, ready

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
        return Content(classes, ready(_bytes(train), train_labels), ready(_bytes(test), test_labels))


def _bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """0..16 to 0..255."""
    return np.round(pixels * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
