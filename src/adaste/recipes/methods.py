"""The methods of the comparison as settings for a run of a given length: one function per method.

They share one recipe: the learning rate falls to zero along a cosine over the whole run (but ProxQuant's). Rates are
those of the published scripts for CIFAR-10 with ResNet-18; those of straight-through and the printed rule were measured
(results/preliminary).
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from adaste._util.checks import require_count
from adaste.estimators import (
    PMF,
    AdaSTE,
    BayesBiNN,
    BinaryConnect,
    Bop,
    Estimator,
    FullPrecision,
    MirrorDescent,
    ProxQuant,
    ReleasedSlope,
    SoftmaxMirror,
    StraightThrough,
    TanhMirror,
)
from adaste.estimators.mirror_descent import Mirror
from adaste.estimators.schedules import Cosine, Geometric, Linear, Schedule, Triangle
from adaste.recipes.bases import SGD, Adam, Base

RELEASED_RATE = 3e-4
"""The rate of the exponential average of gradients in AdaSTE's released code."""

SHORTEST_MEASURED = 30 * 391
"""Steps of the shortest run that rates were measured in: 30 epochs of CIFAR."""

FASTEST_PACE = 100
"""How many times faster than there averages of gradients move at most, in runs of few steps."""

FORGOTTEN = 4.0
"""The sum of the rates of a short run: in the average at its end, a first gradient counts exp(-4) of a last one."""

PULL = 7.8
"""How far ProxQuant's published schedule pulls a weight in all its steps together."""


@dataclass(frozen=True)
class Plan:
    """The run a method is set up for.

    Args:
        epochs: The length of the run.
        images: Training images per epoch.
        batch: Images per step.
    """

    epochs: int
    images: int
    batch: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            require_count(field.name, getattr(self, field.name), least=1)

    @classmethod
    def of_steps(cls, steps: int, images: int) -> Self:
        """A run of which no more is known than its optimizer steps: as epochs of one step each.

        So what counts epochs in the schedules of a treatment counts steps here.
        """
        return cls(epochs=steps, images=images, batch=images)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return self.epochs * math.ceil(self.images / self.batch)

    @property
    def pace(self) -> int:
        """How much faster averages of gradients must move than in the runs that rates were measured in.

        1, or more where there are fewer steps than in the shortest of those: an average has to forget its start
        several times over. At most 100: the fastest average here then moves by a tenth a step.
        """
        return min(FASTEST_PACE, max(1, round(SHORTEST_MEASURED / self.steps)))

    def fall(self, rate: float) -> Cosine:
        """A learning rate that falls to zero."""
        return Cosine(start=rate, stop=0.0, length=self.epochs)

    def rise(self, start: float, stop: float, share: float = 1.0) -> Geometric:
        """Multiplied by the same factor at every step; at `stop` after this share of the run."""
        return Geometric(start=start, stop=stop, length=max(1, round(share * self.epochs)))

    def adam(self, rate: float) -> Adam:
        """Adam's steps have a size of their own: how far they wander grows with the root of their number."""
        return Adam(lr=self.fall(rate * math.sqrt(self.pace)))


@dataclass(frozen=True)
class Treatment:
    """The decisions of a method about a run."""

    estimator: Estimator
    base: Base
    averaging: float = 0.0
    rest_lr: Schedule | None = None


@dataclass(frozen=True)
class NamedMethod:
    """A method by its title, and what it does for a plan.

    Args:
        needs_norms: Whether it learns badly or not at all in networks with hidden layers and no norms (measured on
            digits, docs/own-loop.md).
    """

    title: str
    treat: Callable[[Plan], Treatment]
    needs_norms: bool = False


def full_precision(plan: Plan) -> Treatment:
    """Real weights, for reference."""
    return Treatment(FullPrecision(), SGD(lr=plan.fall(0.1), momentum=0.9, weight_decay=5e-4))


def straight_through(plan: Plan) -> Treatment:
    """The latent is an exponential average of -g, and the learning rate is the rate of the average.

    It starts below the size of gradients: what an average begins with fades only at its own slow rate.
    """
    method = StraightThrough(decay=1.0, start=1e-7)
    return Treatment(method, SGD(lr=plan.fall(1e-3 * plan.pace)), rest_lr=plan.fall(0.1))


def fast_straight_through(plan: Plan) -> Treatment:
    """The same for runs of few steps: the rate rises for a fifth of the run, and falls to zero along a line.

    The rates of all steps have the sum FORGOTTEN or a little more, whatever the length of the run and its batch.
    """
    peak, rise = 2 * FORGOTTEN / plan.steps, round(plan.epochs / 5)
    rate = Triangle(start=peak / 5, peak=peak, stop=0.0, rise=rise, length=plan.epochs)
    return Treatment(StraightThrough(decay=1.0, start=1e-7), SGD(lr=rate), rest_lr=plan.fall(0.1))


def binary_connect(plan: Plan) -> Treatment:
    """Adam at the rate of the published comparison (md-bnn); the latents are clipped."""
    return Treatment(BinaryConnect(), plan.adam(1e-3), rest_lr=plan.fall(1e-3))


def released_update(
    rate: float = RELEASED_RATE,
    *,
    mu: float | Schedule = 100.0,
    threshold: float = ReleasedSlope.threshold,
    examples: int = 50_000,
) -> AdaSTE:
    """The released code in numbers of order one, for latents that move by `released_dynamics` at the same rate.

    The released update of a latent L, with momentum m = 0.9, rate r = 3e-4 and K = (10 n)^2 for n training images, is

        v <- m v + (1 - m) (K f g + L),  L <- L - r v,  L_0 = +-10.

    Put theta = L / C with C = (1 - m) r K / eta. Then torch's SGD on theta does the same with learning rate eta,
    momentum m and weight decay (1 - m) r / eta; theta = 1 / C stands for L = 1 in the formulas, and latents start at
    +-10 / C. Here eta = 1 - m, so that C = r K and the weight decay is r; C = 7.5e7 for the n = 50,000 of CIFAR. Only
    unit and start depend on n, and the first step leaves both far behind: one n can serve for all data. Left out: the
    released code divides step t by 1 - m^t, which matters for the first twenty steps only.
    """
    scale = rate * (10 * examples) ** 2
    return AdaSTE(mu=mu, slope=ReleasedSlope(threshold), unit=1 / scale, start=10 / scale)


def released_dynamics(plan: Plan, estimator: Estimator, rate: float) -> Treatment:
    """Latents that move as the released code's: momentum, and weight decay as the rate of an exponential average."""
    base = SGD(lr=plan.fall(0.1), momentum=0.9, weight_decay=rate)
    return Treatment(estimator, base, rest_lr=plan.fall(0.1))


def _released_treatment(plan: Plan, mu: float | Schedule) -> Treatment:
    """The released code; in a run of few steps its rate is multiplied by the pace."""
    rate = RELEASED_RATE * plan.pace
    return released_dynamics(plan, released_update(rate, mu=mu), rate)


def adaste(plan: Plan) -> Treatment:
    """The released update without annealing: weights are +-1 from the start."""
    return _released_treatment(plan, 100.0)


def adaste_annealed(plan: Plan) -> Treatment:
    """The released update with mu from 0.01 to 100, which 1.05 per epoch reaches in 189 of 700 epochs."""
    return _released_treatment(plan, plan.rise(0.01, 100.0, share=189 / 700))


def _printed_treatment(plan: Plan, mu: float | Schedule) -> Treatment:
    """The paper's rule. Under the noise of single batches it drifts to zero, so it sees an average."""
    return Treatment(
        AdaSTE(mu=mu),
        SGD(lr=plan.fall(5000.0 / plan.pace)),
        averaging=1 - 3e-4 * plan.pace,
        rest_lr=plan.fall(0.1),
    )


def adaste_printed(plan: Plan) -> Treatment:
    """The paper's rule without annealing."""
    return _printed_treatment(plan, 100.0)


def adaste_printed_annealed(plan: Plan) -> Treatment:
    """The paper's rule with mu from 1 to 100 over the whole run."""
    return _printed_treatment(plan, plan.rise(1.0, 100.0))


def prox_quant(plan: Plan) -> Treatment:
    """Adam at the published 0.01; the pull grows linearly, and over the run adds up to the published 7.8.

    The latents live on the scale of 1 whatever the length of the run, and Adam must keep up with the pull. So its rate
    grows with the pace and not with the root of it, and is constant as in the published script: once a rate that falls
    is overtaken by the pull, no sign changes any more.
    """
    base = Adam(lr=0.01 * plan.pace)
    return Treatment(ProxQuant(strength=growing_pull(plan)), base, rest_lr=plan.fall(1e-3))


def growing_pull(plan: Plan, delay: int = 0) -> Linear:
    """The strength of ProxQuant: along a line from zero, so that over the steps of the plan it adds up to PULL."""
    return Linear(start=0.0, stop=2 * PULL / plan.steps, length=plan.epochs, delay=delay)


def pmf(plan: Plan) -> Treatment:
    """Proximal mean-field with the published code's Jacobian."""
    return Treatment(PMF(beta=plan.rise(1.0, 1e4), released=True), plan.adam(1e-3), rest_lr=plan.fall(1e-3))


def _mirror_descent(mirror: Mirror, *, stable: bool) -> Callable[[Plan], Treatment]:
    def treat(plan: Plan) -> Treatment:
        beta, unstable = plan.rise(1.0, 2e4), not stable
        estimator = MirrorDescent(mirror, stable, beta, absorbing=unstable, single_precision=unstable)
        return Treatment(estimator, plan.adam(1e-3), rest_lr=plan.fall(1e-3))

    return treat


def bayes_binn(plan: Plan) -> Treatment:
    """The published settings with the momentum of the original code, none."""
    return Treatment(
        BayesBiNN(train_size=10.0 * plan.images), SGD(lr=plan.fall(3e-4 * plan.pace)), rest_lr=plan.fall(0.1)
    )


def bop(plan: Plan) -> Treatment:
    """The default rate of the published code and the threshold of its CIFAR-10 script."""
    return Treatment(Bop(threshold=1e-8), SGD(lr=plan.fall(1e-3 * plan.pace)), rest_lr=plan.fall(0.1))


METHODS = MappingProxyType(
    {
        "full-precision": NamedMethod("full precision", full_precision),
        "binaryconnect": NamedMethod("BinaryConnect", binary_connect),
        "straight-through": NamedMethod("straight-through with decay", straight_through, needs_norms=True),
        "adaste": NamedMethod("AdaSTE (released update)", adaste),
        "adaste-annealed": NamedMethod("AdaSTE (released update), annealed", adaste_annealed),
        "adaste-printed": NamedMethod("AdaSTE (printed rule) on averaged gradients", adaste_printed, needs_norms=True),
        "adaste-printed-annealed": NamedMethod(
            "AdaSTE (printed rule) on averaged gradients, annealed", adaste_printed_annealed
        ),
        "proxquant": NamedMethod("ProxQuant", prox_quant),
        "pmf": NamedMethod("PMF", pmf),
        "md-tanh-s": NamedMethod("MD-tanh-s", _mirror_descent(TanhMirror(), stable=True)),
        "md-softmax-s": NamedMethod("MD-softmax-s", _mirror_descent(SoftmaxMirror(), stable=True)),
        "md-tanh": NamedMethod("MD-tanh", _mirror_descent(TanhMirror(), stable=False)),
        "md-softmax": NamedMethod("MD-softmax", _mirror_descent(SoftmaxMirror(), stable=False)),
        "bayesbinn": NamedMethod("BayesBiNN", bayes_binn, needs_norms=True),
        "bop": NamedMethod("Bop", bop, needs_norms=True),
    }
)
"""The methods by the last part of a recipe's name."""
