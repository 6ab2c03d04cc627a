"""What this room tells people: its one error, lists of what was found instead, and the progress bar."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class DataError(ValueError):
    """Data that is missing, damaged or of another layout: says which file, and what was expected."""


def shorten_list(names: Iterable[str], most: int = 10) -> str:
    """Return the first names of a list that may be long."""
    listed = sorted(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more if listed else "nothing"


def listing(folder: Path) -> str:
    """Return the names in a folder, for an error message."""
    if not folder.is_dir():
        return "no such folder" if not folder.exists() else "a file, not a folder"
    return shorten_list(path.name + ("/" if path.is_dir() else "") for path in folder.iterdir())


def require_files(root: Path, names: Iterable[str]) -> None:
    """Check that a folder holds all the files of its layout."""
    missing = [name for name in names if not (root / name).is_file()]
    if missing:
        raise DataError(f"{root} lacks {shorten_list(missing)}; found: {listing(root)}")


@contextmanager
def bar(what: str, total: int, *, shown: bool, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a bar on the standard error stream during the block; yield the function that takes how much is done."""
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
