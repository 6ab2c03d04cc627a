"""Figures 1 and 2 of the paper for the page: they show functions, so they need no runs.

A panel has stops, the ascending latents at which its curves are told; a stop that comes twice is where they jump. Its
numbers are as short as those of runs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from adaste.paper.figures import ILLUSTRATIONS
from adaste.paper.mathematics.illustrations import LATENTS, WEIGHTS, AdaptiveSlope, adaptive_slopes, map_curves
from adaste.paper.report.cell_format import MINUS, titled_name
from adaste.paper.report.contents import Plain, short

ACROSS = "latent θ"
ALPHA, GRADIENT = "\N{GREEK SMALL LETTER ALPHA}", "\N{SCRIPT SMALL L}\N{PRIME}"
TANH, TANGENT, CHORD = 0, 10, 4
MAPS = (6, 3, 7)
"""Slots, which decide on colours and dashes: about those of the drawings in docs/mathematics.md."""


def functions() -> list[Plain]:
    """Every figure of the paper that shows functions; what it says stands on the page."""
    return [
        {"name": name, "heading": titled_name(name), "panels": PANELS[subject]()}
        for name, subject in ILLUSTRATIONS.items()
    ]


def _adaptive_slope() -> list[Plain]:
    return [_slope_panel(case) for case in adaptive_slopes()]


def _slope_panel(case: AdaptiveSlope) -> Plain:
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


def _forward_map() -> list[Plain]:
    curves = map_curves(points=151)  # in steps of 1/100, which meet every bend
    there = ~curves[0].latent.isnan()
    stops = _stops(curves[0].latent[there].tolist())
    return [
        {
            "name": "forward-map",
            "title": "Forward map",
            "setting": f"{ALPHA} = 1/100",
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


def _series(title: str, slot: int, heights: Tensor, marks: Mapping[int, str]) -> Plain:
    """`marks` are the texts beside its markers, by the number of their stop."""
    return {
        "title": title,
        "slot": slot,
        "values": [short(height) for height in heights.tolist()],
        "marks": [{"stop": stop, "text": text} for stop, text in marks.items()],
    }


PANELS: Mapping[str, Callable[[], list[Plain]]] = MappingProxyType(
    {"adaptive-slope": _adaptive_slope, "forward-map": _forward_map}
)
"""What makes the panels of a figure, by what it is called in docs/mathematics.md."""
