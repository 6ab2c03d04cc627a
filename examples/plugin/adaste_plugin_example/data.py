"""A data set: what is known of it, and how its images are read. Those of this one are computed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adaste.data import Content, Layout, Part, Source, part_from_arrays

CLASSES = ("horizontal", "vertical")
SIDE = 8


@dataclass(frozen=True, kw_only=True)
class ComputedStripes(Layout):
    """Images of stripes in noise. A layout of files would look for them in the data folder, which `find` is given."""

    roots: tuple[str, ...] = ()

    def find(self, folder: Path) -> Path | None:
        return Path(__file__).parent

    def files(self, root: Path) -> list[Path]:
        return [Path(__file__)]  # all that its images depend on: where this file changes, they are made again

    def read(self, root: Path, *, progress: bool) -> Content:
        return Content(CLASSES, _stripes(200, seed=0), _stripes(100, seed=1))


def _stripes(count: int, seed: int) -> Part:
    random = np.random.default_rng(seed)
    labels = np.arange(count) % len(CLASSES)
    rows = np.where((np.arange(SIDE) + random.integers(0, 2, (count, 1))) % 2, 200, 50)
    images = np.broadcast_to(rows[:, :, None], (count, SIDE, SIDE)).copy()
    images[labels == 1] = images[labels == 1].swapaxes(1, 2)
    noisy = np.clip(images + random.normal(0, 40, images.shape), 0, 255)
    return part_from_arrays(noisy[..., None].astype(np.uint8), labels)


STRIPES = Source(
    name="stripes",
    title="horizontal and vertical stripes",
    size=(SIDE, SIDE, 1),
    classes=2,
    train=200,
    test=100,
    mean=None,  # computed from the training images
    std=None,
    layouts=(ComputedStripes(),),
    home="",
    licence="that of adaste",
)
