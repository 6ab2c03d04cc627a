"""The figures: panels of curves over epochs, made from runs, one of them ours, and two that show functions."""

from dataclasses import dataclass
from types import MappingProxyType

from adaste.paper.setups import PLACES, Place


@dataclass(frozen=True)
class Panel:
    """Curves of several methods at one place.

    quantity  a field of Record: "test_accuracy" or "loss".
    """

    place: Place
    quantity: str
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """A figure; `epochs` is the length of its curves."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    epochs: int


RACE = ("binaryconnect", "md-tanh-s", "bayesbinn", "adaste", "adaste-annealed")
"""Who is in the figures of accuracy: "BC, MD (using the tanh mapping), and BayesBiNN" and both forms of AdaSTE."""

LOSSES = ("bayesbinn", "adaste", "adaste-annealed")
"""Who is in the figures of training loss."""

BESIDE_REAL = ("full-precision", "adaste", "adaste-annealed")
"""Who is in the figure of long runs."""


def _pair(data: str, quantity: str, methods: tuple[str, ...]) -> tuple[Panel, ...]:
    return tuple(Panel(PLACES[f"{data}-{network}"], quantity, methods) for network in ("resnet18", "vgg16"))


FIGURES = MappingProxyType(
    {
        figure.name: figure
        for figure in (
            Figure("figure3", "Test accuracy, CIFAR-10", _pair("cifar10", "test_accuracy", RACE), 200),
            Figure("figure4", "Training loss, CIFAR-10", _pair("cifar10", "loss", LOSSES), 200),
            Figure("figure5", "Test accuracy, CIFAR-100", _pair("cifar100", "test_accuracy", RACE), 200),
            Figure("figure6", "Training loss, CIFAR-100", _pair("cifar100", "loss", LOSSES), 200),
            Figure(
                "figure7",
                "Test accuracy of long runs",
                (
                    *_pair("cifar10", "test_accuracy", ("bayesbinn", "adaste")),
                    *_pair("cifar100", "test_accuracy", ("bayesbinn", "adaste")),
                ),
                700,
            ),
            Figure(
                "long-runs",
                "Test accuracy beside full precision",
                (
                    *_pair("cifar10", "test_accuracy", BESIDE_REAL),
                    *_pair("cifar100", "test_accuracy", BESIDE_REAL),
                ),
                500,
            ),
        )
    }
)
"""The figures of runs by name. The last one is ours: runs as long as those of the paper's tables."""

ILLUSTRATIONS = MappingProxyType({"figure1": "adaptive-slope", "figure2": "forward-map"})
"""The figures of functions by name, with what they are called in docs/mathematics.md: they need no runs."""
