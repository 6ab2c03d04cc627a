"""ProxQuant in the family `released`: a network to start from, the published pull, and a freeze."""

import math

import pytest

from adaste.estimators import ProxQuant
from adaste.estimators.schedules import Linear, Schedule, Steps
from adaste.paper.families import SETUPS
from adaste.recipes.bases import Adam
from support.released import CIFAR_10_R, every_setup, released


@every_setup
def test_proxquant_pulls_as_far_as_published_and_then_freezes(where: str) -> None:
    made = released("proxquant", where, 50)
    estimator = made.estimator
    assert isinstance(estimator, ProxQuant) and isinstance(estimator.strength, Schedule)
    assert made.base == Adam(lr=0.01)
    assert isinstance(estimator.frozen, Schedule)
    assert [estimator.frozen.at(epoch) for epoch in (0, 20, 39, 40, 49)] == [0, 0, 0, 1, 1]
    steps = math.ceil((SETUPS[where].setting.images - made.holdout) / made.batch)
    in_steps = estimator.strength.stretched(steps)
    assert [in_steps.at(epoch * steps) > 0 for epoch in (0, 10, 20, 21)] == [False, False, False, True]
    assert sum(float(in_steps.at(step)) for step in range(40 * steps)) == pytest.approx(7.8, rel=0.01)


@pytest.mark.parametrize("epochs", range(1, 12))
def test_proxquant_pulls_for_an_epoch_and_then_freezes_in_the_shortest_runs_too(epochs: int) -> None:
    estimator = released("proxquant", CIFAR_10_R, epochs).estimator
    assert isinstance(estimator, ProxQuant)
    assert isinstance(estimator.strength, Linear) and isinstance(estimator.frozen, Steps)
    assert estimator.strength.length >= 1
    assert estimator.frozen.ticks == (estimator.strength.delay + estimator.strength.length,)
    assert 1 <= estimator.frozen.ticks[0] <= epochs


@every_setup
def test_proxquants_batch_norm_has_scales_and_shifts(where: str) -> None:
    assert released("proxquant", where).network.affine
