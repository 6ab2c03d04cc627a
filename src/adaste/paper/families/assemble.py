"""What the recipes of all published scripts share."""

from types import MappingProxyType

from adaste.estimators import Estimator
from adaste.models import Network
from adaste.paper.setups import Place
from adaste.recipes.bases import Base
from adaste.recipes.methods import Plan
from adaste.recipes.recipe import Recipe

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
