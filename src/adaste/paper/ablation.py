"""The family `ablation`: what makes AdaSTE work, piece by piece, all under the common recipe of `ours`."""

from collections.abc import Callable
from types import MappingProxyType

from adaste.bases import SGD
from adaste.estimators import AdaSTE, ReleasedSlope, StraightThrough
from adaste.methods import Method, Plan, Treatment
from adaste.paper.family import Family, Make
from adaste.paper.places import Place
from adaste.recipe import Recipe
from adaste.recipes import Preset
from adaste.schedules import Schedule

Treat = Callable[[Plan], Treatment]

RELEASED_RATE = 3e-4
"""Of the released update's exponential average."""


def _constant(plan: Plan) -> float:
    return 100.0


def _annealed(plan: Plan) -> Schedule:
    return plan.rise(1.0, 100.0)


def _printed(mu: Callable[[Plan], float | Schedule]) -> Treat:
    """The printed rule on the gradients of single batches; the best of three rates in results/preliminary."""

    def treat(plan: Plan) -> Treatment:
        return Treatment(AdaSTE(mu=mu(plan), start=1.0), SGD(lr=plan.fall(4.5), momentum=0.9), rest_lr=plan.fall(0.1))

    return treat


def _averaged(averaging: float, rate: float, mu: Callable[[Plan], float | Schedule] = _constant) -> Treat:
    """The printed rule on an exponential average of gradients."""

    def treat(plan: Plan) -> Treatment:
        return Treatment(
            AdaSTE(mu=mu(plan), start=1.0), SGD(lr=plan.fall(rate)), averaging=averaging, rest_lr=plan.fall(0.1)
        )

    return treat


def _released(threshold: float) -> Treat:
    """The released update; its gate acts where |g| is above the threshold."""

    def treat(plan: Plan) -> Treatment:
        scale = RELEASED_RATE * (10 * 50_000) ** 2
        return Treatment(
            AdaSTE(slope=ReleasedSlope(threshold), unit=1 / scale, start=10 / scale),
            SGD(lr=plan.fall(0.1), momentum=0.9, weight_decay=RELEASED_RATE),
            rest_lr=plan.fall(0.1),
        )

    return treat


def _straight_through(rate: float) -> Treat:
    """No gate at all, the same latent dynamics: momentum, and weight decay as the rate of the average."""

    def treat(plan: Plan) -> Treatment:
        return Treatment(
            StraightThrough(start=1e-7),
            SGD(lr=plan.fall(0.1), momentum=0.9, weight_decay=rate),
            rest_lr=plan.fall(0.1),
        )

    return treat


_TREATMENTS: dict[str, tuple[str, Treat]] = {
    "printed": ("printed rule, single batches", _printed(_constant)),
    "printed-annealed": ("printed rule, single batches, annealed", _printed(_annealed)),
    "averaged-0.99": ("printed rule, average 0.99", _averaged(0.99, 45.0)),
    "averaged-0.999": ("printed rule, average 0.999", _averaged(0.999, 5000.0)),
    "averaged-0.9997": ("printed rule, average 0.9997", _averaged(0.9997, 5000.0)),
    "averaged-0.99-annealed": ("printed rule, average 0.99, annealed", _averaged(0.99, 45.0, _annealed)),
    "averaged-0.999-annealed": ("printed rule, average 0.999, annealed", _averaged(0.999, 5000.0, _annealed)),
    "averaged-0.9997-annealed": ("printed rule, average 0.9997, annealed", _averaged(0.9997, 5000.0, _annealed)),
    "released": ("released update, gate at |g| > 0.001", _released(1e-3)),
    "released-gate-everywhere": ("released update, gate everywhere", _released(0.0)),
    "straight-through": ("straight-through, same latent dynamics", _straight_through(RELEASED_RATE)),
    "straight-through-faster": ("straight-through, average at rate 0.001", _straight_through(1e-3)),
}


def _maker(name: str, treat: Treat) -> Make:
    def make(place: Place, epochs: int) -> Recipe:
        return Preset(place.name, name, place.setting, place.network, Method(name, treat)).make(epochs)

    return make


TITLES = MappingProxyType({name: title for name, (title, _) in _TREATMENTS.items()})
"""What each row of the ablation is, in words."""

ABLATION = Family(
    name="ablation",
    about="What makes AdaSTE work: the printed rule, averages of gradients, the released gate, straight-through.",
    epochs=60,
    makers=MappingProxyType({name: _maker(name, treat) for name, (_, treat) in _TREATMENTS.items()}),
)
