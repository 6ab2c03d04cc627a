"""Families of recipes: for every method a function from a setup and a length to a recipe.

printed    what the paper prints
released   what the published scripts do; md_bnn has those of md-bnn and pmf
ours       one common recipe for all methods, and the ablation
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from adaste.estimators import Estimator
from adaste.models import Network
from adaste.paper.setups import Place
from adaste.recipes.bases import Base
from adaste.recipes.methods import Plan
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


EVERYTHING = ("*",)
"""All parameters are binary."""

HELD_OUT = MappingProxyType({"cifar10": 5_000, "cifar100": 5_000})
"""Images that the scripts do not train with, by data; of those not named here they use all."""


def assemble(
    place: Place,
    epochs: int,
    *,
    network: Network,
    estimator: Estimator,
    base: Base,
    include: tuple[str, ...] = EVERYTHING,
    exclude: tuple[str, ...] = (),
    norm_batches: int = 50,
    holdout: int | None = None,
    batch: int = 128,
) -> Recipe:
    """A recipe with the data and the augmentation of a place."""
    return Recipe(
        data=place.data,
        network=network,
        estimator=estimator,
        base=base,
        include=include,
        exclude=exclude,
        epochs=epochs,
        batch=batch,
        augmentation=place.setting.augmentation,
        holdout=held_out(place) if holdout is None else holdout,
        norm_batches=norm_batches,
    )


def held_out(place: Place) -> int:
    """Images at a place that the scripts do not train with."""
    return HELD_OUT.get(place.data, 0)


def plan_of(place: Place, epochs: int, batch: int = 128) -> Plan:
    """The run's length in steps."""
    return Plan(epochs, place.setting.images - held_out(place), batch)
