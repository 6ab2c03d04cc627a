"""The AdaSTE repository: an exponential average of gradients, for AdaSTE and, with the paper's appendix, BayesBiNN."""

from dataclasses import dataclass

from adaste.estimators import BayesBiNN
from adaste.paper.families.assemble import assemble, plan_of
from adaste.paper.setups import Place
from adaste.recipes.bases import SGD
from adaste.recipes.methods import RELEASED_RATE, Plan, released_update
from adaste.recipes.recipe import Recipe


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
    return assemble(
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
    return assemble(
        place,
        plan.epochs,
        network=place.network,
        estimator=BayesBiNN(train_size=10.0 * plan.images, temperature=_SCRIPTS[place.data].temperature),
        base=SGD(lr=plan.fall(3e-5 * plan.pace), momentum=0.9),
        holdout=place.setting.images - plan.images,
        batch=plan.batch,
    )
