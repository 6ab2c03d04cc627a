"""What stands around the tables in a text: their order, and remarks on what they do not show."""

from collections.abc import Callable, Iterator, Sequence

from adaste.paper.collection import Collection
from adaste.paper.others import Other, others_of
from adaste.report.wording import counted


def in_order(collection: Collection, tables: list[str], told: Callable[[Sequence[Other]], str]) -> list[str]:
    """The tables, then the other recipes if there are some; before them where the tables would all be empty."""
    others = others_of(collection.runs)
    if not others:
        return tables
    filled = any(run.addresses for run in collection.runs)
    return [*tables, told(others)] if filled else [told(others), *tables]


def remarks(collection: Collection) -> Iterator[str]:
    """What the tables do not show, and what they should not show in silence."""
    others = sum(not run.addresses for run in collection.runs)
    if others:
        yield f"{counted(others, 'run')} of other recipes: in no table of the paper but in one of their own."
    for folder, version in collection.foreign.items():
        yield f"Made by another version: {folder.name} (adaste {version})."
    for problem in collection.problems:
        yield " ".join(f"Left out: {problem.folder.name} ({problem.reason}).".split())
