"""The one error of this room, and how it lists what was found instead."""

from collections.abc import Iterable
from pathlib import Path


class DataError(ValueError):
    """Data that is missing, damaged or of another layout: says which file, and what was expected."""


def some(names: Iterable[str], most: int = 10) -> str:
    """The first names of a list that may be long."""
    listed = sorted(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more if listed else "nothing"


def listing(folder: Path) -> str:
    """What a folder holds, for an error message."""
    if not folder.is_dir():
        return "no such folder" if not folder.exists() else "a file, not a folder"
    return some(path.name + ("/" if path.is_dir() else "") for path in folder.iterdir())


def require_files(root: Path, names: Iterable[str]) -> None:
    """Check that a folder holds all the files of its layout."""
    missing = [name for name in names if not (root / name).is_file()]
    if missing:
        raise DataError(f"{root} lacks {some(missing)}; found: {listing(root)}")
