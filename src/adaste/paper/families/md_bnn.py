"""md-bnn and pmf: Adam, a rate that drops and a beta that grows; and full precision by pmf.

`MD_TANH_S` and the tables below it are the tuned numbers of their scripts, by setup.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from adaste.estimators import (
    PMF,
    Estimator,
    FullPrecision,
    MirrorDescent,
    SoftmaxMirror,
    StraightThrough,
    TanhMirror,
)
from adaste.estimators.schedules import Geometric, Schedule, Steps
from adaste.paper.families import Make, Setup, assemble
from adaste.recipes.bases import SGD, Adam
from adaste.recipes.recipe import Recipe

SCRIPT_ITERATIONS = 100_000
"""The number of every md-bnn and pmf script."""

PMF_BETA_MOST = 1e4
"""Where beta stops to grow in the code of pmf. In md-bnn it is 1e35, which no script reaches."""


PMF_DECAY = 1e-4
"""Weight decay of pmf's script; its list of tuned numbers has none."""


def rounded(number: float) -> float:
    """Return a number with six digits: the last digits of a power differ between machines and would change digests."""
    return float(f"{number:.6g}")


@dataclass(frozen=True)
class Tuned:
    """Settings of a script of md-bnn or pmf: rate, its factor at a drop, that of beta, and the iterations between."""

    rate: float
    drop: float
    growth: float
    every: int

    def beta(self, epochs: int, most: float = math.inf) -> Geometric:
        """From 1, multiplied by the same factor until the run ends or beta is at its most."""
        stop = self.growth ** (SCRIPT_ITERATIONS / self.every)
        share = min(1.0, math.log(most) / math.log(stop))
        return Geometric(start=1.0, stop=rounded(min(stop, most)), length=max(1, round(share * epochs)))


MD_TANH_S = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.3, 1.02, 200),
        "cifar10-vgg16": Tuned(1e-3, 0.2, 1.2, 2000),
        "cifar100-resnet18": Tuned(1e-3, 0.2, 1.2, 500),
        "cifar100-vgg16": Tuned(1e-3, 0.5, 1.05, 500),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.1, 1.2, 500),
    }
)
MD_SOFTMAX_S = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.3, 1.02, 200),
        "cifar10-vgg16": Tuned(1e-3, 0.3, 1.2, 2000),
        "cifar100-resnet18": Tuned(1e-3, 0.2, 1.1, 200),
        "cifar100-vgg16": Tuned(1e-4, 0.2, 1.2, 500),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.1, 1.02, 100),
    }
)
MD_TANH = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.3, 1.01, 100),
        "cifar10-vgg16": Tuned(1e-3, 0.3, 1.1, 1000),
        "cifar100-resnet18": Tuned(1e-3, 0.3, 1.05, 500),
        "cifar100-vgg16": Tuned(1e-3, 0.3, 1.05, 500),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.5, 1.2, 2000),
    }
)
MD_SOFTMAX = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.2, 1.02, 200),
        "cifar10-vgg16": Tuned(1e-2, 0.2, 1.05, 500),
        "cifar100-resnet18": Tuned(1e-3, 0.2, 1.05, 500),
        "cifar100-vgg16": Tuned(1e-4, 0.3, 1.01, 100),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.2, 1.02, 200),
    }
)
PMF_SCRIPTS = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.3, 1.1, 1000),
        "cifar10-vgg16": Tuned(1e-3, 0.5, 1.05, 500),
        "cifar100-resnet18": Tuned(1e-3, 0.3, 1.01, 100),
        "cifar100-vgg16": Tuned(1e-4, 0.5, 1.02, 200),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.5, 1.01, 100),
    }
)


def drops(rate: float, factor: float, epochs: int) -> Schedule:
    """Return a learning rate multiplied by `factor` after 30, 60 and 90 % of the run."""
    values = {round(share * epochs): rounded(rate * factor**count) for count, share in enumerate((0.3, 0.6, 0.9), 1)}
    return Steps(values=(rate, *values.values()), ticks=tuple(values))


def _by_adam(
    setup: Setup,
    epochs: int,
    estimator: Estimator,
    rate: float,
    drop: float,
    *,
    two_levels: bool = False,
    weight_decay: float = 0.0,
) -> Recipe:
    """Return a recipe like all scripts of md-bnn and pmf: tested with the statistics of soft weights."""
    network = dataclasses.replace(setup.md_form, two_levels=two_levels)
    base = Adam(lr=drops(rate, drop, epochs), weight_decay=weight_decay)
    return assemble(setup, epochs, network=network, estimator=estimator, base=base, norm_batches=0)


def mirror_descent(mirror: TanhMirror | SoftmaxMirror, *, stable: bool, tuned: Mapping[str, Tuned]) -> Make:
    """Return the recipes of one of its four forms, for the setups that have a script."""
    two_levels = isinstance(mirror, SoftmaxMirror)

    def make(setup: Setup, epochs: int) -> Recipe | None:
        script = tuned.get(setup.name)
        if script is None:
            return None
        unstable = not stable
        estimator = MirrorDescent(mirror, stable, script.beta(epochs), absorbing=unstable, single_precision=unstable)
        return _by_adam(setup, epochs, estimator, script.rate, script.drop, two_levels=two_levels)

    return make


def _pmf(setup: Setup, epochs: int, *, original: bool, weight_decay: float) -> Recipe | None:
    script = PMF_SCRIPTS.get(setup.name)
    if script is None:
        return None
    estimator = PMF(script.beta(epochs, PMF_BETA_MOST), released=not original, original=original)
    return _by_adam(setup, epochs, estimator, script.rate, script.drop, two_levels=True, weight_decay=weight_decay)


def pmf(setup: Setup, epochs: int) -> Recipe | None:
    """The code of pmf: its own Jacobian, and the weight decay of its script with the rates and betas of its list."""
    return _pmf(setup, epochs, original=True, weight_decay=PMF_DECAY)


def pmf_of_md_bnn(setup: Setup, epochs: int) -> Recipe | None:
    """The same rates and betas with the Jacobian of md-bnn's code, and without weight decay as in its scripts."""
    return _pmf(setup, epochs, original=False, weight_decay=0.0)


def binary_connect(setup: Setup, epochs: int) -> Recipe:
    """md-bnn's, with its --full-ste: no clip, no window.

    That repository has no script of it: a command from the history of AdaSTE's (CIFAR-10 ResNet-18) serves everywhere.
    """
    return _by_adam(setup, epochs, StraightThrough(), rate=1e-3, drop=0.3)


def full_precision(setup: Setup, epochs: int) -> Recipe:
    """The script of pmf."""
    base = SGD(lr=drops(0.1, 0.2, epochs), momentum=0.9, weight_decay=5e-4)
    return assemble(setup, epochs, network=setup.md_form, estimator=FullPrecision(), base=base)
