"""What stands around the tables in a text: their order, and remarks on what they do not show."""

from collections.abc import Callable, Iterator, Sequence

from adaste.paper.collection import Collection
from adaste.paper.custom_recipes import Other, others_of
from adaste.paper.report.cell_format import counted


def in_order(collection: Collection, tables: list[str], told: Callable[[Sequence[Other]], str]) -> list[str]:
    """The paper's tables if they are shown, and the other recipes; those first where the tables are all empty."""
    others = others_of(collection.runs)
    own = [told(others)] if others else []
    if not collection.shows_paper:
        return own
    filled = any(run.addresses for run in collection.runs)
    return [*tables, *own] if filled else [*own, *tables]


def remarks(collection: Collection) -> Iterator[str]:
    """What the tables do not show, and what they should not show in silence."""
    others = sum(not run.addresses for run in collection.runs)
    if others and collection.shows_paper:
        yield f"{counted(others, 'run')} of other recipes: in no table of the paper but in one of their own."
    for folder, version in collection.foreign.items():
        yield f"Made by another version: {folder.name} (adaste {version})."
    for problem in collection.problems:
        yield " ".join(f"Left out: {problem.folder.name} ({problem.reason}).".split())
