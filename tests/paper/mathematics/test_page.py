"""docs/mathematics.md: its functions exist, its pictures are there, and its numbers are what the functions give."""

import importlib
import math
import re
from pathlib import Path

import pytest
import torch

import adaste
from adaste.paper.mathematics import drift, relaxation
from adaste.paper.mathematics.drawings import FIGURES
from adaste.paper.mathematics.illustrations import adaptive_slopes

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "mathematics.md").read_text()


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def row(first: str) -> list[str]:
    """The cells after the first of the one table row that begins with `first`."""
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    assert len(rows) == 1, f"{len(rows)} rows begin with {first}"
    return [cell.strip() for cell in rows[0].strip("|").split("|")[1:]]


def missing(*numbers: str) -> list[str]:
    """The numbers that the page does not have, whatever its words are."""
    return [number for number in numbers if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\.?\d)", PAGE)]


def test_every_function_the_page_names_exists():
    names = [pair for pair in re.findall(r"`([a-z_]+)\.([a-z_]+)`", PAGE) if pair[0] != "adaste"]
    assert len(names) > 20
    for module, function in names:
        assert callable(getattr(importlib.import_module(f"adaste.paper.mathematics.{module}"), function))


def test_every_picture_is_drawn_embedded_and_committed():
    pytest.importorskip("matplotlib", reason="the drawings need matplotlib, which is optional")
    embedded = set(re.findall(r"\(pictures/([a-z-]+)\.svg\)", PAGE))
    assert embedded == set(FIGURES)
    for name in FIGURES:
        assert 1000 < (DOCS / "pictures" / f"{name}.svg").stat().st_size < 150_000


def test_numbers_of_the_steepest_spacing():
    found = [f"{relaxation.worst_ratio(adaste.DoubleWell(mu, 0.01)):.3f}" for mu in (0.3, 1.0, 10.0, 50.0)]
    assert row("$\\mu$, with $\\alpha = 0.01$") == ["0.3", "1", "10", "50"]
    assert row("supremum") == found


def test_numbers_of_the_drift():
    rates = row("$\\rho$")
    assert row("$\\sigma_\\rho / \\sigma$") == [f"{drift.averaged_noise(1.0, float(rate)):.4f}" for rate in rates]
    points = row("$z$")
    drifts = [f"{float(drift.unit_drift(scalar(float(z)))):.5f}" for z in points]
    assert row("$\\varphi(z) + z\\Phi(z)$") == drifts
    right, wrong = (float(drift.steps_to_zero(scalar(side), scalar(-0.1), 1.0, 0.01)) for side in (1.0, -1.0))
    share = 50 * math.erfc(-0.1 / drift.averaged_noise(1.0, 0.995) / math.sqrt(2))
    numbers = (f"{1 / math.sqrt(2 * math.pi):.4f}", f"{right:.0f}", f"{wrong:.0f}", f"{share:.1f}")
    assert missing(*numbers) == []
    assert missing("0.3989", "28", "6") == ["28", "6"]


def test_numbers_of_the_simulation(courses):
    for name, latents in courses.items():
        right, flipped = row(name)
        # Not to the last digit: another version of torch may draw or round differently.
        assert 100 * float(drift.share_right(latents, -0.1)[-1000:].mean()) == pytest.approx(float(right), abs=0.5)
        assert 100 * float(drift.share_flipped(latents)[-1000:].mean()) == pytest.approx(float(flipped), rel=0.1)


def test_numbers_of_figure_one():
    for panel in adaptive_slopes():
        assert missing(f"{panel.slope:.2f}", f"{panel.derivative:.2f}") == []
