"""Cells by name, and which of them a recipe belongs to."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from adaste.paper.setups import PLACES
from adaste.paper.tables import FAMILIES
from adaste.recipes.recipe import Recipe


class Address(NamedTuple):
    """Where a recipe belongs."""

    family: str
    method: str
    place: str

    @property
    def name(self) -> str:
        """What runs of this cell are called."""
        return f"{self.family}-{self.place}-{self.method}"

    def recipe(self, epochs: int) -> Recipe | None:
        """The recipe of this cell, with seed 0; None where the family has none."""
        return FAMILIES[self.family].recipe(self.method, PLACES[self.place], epochs)


def addresses_of(recipe: Recipe) -> tuple[Address, ...]:
    """The cells whose recipe this is, at its own length and seed."""
    return _index(recipe.data, recipe.epochs).get(recipe.unseeded, ())


def recipes_named(name: str, epochs: int) -> list[Recipe]:
    """The recipe of the cell that has this name, with seed 0; none where no cell has it."""
    made = [address.recipe(epochs) for address in _addresses() if address.name == name]
    return [recipe for recipe in made if recipe is not None]


@lru_cache(maxsize=1024)
def _index(data: str, epochs: int) -> dict[Recipe, tuple[Address, ...]]:
    """The addresses of all recipes of one length, as they are with seed 0."""
    found: dict[Recipe, tuple[Address, ...]] = {}
    for address in _addresses():
        made = address.recipe(epochs) if PLACES[address.place].data == data else None
        if made is not None:
            found[made] = (*found.get(made, ()), address)
    return found


def _addresses() -> Iterator[Address]:
    for family in FAMILIES.values():
        for method in family.makers:
            for place in PLACES:
                yield Address(family.name, method, place)
