"""CIFAR-10 and CIFAR-100 in both layouts of their publisher: records of bytes, and Python pickles.

A pickle is a program. Its reader here admits what these files hold: numbers, text, lists, dictionaries and arrays of
bytes. Even arrays are not built by numpy's own functions: stand-ins collect what the file says, and it is checked.
"""

import io
import pickle
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
    part_from_arrays,
    require_files,
    require_labels,
    shorten_list,
)


class _Type:
    """Stands in for numpy.dtype."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Ignore the byte order and the alignment: they mean nothing for single bytes."""


class _Array:
    """Stands in for numpy.ndarray, and for the function that makes an empty one."""

    def __init__(self, *_: object) -> None:
        self.array: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _Type) or kind.code not in ("u1", "|u1"):
            raise pickle.UnpicklingError("an array that is not of uint8")
        raw = content.encode("latin1") if isinstance(content, str) else content
        self.array = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _Bytes:
    """Stands in for _codecs.encode: bytes, as Python 3 writes them for Python 2."""

    def __new__(cls, text: str, encoding: str = "latin1") -> bytes:  # type: ignore[misc]
        if encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"text encoded as {encoding!r}")
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None:
        """Takes from a pickle the possibility to set attributes of this class, as it takes it for the others."""


class _PlainData(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") | ("numpy", "ndarray"):
                return _Array
            case ("numpy", "dtype"):
                return _Type
            case ("_codecs", "encode"):
                return _Bytes
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not plain data")


def read_dictionary(path: Path) -> dict[str, Any]:
    """Return the dictionary in a pickle file, with its arrays of bytes. Raise DataError for anything else."""
    try:
        content = _PlainData(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"{path} is not a pickle of arrays, lists, text and numbers: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold a dictionary, found {type(content).__name__}")
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value.array
        if isinstance(value, _Array)
        else value
        for key, value in content.items()
    }


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

    def _check_names(self, names: list[str], path: Path) -> tuple[str, ...]:
        if len(names) != self.classes:
            raise DataError(f"{path} must name {self.classes} classes, found {len(names)}: {shorten_list(names)}")
        return tuple(names)


@dataclass(frozen=True, kw_only=True)
class CifarBinary(_Cifar):
    """Records of `label_bytes` labels, of which the one at `label_at` counts, and 3 x 32 x 32 bytes."""

    label_bytes: int
    label_at: int

    def read(self, root: Path, *, progress: bool) -> Content:
        path = root / self.names
        names = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
        classes = self._check_names([name for name in names if name], path)
        return Content(classes, self._part(root, self.train), self._part(root, self.test))

    def _part(self, root: Path, names: tuple[str, ...]) -> Part:
        records = np.concatenate([self._records(root / name) for name in names])
        return part_from_arrays(_to_channels_last(records[:, self.label_bytes :]), records[:, self.label_at])

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
        classes = self._check_names(text, path)
        return Content(classes, self._part(root, self.train), self._part(root, self.test))

    def _part(self, root: Path, names: tuple[str, ...]) -> Part:
        batches = [self._batch(root / name) for name in names]
        pixels = np.concatenate([pixels for pixels, _ in batches])
        return part_from_arrays(_to_channels_last(pixels), np.concatenate([labels for _, labels in batches]))

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
        raise DataError(f"{path} has no entry {key!r}; found: {shorten_list(content)}")
    return content[key]


def _to_channels_last(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
