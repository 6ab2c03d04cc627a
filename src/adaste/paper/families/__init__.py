"""Families of recipes: for every method a function from a setup and a length to a recipe.

There are four of them, in three modules:

    printed    what the paper prints
    released   what the published scripts do (those of md-bnn and pmf are in md_bnn)
    ours       one common recipe for all methods, and the ablation
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from adaste.estimators import Estimator
from adaste.models import Network
from adaste.paper.setups import Setup
from adaste.recipes.bases import Base
from adaste.recipes.methods import Plan
from adaste.recipes.recipe import Recipe

Make = Callable[[Setup, int], Recipe | None]
"""The recipe of a method in a setup for so many epochs; None where its source has none for that setup."""


@dataclass(frozen=True)
class Family:
    """The recipes of several methods that have one source.

    about   one sentence on where they come from.
    epochs  the usual length of a run.
    makers  of recipes, by method.
    """

    name: str
    about: str
    epochs: int
    makers: Mapping[str, Make]

    def recipe(self, method: str, setup: Setup, epochs: int | None = None, seed: int = 0) -> Recipe | None:
        """Return the recipe of `method` in `setup`; None if the family has none."""
        make = self.makers.get(method)
        made = make(setup, self.epochs if epochs is None else epochs) if make else None
        return made.with_seed(seed) if made else None

    def has(self, method: str, setup: Setup) -> bool:
        """Return whether there is a recipe of `method` in `setup`."""
        return self.recipe(method, setup) is not None


EVERYTHING = ("*",)
"""All parameters are binary."""

HELD_OUT = MappingProxyType({"cifar10": 5_000, "cifar100": 5_000})
"""Images that the scripts do not train with, by data; of those not named here they use all."""


def assemble(
    setup: Setup,
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
    """Return a recipe with the data and the augmentation of a setup."""
    return Recipe(
        data=setup.data,
        network=network,
        estimator=estimator,
        base=base,
        include=include,
        exclude=exclude,
        epochs=epochs,
        batch=batch,
        augmentation=setup.setting.augmentation,
        holdout=held_out(setup) if holdout is None else holdout,
        norm_batches=norm_batches,
    )


def held_out(setup: Setup) -> int:
    """Return how many images of a setup the scripts do not train with."""
    return HELD_OUT.get(setup.data, 0)


def plan_of(setup: Setup, epochs: int, batch: int = 128) -> Plan:
    """Return the plan of a run, which knows its length in steps."""
    return Plan(epochs, setup.setting.images - held_out(setup), batch)
