"""Data sets that are folders of image files: one folder per class, and Tiny ImageNet with its list of labels.

Images become square arrays of bytes, many at a time.

Decoding runs in a few threads. Pillow gives up the interpreter lock inside its decoders and resizing, so that two
threads decode photographs of 320 pixels twice as fast (as two processes do). Pictures of 64 pixels take 0.3 ms and gain
nothing, and many threads would only wait for each other. Two processes would halve that, but they would ask every
script that loads data for a main guard, and all this happens once.
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from adaste.data.dataset import Content, DataError, Layout, Part, listing, require_files, shorten_list
from adaste.data.download import bar

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
AT_A_TIME = 64
MOST_THREADS = 4

DECODING = 2
"""Part of the digest of all data sets of image files: to be raised when the same files become other pixels.

2: images are turned upright.
"""

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Operations that make an image upright, by the orientation in its EXIF data; 1 is upright."""

T = TypeVar("T")


def fill_squares(paths: Sequence[Path], side: int, progress: bool, images: NDArray[np.uint8]) -> None:
    """Decode every file into its row of `images`, (n, side, side, 3)."""

    def decode(start: int) -> int:
        for place, path in enumerate(paths[start : start + AT_A_TIME], start):
            images[place] = read_square(path, side)
        return min(AT_A_TIME, len(paths) - start)

    with bar("decoding images", len(paths), shown=progress) as show:
        done = 0
        for count in _map_in_threads(decode, range(0, len(paths), AT_A_TIME)):
            done += count
            show(done)


def read_square(path: Path, side: int) -> NDArray[np.uint8]:
    """Return an image as (side, side, 3) bytes: upright, the shorter side resized, the longer one cut."""
    with _open_image(path) as image:
        colour = _to_bytes(_turn_upright(image)).convert("RGB")
        width, height = colour.size
        if (width, height) != (side, side):
            scale = side / min(width, height)
            size = (max(side, round(width * scale)), max(side, round(height * scale)))
            left, top = (size[0] - side) // 2, (size[1] - side) // 2
            colour = colour.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + side, top + side))
        return np.asarray(colour)


def common_square(paths: Sequence[Path]) -> int | None:
    """Return the side of all images if they are squares of one size, else None."""

    def sizes(start: int) -> set[tuple[int, int]]:
        return {_size(path) for path in paths[start : start + AT_A_TIME]}

    found = set().union(*_map_in_threads(sizes, range(0, len(paths), AT_A_TIME)))
    width, height = found.pop() if len(found) == 1 else (0, -1)
    return width if width == height else None


def _turn_upright(image: Image.Image) -> Image.Image:
    """Turned as its EXIF data say, if they can be read.

    ImageOps.exif_transpose also writes these data anew, and fails where they hold something odd.
    """
    image.load()  # damaged pixels are an error, damaged EXIF data none
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except (SyntaxError, struct.error):
        return image
    return image if turn is None else image.transpose(turn)


def _to_bytes(image: Image.Image) -> Image.Image:
    """Turn grey of 16 bits into 8: Pillow would make all above 255 white. (In colour it takes the upper 8 itself.)"""
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image


def _size(path: Path) -> tuple[int, int]:
    with _open_image(path) as image:
        return image.size


@contextmanager
def _open_image(path: Path) -> Iterator[Image.Image]:
    """Open an image file; every error of Pillow about damage becomes one that names the file."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            yield image
    except FileNotFoundError:
        raise DataError(f"{path} is missing") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is not a readable image ({', '.join(FORMATS)} were tried): {error}") from error


def _map_in_threads(work: Callable[[int], T], starts: Sequence[int]) -> Iterator[T]:
    """Yield the results of `work`, in threads, as they are done. The first error cancels all that has not begun."""
    with ThreadPoolExecutor(max_workers=min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        pending = [pool.submit(work, start) for start in starts]
        try:
            for future in as_completed(pending):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


DEFAULT_SIDE = 64
LITTER = ("Thumbs.db", "desktop.ini")
Labelled = list[tuple[Path, str]]


@dataclass(frozen=True, kw_only=True)
class ClassFolders(Layout):
    """train/<class>/* and val/<class>/* (or test/).

    All images are turned upright, as their EXIF data say, and brought to one square of `side` pixels: the shorter side
    is resized to it, the middle of the longer one kept. Without `side`, images that are all squares of one size stay of
    that size; others become squares of 64.
    """

    side: int | None = None
    names: Mapping[str, str] | None = None
    """Names of classes, by the names of their folders where they differ."""

    def find(self, folder: Path) -> Path | None:
        root = super().find(folder)
        return root if root and (root / "train").is_dir() and any(_test_folders(root)) else None

    def expected(self) -> str:
        return f"{super().expected()}, with train/<class>/ and val/<class>/ or test/<class>/"

    def options(self) -> dict[str, Any]:
        return {"side": self.side, "decoding": DECODING}

    def files(self, root: Path) -> list[Path]:
        return [path for part in self._parts(root) for path, _ in part]

    def read(self, root: Path, *, progress: bool) -> Content:
        train, test = self._parts(root)
        classes = sorted({label for _, label in train})
        unknown = {label for _, label in test} - set(classes)
        if unknown:
            raise DataError(f"{root} has classes to test that train/ does not have: {shorten_list(unknown)}")
        side = self._side(train, test)
        names = tuple((self.names or {}).get(name, name) for name in classes)
        return Content(names, _part(train, classes, side, progress), _part(test, classes, side, progress))

    def survey(self, root: Path) -> tuple[int, int]:
        """Return the number of training images, and the side that all will have; nothing is decoded."""
        train, test = self._parts(root)
        return len(train), self._side(train, test)

    def _side(self, train: Labelled, test: Labelled) -> int:
        return self.side or common_square([path for path, _ in [*train, *test]]) or DEFAULT_SIDE

    def _parts(self, root: Path) -> tuple[Labelled, Labelled]:
        return _list_classes(root / "train", least=2), _list_classes(_test_folders(root)[0], least=1)


@dataclass(frozen=True, kw_only=True)
class TinyImageNet(Layout):
    """wnids.txt, words.txt, train/<wnid>/images/, and val/images/ with val/val_annotations.txt to test with.

    Files in grey become RGB like all others.
    """

    side: int = 64

    def options(self) -> dict[str, Any]:
        return {"decoding": DECODING}

    def files(self, root: Path) -> list[Path]:
        lists = ["wnids.txt", "words.txt", "val/val_annotations.txt"]
        require_files(root, lists)
        train, test = self._train(root), self._test(root)
        return [*(root / name for name in lists), *(path for path, _ in [*train, *test])]

    def read(self, root: Path, *, progress: bool) -> Content:
        classes = self._classes(root)
        words = dict(line.split("\t", 1) for line in _read_lines(root / "words.txt") if "\t" in line)
        names = tuple(words.get(wnid, wnid).split(",")[0] for wnid in classes)
        train, test = self._train(root), self._test(root)
        return Content(names, _part(train, classes, self.side, progress), _part(test, classes, self.side, progress))

    def _classes(self, root: Path) -> list[str]:
        classes = sorted(set(_read_lines(root / "wnids.txt")))
        if not classes:
            raise DataError(f"{root / 'wnids.txt'} must list the classes, one a line, but is empty")
        return classes

    def _train(self, root: Path) -> Labelled:
        return [(path, wnid) for wnid in self._classes(root) for path in _list_images(root / "train" / wnid / "images")]

    def _test(self, root: Path) -> Labelled:
        annotations = root / "val" / "val_annotations.txt"
        known = set(self._classes(root))
        labels = {}
        for number, line in enumerate(_read_lines(annotations), start=1):
            name, wnid, *_ = [*line.split("\t"), ""]
            if wnid not in known:
                raise DataError(
                    f"{annotations}, line {number}: expected a file, a tab and a class of wnids.txt, got {line!r}"
                )
            labels[name] = wnid
        images = _list_images(root / "val" / "images")
        differing = {path.name for path in images} ^ set(labels)
        if differing:
            raise DataError(
                f"{annotations} must label every image in val/images: {len(labels)} labels, {len(images)} images; "
                f"only in one of the two: {shorten_list(differing)}"
            )
        return [(path, labels[path.name]) for path in images]


def _part(labelled: Labelled, classes: list[str], side: int, progress: bool) -> Part:
    index = {name: place for place, name in enumerate(classes)}
    labels = np.array([index[label] for _, label in labelled], dtype=np.int64)
    return Part(labels, (side, side, 3), partial(fill_squares, [path for path, _ in labelled], side, progress))


def _test_folders(root: Path) -> list[Path]:
    return [root / name for name in ("val", "test") if (root / name).is_dir()]


def _list_classes(folder: Path, *, least: int) -> Labelled:
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if len(classes) < least:
        several = ", two or more, with its images in it" if least > 1 else ""
        raise DataError(f"{folder} must hold one folder per class{several}; found: {listing(folder)}")
    return [(image, path.name) for path in classes for image in _list_images(path)]


def _list_images(folder: Path) -> list[Path]:
    """Return the image files of a folder, by name. Raise DataError for another file: nothing is left out silently."""
    if not folder.is_dir():
        raise DataError(f"{folder} is missing; found in {folder.parent}: {listing(folder.parent)}")
    found = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name not in LITTER)
    strange = [path.name for path in found if path.suffix.lower() not in SUFFIXES]
    if strange or not found:
        raise DataError(f"{folder} must hold images ({', '.join(SUFFIXES)}) only; found: {shorten_list(strange)}")
    return found


def _read_lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]
