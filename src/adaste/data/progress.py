"""One progress bar for everything here that takes long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(what: str, total: int, *, shown: bool, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar on the standard error stream while the block runs; gives the function that says how far it is."""
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
