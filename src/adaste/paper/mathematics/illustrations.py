"""The paper's figures 1 and 2, which show functions: their data for every form, and their panels on the page.

A panel of the page has stops, the ascending latents at which its curves are told; a stop that comes twice is where they
jump. Its numbers are as short as those of runs.

Legend: theta latent, w* = s(theta) weight, w^ = s(theta - beta g) perturbed weight, g = dl/dw, beta spacing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from adaste.estimators.maps import DoubleWell
from adaste.paper.mathematics import mirror

LATENTS, WEIGHTS = (-5.5, 3.0), (-1.3, 1.3)
"""From where to where a panel of figure 1 goes."""

SMALL, LARGE = -0.2, -2.0
"""The latents of figure 1: near zero and far below it."""

MUS, ALPHA, REACH = (1.0, 10.0, 100.0), 0.01, 1.5
"""The settings of figure 2; its latents go from -REACH to REACH. The paper's text does not give mu: the start, the
middle and the end of annealing.
"""


@dataclass(frozen=True)
class AdaptiveSlope:
    """One panel of figure 1: the chord of tanh from theta to theta - beta g beside the tangent at theta."""

    case: str
    latent: float
    grad: float
    beta: float

    @property
    def perturbed(self) -> float:
        """The perturbed latent theta - beta g."""
        return self.latent - self.beta * self.grad

    @property
    def slope(self) -> float:
        """(w* - w^) / (beta g): the slope of the chord."""
        return float(mirror.mean_slope(_scalar(self.latent), _scalar(self.beta * self.grad)))

    @property
    def derivative(self) -> float:
        """tanh'(theta): the slope of the tangent."""
        return float(mirror.derivative(_scalar(self.latent)))

    @property
    def touched(self) -> tuple[float, float]:
        """The latents between which the tangent is drawn."""
        return self.latent - 1.1, self.latent + 1.1

    def tangent(self, latents: Tensor) -> Tensor:
        """The height of the tangent over these latents."""
        return math.tanh(self.latent) + self.derivative * (latents - self.latent)

    def chord(self, latents: Tensor) -> Tensor:
        """The height of the chord over these latents: w* over theta, w^ over theta - beta g."""
        return math.tanh(self.latent) + self.slope * (latents - self.latent)


def adaptive_slopes() -> tuple[AdaptiveSlope, AdaptiveSlope, AdaptiveSlope]:
    """Figure 1: theta near zero; theta far below zero and pulled towards it (g < 0); the same, pushed away (g > 0).

    The paper does not say which beta it draws. Where the gradient pulls towards zero this is the steepest one; in the
    last panel that of the middle one.
    """
    near, far = (abs(float(mirror.tangent_distance(_scalar(latent)))) for latent in (SMALL, LARGE))
    return (
        AdaptiveSlope("near zero", SMALL, -1.0, near),
        AdaptiveSlope("pulled towards zero", LARGE, -1.0, far),
        AdaptiveSlope("pushed away from zero", LARGE, 1.0, far),
    )


@dataclass(frozen=True)
class MapCurve:
    """One curve of figure 2; a nan between its two halves keeps a line from being drawn across the jump."""

    mu: float
    latent: Tensor
    weight: Tensor


def map_curves(points: int = 301) -> tuple[MapCurve, ...]:
    """Figure 2: s(theta) for alpha = 1/100 and three values of mu, each half in so many points."""
    half = torch.linspace(0, REACH, points, dtype=torch.float64)
    gap = torch.full((1,), torch.nan, dtype=torch.float64)
    latent = torch.cat((-half.flip(0), gap, half))
    curves = []
    for mu in MUS:
        height = DoubleWell(mu, ALPHA)(half)
        curves.append(MapCurve(mu, latent, torch.cat((-height.flip(0), gap, height))))
    return tuple(curves)


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


ACROSS, GRADIENT, MINUS = "latent θ", "\N{SCRIPT SMALL L}\N{PRIME}", "\N{MINUS SIGN}"
TANH, TANGENT, CHORD = 0, 10, 4
MAPS = (6, 3, 7)
"""Slots, which decide on colours and dashes: about those of the drawings in docs/mathematics.md."""


def _adaptive_slope() -> list[dict[str, Any]]:
    return [_slope_panel(case) for case in adaptive_slopes()]


def _slope_panel(case: AdaptiveSlope) -> dict[str, Any]:
    ends = _stops(sorted((case.latent, case.perturbed)))
    touched = _stops(case.touched)
    evenly = _stops(torch.linspace(*LATENTS, 171, dtype=torch.float64).tolist())
    stops = sorted({*evenly, *touched, *ends})
    latents = torch.tensor(stops, dtype=torch.float64)
    tangent, chord = _between(touched, latents, case.tangent), _between(ends, latents, case.chord)
    names = ("w*", "ŵ") if case.latent < case.perturbed else ("ŵ", "w*")
    return {
        "name": case.case.replace(" ", "-"),
        "title": case.case.capitalize(),
        "setting": f"θ = {case.latent:g}, {GRADIENT} = {case.grad:g}, β = {case.beta:.2f}".replace("-", MINUS),
        "across": ACROSS,
        "axis": "weight tanh θ",
        "range": WEIGHTS,
        "stops": stops,
        "series": [
            _series("tanh θ", TANH, torch.tanh(latents), {len(stops) - 1: ""}),
            _series(f"tangent (derivative {case.derivative:.2f})", TANGENT, tangent, {stops.index(touched[-1]): ""}),
            _series(
                f"chord (finite difference {case.slope:.2f})",
                CHORD,
                chord,
                dict(zip(map(stops.index, ends), names, strict=True)),
            ),
        ],
    }


def _between(ends: Sequence[float], latents: Tensor, line: Callable[[Tensor], Tensor]) -> Tensor:
    """The heights of a line, and nan where it has not begun or has ended."""
    first, last = ends
    return torch.where((first <= latents) & (latents <= last), line(latents), torch.nan)


def _forward_map() -> list[dict[str, Any]]:
    curves = map_curves(points=151)  # in steps of 1/100, which meet every bend
    there = ~curves[0].latent.isnan()
    stops = _stops(curves[0].latent[there].tolist())
    return [
        {
            "name": "forward-map",
            "title": "Forward map",
            "setting": "\N{GREEK SMALL LETTER ALPHA} = 1/100",
            "across": ACROSS,
            "axis": "weight w*",
            "range": None,
            "stops": stops,
            "series": [
                _series(f"μ = {curve.mu:g}", slot, curve.weight[there], {len(stops) // 2: ""})
                for curve, slot in zip(curves, MAPS, strict=True)
            ],
        }
    ]


def _stops(latents: Iterable[float]) -> list[float]:
    return [round(latent, 4) for latent in latents]


def _series(title: str, slot: int, heights: Tensor, marks: Mapping[int, str]) -> dict[str, Any]:
    """`marks` are the texts beside its markers, by the number of their stop."""
    return {
        "title": title,
        "slot": slot,
        "values": [None if math.isnan(height) else float(f"{height:.4g}") for height in heights.tolist()],
        "marks": [{"stop": stop, "text": text} for stop, text in marks.items()],
    }


PANELS: Mapping[str, Callable[[], list[dict[str, Any]]]] = MappingProxyType(
    {"adaptive-slope": _adaptive_slope, "forward-map": _forward_map}
)
"""Functions that make the panels of a figure, by its name in docs/mathematics.md."""
