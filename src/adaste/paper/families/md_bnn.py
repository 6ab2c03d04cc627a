"""md-bnn and pmf: Adam, a rate that drops and a beta that grows; and full precision by pmf."""

import dataclasses
from collections.abc import Mapping

from adaste.estimators import (
    PMF,
    Estimator,
    FullPrecision,
    MirrorDescent,
    SoftmaxMirror,
    StraightThrough,
    TanhMirror,
)
from adaste.estimators.schedules import Schedule, Steps
from adaste.paper.families.assemble import assemble
from adaste.paper.families.family import Make
from adaste.paper.families.md_bnn_hyperparameters import PMF_BETA_MOST, PMF_DECAY, PMF_SCRIPTS, Tuned, rounded
from adaste.paper.setups import Place
from adaste.recipes.bases import SGD, Adam
from adaste.recipes.recipe import Recipe


def drops(rate: float, factor: float, epochs: int) -> Schedule:
    """A learning rate multiplied by `factor` after 30, 60 and 90 % of the run (every 30,000 of 100,000 iterations)."""
    values = {round(share * epochs): rounded(rate * factor**count) for count, share in enumerate((0.3, 0.6, 0.9), 1)}
    return Steps(values=(rate, *values.values()), ticks=tuple(values))


def _by_adam(
    place: Place,
    epochs: int,
    estimator: Estimator,
    rate: float,
    drop: float,
    *,
    two_levels: bool = False,
    weight_decay: float = 0.0,
) -> Recipe:
    """As all scripts of md-bnn and pmf: tested with the statistics of soft weights."""
    network = dataclasses.replace(place.md_form, two_levels=two_levels)
    base = Adam(lr=drops(rate, drop, epochs), weight_decay=weight_decay)
    return assemble(place, epochs, network=network, estimator=estimator, base=base, norm_batches=0)


def mirror_descent(mirror: TanhMirror | SoftmaxMirror, *, stable: bool, tuned: Mapping[str, Tuned]) -> Make:
    """In one of its four forms, where there is a script of it."""
    two_levels = isinstance(mirror, SoftmaxMirror)

    def make(place: Place, epochs: int) -> Recipe | None:
        script = tuned.get(place.name)
        if script is None:
            return None
        unstable = not stable
        estimator = MirrorDescent(mirror, stable, script.beta(epochs), absorbing=unstable, single_precision=unstable)
        return _by_adam(place, epochs, estimator, script.rate, script.drop, two_levels=two_levels)

    return make


def _pmf(place: Place, epochs: int, *, original: bool, weight_decay: float) -> Recipe | None:
    script = PMF_SCRIPTS.get(place.name)
    if script is None:
        return None
    estimator = PMF(script.beta(epochs, PMF_BETA_MOST), released=not original, original=original)
    return _by_adam(place, epochs, estimator, script.rate, script.drop, two_levels=True, weight_decay=weight_decay)


def pmf(place: Place, epochs: int) -> Recipe | None:
    """The code of pmf: its own Jacobian, and the weight decay of its script with the rates and betas of its list."""
    return _pmf(place, epochs, original=True, weight_decay=PMF_DECAY)


def pmf_of_md_bnn(place: Place, epochs: int) -> Recipe | None:
    """The same rates and betas with the Jacobian of md-bnn's code, and without weight decay as in its scripts."""
    return _pmf(place, epochs, original=False, weight_decay=0.0)


def binary_connect(place: Place, epochs: int) -> Recipe:
    """md-bnn's, with its --full-ste: no clip, no window.

    That repository has no script of it: a command from the history of AdaSTE's (CIFAR-10 ResNet-18) serves everywhere.
    """
    return _by_adam(place, epochs, StraightThrough(), rate=1e-3, drop=0.3)


def full_precision(place: Place, epochs: int) -> Recipe:
    """The script of pmf."""
    base = SGD(lr=drops(0.1, 0.2, epochs), momentum=0.9, weight_decay=5e-4)
    return assemble(place, epochs, network=place.md_form, estimator=FullPrecision(), base=base)
