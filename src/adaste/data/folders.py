"""Data sets that are folders of image files: one folder per class, and Tiny ImageNet with its list of labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adaste.data.images import DECODING, SUFFIXES, common_square, fill_squares
from adaste.data.layout import Content, Layout, Part
from adaste.data.messages import DataError, listing, require_files, shorten_list

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
    """What to call a class instead of by its folder."""

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
        return _list_classes(root / "train"), _list_classes(_test_folders(root)[0])


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


def _list_classes(folder: Path) -> Labelled:
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        raise DataError(f"{folder} must hold one folder per class; found: {listing(folder)}")
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
