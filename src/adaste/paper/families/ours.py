"""The families `ours` and `ablation`: one modern recipe for all methods, the fairest comparison here.

The same network (affine-free BatchNorm, one on the logits), all training images, crop and flip, a learning rate that
falls to zero along a cosine (but for ProxQuant, whose pull would overtake it), BatchNorm re-estimated for rounded
weights before a test where training has soft ones. A method includes the base optimizer and its rates. The ablation
shows under the same recipe what makes AdaSTE work, piece by piece.

The named recipes (`adaste train cifar10-resnet18-adaste`) train alike, but re-estimate BatchNorm before every test.
"""

import dataclasses
from collections.abc import Callable
from types import MappingProxyType

from adaste.data.augment import Mixup
from adaste.estimators import AdaSTE, Estimator, StraightThrough
from adaste.estimators.schedules import Schedule
from adaste.paper.families import Family, Make, Setup
from adaste.recipes.bases import SGD
from adaste.recipes.methods import (
    METHODS,
    RELEASED_RATE,
    NamedMethod,
    Plan,
    Treatment,
    released_dynamics,
    released_update,
)
from adaste.recipes.presets import Preset
from adaste.recipes.recipe import Recipe


def under_common_recipe(method: NamedMethod) -> Make:
    """Return the recipes of a method that differ from those of all others only in the method."""

    def make(setup: Setup, epochs: int) -> Recipe:
        preset = Preset(setup.name, method.title, setup.setting, setup.network, method, norm_always=False)
        return preset.make(epochs)

    return make


def with_mixup(make: Make) -> Make:
    """Return the same recipes with the mixup of He et al. 2019: a share from Beta(0.2, 0.2). The paper names none."""

    def mixed(setup: Setup, epochs: int) -> Recipe | None:
        made = make(setup, epochs)
        return dataclasses.replace(made, augmentation=(*made.augmentation, Mixup(0.2))) if made else None

    return mixed


_MAKERS = {name: under_common_recipe(method) for name, method in METHODS.items()}

_WITH_MIXUP = ("bayesbinn", "adaste", "adaste-annealed")

OURS = Family(
    name="ours",
    about="One common recipe for all methods: same network, 50,000 images, cosine.",
    epochs=160,
    makers=MappingProxyType({**_MAKERS, **{f"{name}-mixup": with_mixup(_MAKERS[name]) for name in _WITH_MIXUP}}),
)


Treat = Callable[[Plan], Treatment]
Mu = Callable[[Plan], float | Schedule]


def _constant(plan: Plan) -> float:
    return 100.0


def _annealed(plan: Plan) -> Schedule:
    return plan.rise(1.0, 100.0)


def _printed(rate: float, mu: Mu = _constant, *, momentum: float = 0.0, averaging: float = 0.0) -> Treat:
    """The printed rule, on an exponential average of gradients if there is one, else on those of single batches."""

    def treat(plan: Plan) -> Treatment:
        base = SGD(lr=plan.fall(rate), momentum=momentum)
        return Treatment(AdaSTE(mu=mu(plan), start=1.0), base, averaging, rest_lr=plan.fall(0.1))

    return treat


def _moved_as_released(estimator: Estimator, rate: float = RELEASED_RATE) -> Treat:
    """The latent dynamics of the released update, at this rate of its average whatever the run's length."""

    def treat(plan: Plan) -> Treatment:
        return released_dynamics(plan, estimator, rate)

    return treat


_NO_GATE = StraightThrough(start=1e-7)

_ABLATED = {
    # On single batches: the best of three rates in results/preliminary.
    "printed": NamedMethod("printed rule, single batches", _printed(4.5, momentum=0.9)),
    "printed-annealed": NamedMethod("printed rule, single batches, annealed", _printed(4.5, _annealed, momentum=0.9)),
    "averaged-0.99": NamedMethod("printed rule, average 0.99", _printed(45.0, averaging=0.99)),
    "averaged-0.999": NamedMethod("printed rule, average 0.999", _printed(5000.0, averaging=0.999)),
    "averaged-0.9997": NamedMethod("printed rule, average 0.9997", _printed(5000.0, averaging=0.9997)),
    "averaged-0.99-annealed": NamedMethod(
        "printed rule, average 0.99, annealed", _printed(45.0, _annealed, averaging=0.99)
    ),
    "averaged-0.999-annealed": NamedMethod(
        "printed rule, average 0.999, annealed", _printed(5000.0, _annealed, averaging=0.999)
    ),
    "averaged-0.9997-annealed": NamedMethod(
        "printed rule, average 0.9997, annealed", _printed(5000.0, _annealed, averaging=0.9997)
    ),
    # The gate acts where |g| is above the threshold.
    "released": NamedMethod("released update, gate at |g| > 0.001", _moved_as_released(released_update())),
    "released-gate-everywhere": NamedMethod(
        "released update, gate everywhere", _moved_as_released(released_update(threshold=0.0))
    ),
    "straight-through": NamedMethod("straight-through, same latent dynamics", _moved_as_released(_NO_GATE)),
    "straight-through-faster": NamedMethod(
        "straight-through, average at rate 0.001", _moved_as_released(_NO_GATE, rate=1e-3)
    ),
}

TITLES = MappingProxyType({name: method.title for name, method in _ABLATED.items()})
"""The rows of the ablation in words."""

ABLATION = Family(
    name="ablation",
    about="What makes AdaSTE work: the printed rule, averages of gradients, the released gate, straight-through.",
    epochs=60,
    makers=MappingProxyType({name: under_common_recipe(method) for name, method in _ABLATED.items()}),
)
