"""The ProxQuant repository: a network to start from, a growing pull, frozen weights."""

import dataclasses

from adaste.estimators import ProxQuant
from adaste.estimators.schedules import Steps
from adaste.paper.families.assemble import assemble, plan_of
from adaste.paper.setups import Place
from adaste.recipes.bases import Adam
from adaste.recipes.methods import growing_pull
from adaste.recipes.recipe import Recipe

WARM, FREEZE = 0.4, 0.8
"""Shares of the run: 200 epochs of a network to start from, 200 with a growing pull, 100 with frozen weights."""


def prox_quant(place: Place, epochs: int) -> Recipe:
    """Adam at 0.01 throughout; the pull adds up to the published 7.8; shortcuts and biases stay real."""
    warm, freeze = round(WARM * epochs), round(FREEZE * epochs)
    strength = growing_pull(plan_of(place, freeze - warm), delay=warm)
    frozen = Steps(values=(0.0, 1.0), ticks=(freeze,))
    return assemble(
        place,
        epochs,
        network=dataclasses.replace(place.md_form, affine=True),
        estimator=ProxQuant(strength=strength, frozen=frozen),
        base=Adam(lr=0.01),
        include=(),
        exclude=place.shortcuts,
        norm_batches=0,
    )
