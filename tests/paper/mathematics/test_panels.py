"""Figures 1 and 2 on the page are the functions of the paper, whatever runs there are."""

import json
import math
import sys
from typing import Any

import pytest

from adaste.paper.figures import FIGURES, ILLUSTRATIONS
from adaste.paper.mathematics.illustrations import adaptive_slopes, map_curves
from adaste.paper.report.contents import functions

SHORT = 5.1e-4  # four significant digits


def panels_of(name: str) -> list[dict[str, Any]]:
    return next(figure["panels"] for figure in functions() if figure["name"] == name)


def told(panel: dict[str, Any], number: int) -> dict[float, float]:
    """The values that one curve of a panel has, by their stops."""
    values = panel["series"][number]["values"]
    return {stop: value for stop, value in zip(panel["stops"], values, strict=True) if value is not None}


def test_every_figure_of_the_paper_is_on_the_page() -> None:
    numbered = [f"figure{number}" for number in range(1, 8)]
    assert [figure["name"] for figure in functions()] == list(ILLUSTRATIONS)
    assert [*ILLUSTRATIONS, *FIGURES][:7] == numbered


def test_figure_one_shows_tanh_with_its_tangent_and_chord() -> None:
    cases = adaptive_slopes()
    for panel, case in zip(panels_of("figure1"), cases, strict=True):
        tanh, tangent, chord = (told(panel, number) for number in range(3))
        assert list(tanh) == panel["stops"] == sorted(panel["stops"])
        assert all(value == pytest.approx(math.tanh(stop), rel=SHORT) for stop, value in tanh.items())
        for line, slope in ((tangent, case.derivative), (chord, case.slope)):
            heights = {stop: math.tanh(case.latent) + slope * (stop - case.latent) for stop in line}
            assert line == pytest.approx(heights, rel=SHORT, abs=1e-6)
        assert (min(tangent), max(tangent)) == pytest.approx((case.latent - 1.1, case.latent + 1.1))
        assert [min(chord), max(chord)] == pytest.approx(sorted((case.latent, case.perturbed)), abs=1e-4)


def test_figure_one_names_the_weight_and_the_perturbed_weight_where_tanh_has_them() -> None:
    for panel, case in zip(panels_of("figure1"), adaptive_slopes(), strict=True):
        tanh, chord = panel["series"][0]["values"], panel["series"][2]
        named = {mark["text"]: mark["stop"] for mark in chord["marks"]}
        assert set(named) == {"w*", "ŵ"}
        assert panel["stops"][named["w*"]] == case.latent
        for stop in named.values():
            assert chord["values"][stop] == pytest.approx(tanh[stop], rel=2 * SHORT)


def test_figure_one_tells_both_slopes_and_the_setting_of_each_panel() -> None:
    first, second, third = panels_of("figure1")
    slopes = [[series["title"] for series in panel["series"][1:]] for panel in (first, second, third)]
    assert slopes == [
        ["tangent (derivative 0.96)", "chord (finite difference 0.99)"],
        ["tangent (derivative 0.07)", "chord (finite difference 0.58)"],
        ["tangent (derivative 0.07)", "chord (finite difference 0.01)"],
    ]
    assert third["setting"] == "θ = \N{MINUS SIGN}2, \N{SCRIPT SMALL L}\N{PRIME} = 1, β = 2.77"


def test_figure_two_shows_the_map_on_both_sides_of_its_jump() -> None:
    (panel,) = panels_of("figure2")
    middle = len(panel["stops"]) // 2
    assert panel["stops"][middle - 1 : middle + 1] == [0, 0]
    assert math.copysign(1, panel["stops"][middle - 1]) == -1, "the page says of which side it tells"
    assert len(set(panel["stops"])) == len(panel["stops"]) - 1, "there is no other jump"
    for series, curve in zip(panel["series"], map_curves(), strict=True):
        assert series["title"] == f"μ = {curve.mu:g}"
        assert series["marks"] == [{"stop": middle, "text": ""}]
        for index, (stop, value) in enumerate(zip(panel["stops"], series["values"], strict=True)):
            side = -1 if index < middle else 1
            linear = (stop + side * curve.mu * 1.01) / (1 + curve.mu)
            assert value == pytest.approx(max(-1, min(1, linear)), rel=SHORT)


def test_the_figures_are_small_and_hold_nothing_that_json_cannot() -> None:
    assert len(json.dumps(functions(), allow_nan=False)) < 30_000
    assert all(len(panel["stops"]) < 350 for figure in functions() for panel in figure["panels"])


def test_the_figures_need_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert len(functions()) == 2
