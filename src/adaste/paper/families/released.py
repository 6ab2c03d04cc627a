"""The family `released`: every method as its published scripts behave, compressed to the length that is asked for.

Sources: the AdaSTE repository (an exponential average of gradients) for its two rows and, with the paper's appendix,
BayesBiNN; md-bnn for MD and BinaryConnect; pmf for PMF and full precision; the ProxQuant repository (a network to start
from, a growing pull, frozen weights). A change at a share of
their run happens here at the same share; in a run of few steps, averages of gradients move faster by its `pace`. All
parameters are binary (biases, too), 5,000 of the CIFAR images are held out. Known differences from the scripts:

- AdaSTE's and BayesBiNN's momentum is without bias correction (the first twenty steps), their learning rate falls
  within epochs, not between them, and statistics of BatchNorm for rounded weights come from batches of their own
  before a test.
- PMF is in both codes, with different Jacobians: `pmf` is the script of pmf, `pmf-md-bnn` the form of md-bnn's code.
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
from dataclasses import dataclass
from types import MappingProxyType

from adaste.estimators import BayesBiNN, ProxQuant, SoftmaxMirror, TanhMirror
from adaste.estimators.schedules import Steps
from adaste.paper.families import Family, Make, Setup, assemble, plan_of
from adaste.paper.families.md_bnn import (
    MD_SOFTMAX,
    MD_SOFTMAX_S,
    MD_TANH,
    MD_TANH_S,
    binary_connect,
    full_precision,
    mirror_descent,
    pmf,
    pmf_of_md_bnn,
)
from adaste.paper.families.ours import with_mixup
from adaste.recipes.bases import SGD, Adam
from adaste.recipes.methods import RELEASED_RATE, Plan, growing_pull, released_update
from adaste.recipes.recipe import Recipe


@dataclass(frozen=True)
class _Script:
    """A script of the AdaSTE repository.

    Args:
        momentum: The momentum of its average.
        examples: 10 times this is the number whose square multiplies the gradient. By a slip Imagenette's counts
            batches.
        mu_share: The share of the run after which mu has reached `mu_stop`.
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


def _adaste(setup: Setup, epochs: int, *, annealed: bool) -> Recipe:
    """With the momentum of the script; learning rate and weight decay as `released_update` says."""
    script = _SCRIPTS[setup.data]
    plan = plan_of(setup, epochs, script.batch)
    rate = RELEASED_RATE * plan.pace
    mu = plan.rise(0.01, script.mu_stop, script.mu_share) if annealed else 100.0
    return assemble(
        setup,
        epochs,
        network=setup.network,
        estimator=released_update(rate, mu=mu, examples=script.examples),
        base=SGD(lr=plan.fall(1 - script.momentum), momentum=script.momentum, weight_decay=rate),
        batch=script.batch,
    )


def adaste(setup: Setup, epochs: int) -> Recipe:
    """Without annealing: mu = 1 / alpha from the start. The scripts themselves all anneal."""
    return _adaste(setup, epochs, annealed=False)


def adaste_annealed(setup: Setup, epochs: int) -> Recipe:
    """With mu from 0.01, multiplied by 1.05 (Tiny ImageNet: 1.009) per epoch up to 100."""
    return _adaste(setup, epochs, annealed=True)


def bayes_binn(setup: Setup, epochs: int) -> Recipe:
    """Rate 3e-4, momentum 0.9, batches of 128 (the paper's appendix), on what the scripts do not hold out."""
    return bayes_binn_for(setup, plan_of(setup, epochs))


def bayes_binn_for(setup: Setup, plan: Plan) -> Recipe:
    """The same for a plan: its images count in the update. An average takes 1 - 0.9 of each gradient."""
    return assemble(
        setup,
        plan.epochs,
        network=setup.network,
        estimator=BayesBiNN(train_size=10.0 * plan.images, temperature=_SCRIPTS[setup.data].temperature),
        base=SGD(lr=plan.fall(3e-5 * plan.pace), momentum=0.9),
        holdout=setup.setting.images - plan.images,
        batch=plan.batch,
    )


WARM, FREEZE = 0.4, 0.8
"""Shares of the run: 200 epochs of a network to start from, 200 with a growing pull, 100 with frozen weights."""


def prox_quant(setup: Setup, epochs: int) -> Recipe:
    """Adam at 0.01 throughout; the pull adds up to the published 7.8; shortcuts and biases stay real."""
    warm, freeze = round(WARM * epochs), round(FREEZE * epochs)
    strength = growing_pull(plan_of(setup, freeze - warm), delay=warm)
    frozen = Steps(values=(0.0, 1.0), ticks=(freeze,))
    return assemble(
        setup,
        epochs,
        network=dataclasses.replace(setup.md_form, affine=True),
        estimator=ProxQuant(strength=strength, frozen=frozen),
        base=Adam(lr=0.01),
        include=(),
        exclude=setup.shortcuts,
        norm_batches=0,
    )


_MAKERS: dict[str, Make] = {
    "full-precision": full_precision,
    "binaryconnect": binary_connect,
    "proxquant": prox_quant,
    "pmf": pmf,
    "pmf-md-bnn": pmf_of_md_bnn,
    "md-softmax": mirror_descent(SoftmaxMirror(), stable=False, tuned=MD_SOFTMAX),
    "md-softmax-s": mirror_descent(SoftmaxMirror(), stable=True, tuned=MD_SOFTMAX_S),
    "md-tanh": mirror_descent(TanhMirror(), stable=False, tuned=MD_TANH),
    "md-tanh-s": mirror_descent(TanhMirror(), stable=True, tuned=MD_TANH_S),
    "bayesbinn": bayes_binn,
    "bayesbinn-mixup": with_mixup(bayes_binn),
    "adaste": adaste,
    "adaste-mixup": with_mixup(adaste),
    "adaste-annealed": adaste_annealed,
    "adaste-annealed-mixup": with_mixup(adaste_annealed),
}

RELEASED = Family(
    name="released",
    about="Every method as its published scripts behave: their networks, rates and 45,000 images.",
    epochs=500,
    makers=MappingProxyType(_MAKERS),
)
