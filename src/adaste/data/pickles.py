"""Python's pickles of plain data, without running anything they say.

A pickle is a program. This reader admits what the CIFAR files hold: numbers, text, lists, dictionaries and arrays of
bytes. Even arrays are not built by numpy's own functions: stand-ins collect what the file says, and it is checked.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste.data.errors import DataError


class _Type:
    """Stands in for numpy.dtype."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """The byte order and the alignment: of no meaning for single bytes."""


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
    """The dictionary in a pickle file, with its arrays of bytes; a DataError for anything else."""
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
