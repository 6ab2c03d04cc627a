"""Runs of recipes that no table has, as one's own: those that differ in their seeds alone are told together."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from adaste._util.serial import brief
from adaste.paper.cell_ids import recipes_named
from adaste.paper.cells import Cell, cell_of
from adaste.paper.collection import Run
from adaste.recipes.recipe import Recipe


@dataclass(frozen=True)
class Other:
    """What the runs of one recipe say.

    name      that of most of their folders, without the digest, or the method's.
    settings  what tells the recipe from others of the same name and length, as in `base.lr=0.1`; also from that of
              the tables, where the name is that of one of their cells.
    setting   its data and network.
    """

    name: str
    settings: tuple[str, ...]
    setting: str
    cell: Cell

    @property
    def title(self) -> str:
        """As in `mine (base.lr=0.1, batch=64)`."""
        return f"{self.name} ({', '.join(self.settings)})" if self.settings else self.name


def others_of(runs: Iterable[Run]) -> list[Other]:
    """One per recipe that belongs to no table, those of a setting one after the other."""
    groups: dict[Recipe, list[Run]] = {}
    for run in runs:
        if not run.addresses:
            groups.setdefault(run.recipe.unseeded, []).append(run)
    names = {recipe: _name(group) for recipe, group in groups.items()}
    found = [
        Other(
            name=names[recipe],
            settings=tuple(_differences(recipe, _namesakes(recipe, names))),
            setting=f"{recipe.data} {type(recipe.network).__name__}",
            cell=cell_of(group, None),
        )
        for recipe, group in groups.items()
    ]
    return sorted(found, key=lambda other: (other.setting, other.name, -other.cell.epochs, other.settings))


def _name(group: Sequence[Run]) -> str:
    """What most of their folders are called, unless each is called otherwise, as by its seed."""
    names = Counter(run.folder.name.removesuffix(f"-{run.digest}") for run in group)
    (name, count), *_ = names.most_common(1)
    return name if count > 1 or len(group) == 1 else type(group[0].recipe.estimator).__name__


def _namesakes(recipe: Recipe, names: dict[Recipe, str]) -> list[Recipe]:
    """All that a reader could take it for: those shown under the same words, and that of the cell of this name."""
    shown = [other for other in names if _alike(other, recipe, names)]
    return [*shown, *recipes_named(names[recipe], recipe.epochs)]


def _alike(one: Recipe, other: Recipe, names: dict[Recipe, str]) -> bool:
    """Whether a table would show two recipes under the same words."""
    return (names[one], one.data, type(one.network), one.epochs) == (
        names[other],
        other.data,
        type(other.network),
        other.epochs,
    )


def _differences(mine: Any, every: Sequence[Any], path: str = "") -> Iterator[str]:
    """The fields in which values of one class are not all equal, with mine: as deep as their classes are the same."""
    for field in dataclasses.fields(mine):
        own, values = getattr(mine, field.name), [getattr(value, field.name) for value in every]
        if all(value == own for value in values):
            continue
        where = f"{path}{field.name}"
        if dataclasses.is_dataclass(own) and all(type(value) is type(own) for value in values):
            yield from _differences(own, values, f"{where}.")
        else:
            yield f"{where}={brief(own)}"
