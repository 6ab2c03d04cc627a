"""What a family of recipes is: for every method a function from a place and a length to a recipe."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adaste.paper.setups import Place
from adaste.recipes.recipe import Recipe

Make = Callable[[Place, int], Recipe | None]
"""The recipe of a method at a place for so many epochs; None where its source has none for that place."""


@dataclass(frozen=True)
class Family:
    """Recipes that belong together.

    about   one sentence on where they come from.
    epochs  the usual length of a run.
    makers  of recipes, by method.
    """

    name: str
    about: str
    epochs: int
    makers: Mapping[str, Make]

    def recipe(self, method: str, place: Place, epochs: int | None = None, seed: int = 0) -> Recipe | None:
        """The recipe of `method` at `place`; None where the family has none."""
        make = self.makers.get(method)
        made = make(place, self.epochs if epochs is None else epochs) if make else None
        return made.with_seed(seed) if made else None

    def has(self, method: str, place: Place) -> bool:
        """Whether there is a recipe of `method` at `place`."""
        return self.recipe(method, place) is not None
