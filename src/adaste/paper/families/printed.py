"""The family `paper`: what the paper prints, and nothing it does not.

AdaSTE by the rule of the main text on the gradients of single batches, with the appendix's SGD (momentum 0.9, rate
1e-5, Tiny ImageNet 1e-6 and batches of 100), no weight decay and a constant rate, since none is mentioned.
BinaryConnect and the stable forms of MD are the md-bnn code with its own settings, as the paper says: the same recipes
as in `released`. BayesBiNN is that of `released` on all images. The other rows are quoted numbers, for which the paper
has no recipe.
"""

from types import MappingProxyType
from typing import NamedTuple

from adaste.estimators import AdaSTE
from adaste.estimators.schedules import Geometric
from adaste.paper.families import Family, Setup
from adaste.paper.families.ours import with_mixup
from adaste.paper.families.released import RELEASED, bayes_binn_for
from adaste.recipes.bases import SGD
from adaste.recipes.methods import Plan
from adaste.recipes.recipe import Recipe

ANNEALED_SHARE = 200 / 500
"""mu reaches 1 / alpha after about 200 of 500 epochs."""


class _Printed(NamedTuple):
    rate: float = 1e-5
    batch: int = 128


_APPENDIX = {
    "cifar10": _Printed(),
    "cifar100": _Printed(),
    "tiny-imagenet": _Printed(rate=1e-6, batch=100),
    "imagenette": _Printed(),
}


def _adaste(setup: Setup, epochs: int, estimator: AdaSTE) -> Recipe:
    printed = _APPENDIX[setup.data]
    return Recipe(
        data=setup.data,
        network=setup.network,
        estimator=estimator,
        base=SGD(lr=printed.rate, momentum=0.9),
        include=("*",),
        epochs=epochs,
        batch=printed.batch,
        augmentation=setup.setting.augmentation,
    )


def adaste(setup: Setup, epochs: int) -> Recipe:
    """The printed rule with alpha = 0.01 and mu = 1 / alpha."""
    return _adaste(setup, epochs, AdaSTE())


def adaste_annealed(setup: Setup, epochs: int) -> Recipe:
    """The same with mu from 1 to 1 / alpha."""
    mu = Geometric(start=1.0, stop=100.0, length=max(1, round(ANNEALED_SHARE * epochs)))
    return _adaste(setup, epochs, AdaSTE(mu=mu))


def bayes_binn_on_all_images(setup: Setup, epochs: int) -> Recipe:
    """The released one, but that all images train: the paper does not say that some are held out."""
    return bayes_binn_for(setup, Plan(epochs, setup.setting.images, batch=128))


PAPER = Family(
    name="paper",
    about="As printed: the rule of the main text and the numbers of the appendix.",
    epochs=500,
    makers=MappingProxyType(
        {
            **{name: RELEASED.makers[name] for name in ("binaryconnect", "md-softmax-s", "md-tanh-s")},
            "bayesbinn": bayes_binn_on_all_images,
            "bayesbinn-mixup": with_mixup(bayes_binn_on_all_images),
            "adaste": adaste,
            "adaste-mixup": with_mixup(adaste),
            "adaste-annealed": adaste_annealed,
            "adaste-annealed-mixup": with_mixup(adaste_annealed),
        }
    ),
)
