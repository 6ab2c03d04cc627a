"""CIFAR-10 and CIFAR-100 in both layouts of their publisher: records of bytes, and Python pickles."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste.data.errors import DataError, require_files, some
from adaste.data.layout import Content, Layout, Part, ready, require_labels
from adaste.data.pickles import read_dictionary

SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True, kw_only=True)
class _Cifar(Layout):
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str
    classes: int

    def files(self, root: Path) -> list[Path]:
        wanted = [*self.train, *self.test, self.names]
        require_files(root, wanted)
        return [root / name for name in wanted]

    def _checked_names(self, names: list[str], path: Path) -> tuple[str, ...]:
        if len(names) != self.classes:
            raise DataError(f"{path} must name {self.classes} classes, found {len(names)}: {some(names)}")
        return tuple(names)


@dataclass(frozen=True, kw_only=True)
class CifarBinary(_Cifar):
    """Records of `label_bytes` labels, of which the one at `label_at` counts, and 3 x 32 x 32 bytes."""

    label_bytes: int
    label_at: int

    def read(self, root: Path, *, progress: bool) -> Content:
        path = root / self.names
        names = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
        classes = self._checked_names([name for name in names if name], path)
        return Content(classes, self._part(root, self.train), self._part(root, self.test))

    def _part(self, root: Path, names: tuple[str, ...]) -> Part:
        records = np.concatenate([self._records(root / name) for name in names])
        return ready(_by_channel_last(records[:, self.label_bytes :]), records[:, self.label_at])

    def _records(self, path: Path) -> NDArray[np.uint8]:
        content = np.fromfile(path, dtype=np.uint8)
        length = self.label_bytes + PIXELS
        if not content.size or content.size % length:
            raise DataError(
                f"{path} must consist of records of {length} bytes, but has {content.size:,} bytes "
                f"({content.size // length:,} records and {content.size % length} bytes): it is damaged or another file"
            )
        records = content.reshape(-1, length)
        require_labels(records[:, self.label_at], self.classes, path)
        return records


@dataclass(frozen=True, kw_only=True)
class CifarPython(_Cifar):
    """Pickled dictionaries with `data`, bytes of the shape (n, 3072), and a list of labels."""

    label_key: str
    names_key: str

    def read(self, root: Path, *, progress: bool) -> Content:
        path = root / self.names
        names = _entry(read_dictionary(path), self.names_key, path)
        if not isinstance(names, list):
            raise DataError(f"{path}: {self.names_key!r} must be a list, found {type(names).__name__}")
        text = [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]
        classes = self._checked_names(text, path)
        return Content(classes, self._part(root, self.train), self._part(root, self.test))

    def _part(self, root: Path, names: tuple[str, ...]) -> Part:
        batches = [self._batch(root / name) for name in names]
        pixels = np.concatenate([pixels for pixels, _ in batches])
        return ready(_by_channel_last(pixels), np.concatenate([labels for _, labels in batches]))

    def _batch(self, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        content = read_dictionary(path)
        pixels = _entry(content, "data", path)
        labels = require_labels(_entry(content, self.label_key, path), self.classes, path)
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
            shape = pixels.shape if isinstance(pixels, np.ndarray) else type(pixels).__name__
            raise DataError(f"{path}: 'data' must be bytes of the shape (n, {PIXELS}), found {shape}")
        if len(labels) != len(pixels) or not len(labels):
            raise DataError(f"{path}: one label per image is needed, found {len(labels)} for {len(pixels)} images")
        return pixels, labels


def _entry(content: dict[str, Any], key: str, path: Path) -> Any:
    if key not in content:
        raise DataError(f"{path} has no entry {key!r}; found: {some(content)}")
    return content[key]


def _by_channel_last(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
