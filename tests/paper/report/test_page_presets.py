"""Figures as presets of the page's curves, and what of them stays when something else is chosen."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from support.page_parts import curves_in, epochs_on_axis, page_of, page_of_lengths
from support.paper_runs import a_recipe, a_run
from support.small_report import RESNET, VGG

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser


def pressed(page: Any, group: str) -> list[str]:
    buttons = page.locator(f"#curve-controls [aria-label={group}] [aria-pressed=true]")
    return [str(text) for text in buttons.all_inner_texts()]


def test_figures_of_the_paper_are_presets_that_tell_what_is_missing(visit: Any) -> None:
    page = visit()
    page.click("#curve-controls [data-value=figure4]")
    setups = page.locator("#panels .panel").evaluate_all("list => list.map(entry => entry.dataset.setup)")
    assert setups == [RESNET, VGG]
    assert curves_in(page) == {"adaste", "adaste-annealed"}
    assert "training loss" in page.locator("#panels").inner_text()
    assert "Missing: BayesBiNN; AdaSTE, annealed." in page.locator(f".panel[data-setup={VGG}]").inner_text()
    page.click("#curve-controls [data-value=flipped]")
    assert page.locator("#curve-controls [data-value=figure4]").get_attribute("aria-pressed") == "false"
    assert "weights that flipped" in page.locator("#panels").inner_text()


def test_lengths_that_differ_from_the_figure_or_from_each_other_are_told(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(
        visit, tmp_path, "released", ("bayesbinn", 60), ("adaste", 200), ("adaste", 500), ("adaste-annealed", 500)
    )
    page.click("#curve-controls [data-value=figure4]")
    panel = page.locator(f".panel[data-setup={RESNET}]")
    told = "Runs of 60 and 500 (first 200) epochs instead of 200: BayesBiNN; AdaSTE, annealed."
    assert told in panel.inner_text()
    panel.locator(".chart").press("Home")
    spoken = panel.locator(".spoken").inner_text()
    told = set(re.findall(r"\w+ \(\d+ ep\.\)", spoken))
    assert told == {"annealing (200 ep.)", "annealed (500 ep.)", "BayesBiNN (60 ep.)"}


def test_a_figure_shows_runs_of_one_length_where_all_methods_have_it(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("bayesbinn", 4), ("adaste", 4), ("adaste", 8))
    page.click("#curve-controls [data-value=figure3]")
    assert max(epochs_on_axis(page)) == 4
    page.click("#curve-controls [data-value=long-runs]")
    assert curves_in(page) == {"adaste"}
    assert max(epochs_on_axis(page)) == 8


def test_the_length_that_is_shown_is_always_marked(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("bayesbinn", 4), ("adaste", 4), ("adaste", 8))
    page.click("#curve-controls [data-value=figure3]")
    assert pressed(page, "Length") == ["as in Figure 3"]  # its runs of 4 epochs are not the longest
    page.click("#curve-controls [data-value=longest]")
    assert pressed(page, "Length") == ["longest"]
    assert max(epochs_on_axis(page)) == 8


def test_long_runs_are_not_hidden_by_shorter_ones_that_all_methods_have(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("full-precision", 4), ("adaste", 4), ("adaste", 500))
    page.click("#curve-controls [data-value=long-runs]")
    assert max(epochs_on_axis(page)) == 500
    panel = page.locator(f".panel[data-setup={RESNET}]")
    assert "Runs of 4 epochs instead of 500: Full precision." in panel.inner_text()
    panel.locator(".chart").press("Home")
    told = panel.locator(".spoken").inner_text()
    assert all(title in told for title in ("AdaSTE, no annealing (500 ep.)", "Full precision (4 ep.)"))


@pytest.mark.parametrize("figure", ["figure3", "figure4", "long-runs"])
def test_a_figure_keeps_its_methods_from_family_to_family(figure: str, visit: Any) -> None:
    page = visit()
    page.click(f"#curve-controls [data-value={figure}]")
    drawn, name = curves_in(page), pressed(page, "Figure")
    for family in ("paper", "ours"):  # the first one has no runs
        page.click(f"#curve-controls [data-value={family}]")
        assert pressed(page, "Figure") == name
    assert curves_in(page) == drawn


def test_a_family_without_any_method_of_the_figure_leaves_it(visit: Any) -> None:
    page = visit()
    page.click("#curve-controls [data-value=ablation]")
    assert pressed(page, "Figure") == []
    assert curves_in(page) == {"printed", "averaged-0.99"}


def test_a_family_without_any_method_of_a_figure_that_was_left_has_lengths_of_its_own(visit: Any) -> None:
    page = visit()
    page.click("#curve-controls [data-value=figure3]")
    page.click("#legend [data-method=adaste]")
    assert (pressed(page, "Figure"), pressed(page, "Length")) == ([], ["as in Figure 3"])
    page.click("#curve-controls [data-value=ablation]")
    assert pressed(page, "Length") == ["longest"]


def test_a_method_without_a_recipe_in_the_family_is_called_by_its_title(visit: Any) -> None:
    page = visit()
    page.click("#curve-controls [data-value=ablation]")
    page.click("#curve-controls [data-value=figure7]")
    told = page.locator(f".panel[data-setup={RESNET}]").inner_text()
    missing = "BayesBiNN (no recipe in this family); AdaSTE, no annealing (no recipe in this family)"
    assert f"Missing: {missing}." in told


@pytest.mark.parametrize("way", ["[data-method=adaste]", "button:text-is('All')", "button:text-is('None')"])
def test_a_choice_of_methods_leaves_the_figure_and_keeps_the_focus(way: str, visit: Any) -> None:
    page = visit()
    assert pressed(page, "Figure") == ["Figure 3"]
    button = page.locator(f"#legend {way}")
    button.press("Enter")
    assert pressed(page, "Figure") == []
    assert "Missing" not in page.locator("#panels").inner_text()
    playwright.expect(button).to_be_focused()


@pytest.mark.parametrize("quantity", ["loss", "flipped"])
def test_another_quantity_is_of_the_same_runs(quantity: str, visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("bayesbinn", 4), ("adaste", 4), ("adaste", 8))
    page.click("#curve-controls [data-value=figure3]")
    page.click(f"#curve-controls [data-value={quantity}]")
    assert pressed(page, "Figure") == []
    assert max(epochs_on_axis(page)) == 4
    assert pressed(page, "Length") == ["as in Figure 3"]


def test_a_note_tells_that_visible_curves_differ_in_length(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("bayesbinn", 4), ("adaste", 4), ("adaste", 8))
    page.click("#curve-controls [data-value=figure3]")
    page.click("#curve-controls [data-value=longest]")
    panel = page.locator(f".panel[data-setup={RESNET}]")
    note = "Runs of 8 and 4 epochs stand side by side. To compare methods with each other, choose one length above."
    assert note in panel.inner_text()
    page.click("#legend [data-method=bayesbinn]")
    assert "side by side" not in panel.inner_text()


def test_names_tell_lengths_only_where_visible_curves_differ_in_them(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("bayesbinn", 4), ("adaste", 4), ("pmf", 8))
    page.click("#curve-controls [data-value=figure3]")
    panel = page.locator(f".panel[data-setup={RESNET}]")
    panel.locator(".chart").press("Home")
    assert "ep.)" not in panel.locator(".spoken").inner_text()  # PMF is hidden
    page.click("#legend [data-method=pmf]")
    panel.locator(".chart").press("Home")
    assert "PMF (8 ep.)" in panel.locator(".spoken").inner_text()


def test_a_length_that_a_setting_lacks_can_be_left_again(visit: Any) -> None:
    page = visit()
    page.click("#curve-controls [data-value='3']")
    page.click(f"#curve-controls [data-value={RESNET}]")
    assert "No runs of 3 epochs." in page.locator(f".panel[data-setup={VGG}]").inner_text()
    page.click("#curve-controls [data-value=longest]")
    assert curves_in(page, VGG) == {"adaste"}


def test_the_legend_names_only_methods_with_a_curve_of_the_quantity(visit: Any, tmp_path: Path) -> None:
    real, binary = (a_run(a_recipe("ours", method, RESNET, epochs=4), 90.0) for method in ("full-precision", "adaste"))
    real = dataclasses.replace(
        real, records=tuple(dataclasses.replace(record, flipped=None) for record in real.records)
    )
    page = page_of(visit, tmp_path, {"real": real, "binary": binary})
    assert page.locator("#legend [data-method]").count() == 2
    page.click("#curve-controls [data-value=flipped]")
    names = page.locator("#legend [data-method]").all_inner_texts()
    assert names == ["AdaSTE, no annealing"]
