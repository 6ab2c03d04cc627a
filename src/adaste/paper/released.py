"""The family `released`: every method as its published scripts behave, compressed to the length that is asked for.

Sources: the AdaSTE repository for its two rows and, with the paper's appendix, BayesBiNN; md-bnn for MD and
BinaryConnect; pmf for PMF and full precision; the ProxQuant repository. What they do at a share of their run happens
here at the same share; in a run of few steps, averages of gradients move faster by its `pace`. All parameters are
binary (biases, too), 5,000 of the CIFAR images are held out. Known differences from the scripts:

- AdaSTE's and BayesBiNN's momentum is without bias correction (the first twenty steps), their learning rate falls
  within epochs, not between them, and statistics of BatchNorm for rounded weights come from batches of their own
  before a test.
- md-bnn and pmf: beta grows at every step instead of every few hundred; biases start at zero; CIFAR-100 is normalised
  with its own constants. Latents of two levels start at (-x, x) with their x; what they have in common does nothing.
- Rates of md-bnn and pmf are those under the torch they ask for, 0.4. From 1.1 on the same scripts drop the rate right
  after the first step, too, so that all of the run has one drop more.
- Unstable mirror descent multiplies steps by a beta that grows: old steps fade against new ones, and what it remembers
  shrinks with the run. A compressed run is noisier than the script's, not only shorter.
- Networks compute in bfloat16, those of the scripts in float32.
- ProxQuant's scripts know other networks only, train on 50,000 images and start from a trained network: here images are
  held out as for all others, and the first 40 % of the run have no pull. Its optimizer keeps its state between epochs.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from adaste.bases import SGD, Adam, Base
from adaste.estimators import (
    PMF,
    BayesBiNN,
    Estimator,
    FullPrecision,
    MirrorDescent,
    ProxQuant,
    SoftmaxMirror,
    StraightThrough,
    TanhMirror,
)
from adaste.methods import RELEASED_RATE, Plan, growing_pull, released_update
from adaste.models import Network
from adaste.paper.family import Family, Make
from adaste.paper.ours import with_mixup
from adaste.paper.places import Place
from adaste.paper.tuned import MD_SOFTMAX, MD_SOFTMAX_S, MD_TANH, MD_TANH_S, PMF_BETA_MOST, PMF_SCRIPTS, Tuned, rounded
from adaste.recipe import Recipe
from adaste.schedules import Schedule, Steps

EVERYTHING = ("*",)
"""All parameters are binary."""

HELD_OUT = MappingProxyType({"cifar10": 5_000, "cifar100": 5_000})
"""Images that the scripts do not train with, by data; of those not named here they use all."""


def _assemble(
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


def drops(rate: float, factor: float, epochs: int) -> Schedule:
    """A learning rate multiplied by `factor` after 30, 60 and 90 % of the run (every 30,000 of 100,000 iterations)."""
    values = {round(share * epochs): rounded(rate * factor**count) for count, share in enumerate((0.3, 0.6, 0.9), 1)}
    return Steps(values=(rate, *values.values()), ticks=tuple(values))


# --- AdaSTE and BayesBiNN: an exponential average of gradients -------------------------------------------------------


@dataclass(frozen=True)
class _Script:
    """A script of the AdaSTE repository.

    momentum   of its average.
    examples   10 times this is the number whose square multiplies the gradient. By a slip Imagenette's counts batches.
    mu_stop    what mu reaches, in this share of the run.
    """

    momentum: float
    examples: int
    mu_share: float
    mu_stop: float = 100.0
    temperature: float = 1e-10
    batch: int = 128


_SCRIPTS = {
    "cifar10": _Script(momentum=0.9, examples=45_000, mu_share=189 / 700),
    "cifar100": _Script(momentum=0.0, examples=45_000, mu_share=189 / 500, temperature=1e-8),
    "tiny-imagenet": _Script(momentum=0.9, examples=100_000, mu_share=1.0, mu_stop=5.3),
    "imagenette": _Script(momentum=0.9, examples=1_184, mu_share=189 / 700, batch=8),
}


def _adaste(place: Place, epochs: int, *, annealed: bool) -> Recipe:
    """With the momentum of the script; learning rate and weight decay as `released_update` says."""
    script = _SCRIPTS[place.data]
    plan = plan_of(place, epochs, script.batch)
    rate = RELEASED_RATE * plan.pace
    mu = plan.rise(0.01, script.mu_stop, script.mu_share) if annealed else 100.0
    return _assemble(
        place,
        epochs,
        network=place.network,
        estimator=released_update(rate, mu=mu, examples=script.examples),
        base=SGD(lr=plan.fall(1 - script.momentum), momentum=script.momentum, weight_decay=rate),
        batch=script.batch,
    )


def adaste(place: Place, epochs: int) -> Recipe:
    """Without annealing: mu = 1 / alpha from the start. The scripts themselves all anneal."""
    return _adaste(place, epochs, annealed=False)


def adaste_annealed(place: Place, epochs: int) -> Recipe:
    """With mu from 0.01, multiplied by 1.05 (Tiny ImageNet: 1.009) per epoch up to 100."""
    return _adaste(place, epochs, annealed=True)


def bayes_binn(place: Place, epochs: int) -> Recipe:
    """Rate 3e-4, momentum 0.9, batches of 128 (the paper's appendix), on what the scripts do not hold out."""
    return bayes_binn_for(place, plan_of(place, epochs))


def bayes_binn_for(place: Place, plan: Plan) -> Recipe:
    """The same for a plan: its images count in the update. An average takes 1 - 0.9 of each gradient."""
    return _assemble(
        place,
        plan.epochs,
        network=place.network,
        estimator=BayesBiNN(train_size=10.0 * plan.images, temperature=_SCRIPTS[place.data].temperature),
        base=SGD(lr=plan.fall(3e-5 * plan.pace), momentum=0.9),
        holdout=place.setting.images - plan.images,
        batch=plan.batch,
    )


# --- md-bnn and pmf: Adam, and a beta that grows ---------------------------------------------------------------------


def _by_adam(
    place: Place, epochs: int, estimator: Estimator, rate: float, drop: float, *, two_levels: bool = False
) -> Recipe:
    """As all scripts of md-bnn and pmf: tested with the statistics of soft weights."""
    network = dataclasses.replace(place.md_form, two_levels=two_levels)
    base = Adam(lr=drops(rate, drop, epochs))
    return _assemble(place, epochs, network=network, estimator=estimator, base=base, norm_batches=0)


def _mirror_descent(mirror: TanhMirror | SoftmaxMirror, *, stable: bool, tuned: Mapping[str, Tuned]) -> Make:
    two_levels = isinstance(mirror, SoftmaxMirror)

    def make(place: Place, epochs: int) -> Recipe | None:
        script = tuned.get(place.name)
        if script is None:
            return None
        unstable = not stable
        estimator = MirrorDescent(mirror, stable, script.beta(epochs), absorbing=unstable, single_precision=unstable)
        return _by_adam(place, epochs, estimator, script.rate, script.drop, two_levels=two_levels)

    return make


def pmf(place: Place, epochs: int) -> Recipe | None:
    """With the published code's Jacobian."""
    script = PMF_SCRIPTS.get(place.name)
    if script is None:
        return None
    estimator = PMF(script.beta(epochs, PMF_BETA_MOST), released=True)
    return _by_adam(place, epochs, estimator, script.rate, script.drop, two_levels=True)


def binary_connect(place: Place, epochs: int) -> Recipe:
    """md-bnn's, with its --full-ste: no clip, no window. Its one script (CIFAR-10 ResNet-18) serves everywhere."""
    return _by_adam(place, epochs, StraightThrough(), rate=1e-3, drop=0.3)


def full_precision(place: Place, epochs: int) -> Recipe:
    """The script of pmf."""
    base = SGD(lr=drops(0.1, 0.2, epochs), momentum=0.9, weight_decay=5e-4)
    return _assemble(place, epochs, network=place.md_form, estimator=FullPrecision(), base=base)


# --- ProxQuant -------------------------------------------------------------------------------------------------------

WARM, FREEZE = 0.4, 0.8
"""Shares of the run: 200 epochs of a network to start from, 200 with a growing pull, 100 with frozen weights."""


def prox_quant(place: Place, epochs: int) -> Recipe:
    """Adam at 0.01 throughout; the pull adds up to the published 7.8; shortcuts and biases stay real."""
    warm, freeze = round(WARM * epochs), round(FREEZE * epochs)
    strength = growing_pull(plan_of(place, freeze - warm), delay=warm)
    frozen = Steps(values=(0.0, 1.0), ticks=(freeze,))
    return _assemble(
        place,
        epochs,
        network=dataclasses.replace(place.md_form, affine=True),
        estimator=ProxQuant(strength=strength, frozen=frozen),
        base=Adam(lr=0.01),
        include=(),
        exclude=place.shortcuts,
        norm_batches=0,
    )


_MAKERS: dict[str, Make] = {
    "full-precision": full_precision,
    "binaryconnect": binary_connect,
    "proxquant": prox_quant,
    "pmf": pmf,
    "md-softmax": _mirror_descent(SoftmaxMirror(), stable=False, tuned=MD_SOFTMAX),
    "md-softmax-s": _mirror_descent(SoftmaxMirror(), stable=True, tuned=MD_SOFTMAX_S),
    "md-tanh": _mirror_descent(TanhMirror(), stable=False, tuned=MD_TANH),
    "md-tanh-s": _mirror_descent(TanhMirror(), stable=True, tuned=MD_TANH_S),
    "bayesbinn": bayes_binn,
    "bayesbinn-mixup": with_mixup(bayes_binn),
    "adaste": adaste,
    "adaste-annealed": adaste_annealed,
    "adaste-annealed-mixup": with_mixup(adaste_annealed),
}

RELEASED = Family(
    name="released",
    about="Every method as its published scripts behave: their networks, rates and 45,000 images.",
    epochs=500,
    makers=MappingProxyType(_MAKERS),
)
