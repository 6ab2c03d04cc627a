"""The curves of the page in Chromium: what is shown, how they are looked at, and how they are taken along."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from paper_runs import a_recipe, a_run, write_run
from small_report import RESNET, VGG

from adaste.cli import main

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


def curves_in(page: Any, place: str = RESNET) -> set[str]:
    drawn = page.locator(f".panel[data-place={place}] .curves [data-method]").evaluate_all(
        "list => list.map(entry => entry.dataset.method)"
    )
    return set(drawn)


def epochs_on_axis(page: Any) -> list[float]:
    """The numbers below the chart of the first panel."""
    texts = page.locator("#panels .panel .chart").first.locator(".axes text[text-anchor=middle]").all_text_contents()
    return [float(text.replace(",", "")) for text in texts]


def drag_over_chart(page: Any, start: tuple[float, float], stop: tuple[float, float]) -> None:
    """From one place to another, in shares of the chart's width and height."""
    chart = page.locator("#panels .panel .chart").first
    chart.scroll_into_view_if_needed()
    frame = chart.bounding_box()
    places = [
        (frame["x"] + across * frame["width"], frame["y"] + down * frame["height"]) for across, down in (start, stop)
    ]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=4)
    page.mouse.up()


def test_methods_are_hidden_and_shown(visit: Any) -> None:
    page = visit()
    assert curves_in(page) == {"binaryconnect", "adaste", "adaste-annealed"}
    button = page.locator("#legend [data-method=adaste]")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert curves_in(page) == {"binaryconnect", "adaste-annealed"}
    button.click()
    assert "adaste" in curves_in(page)
    page.get_by_role("button", name="None").click()
    assert curves_in(page) == set()


def test_figures_of_the_paper_are_presets_that_tell_what_is_missing(visit: Any) -> None:
    page = visit()
    page.click("#curve-controls [data-value=figure4]")
    places = page.locator("#panels .panel").evaluate_all("list => list.map(entry => entry.dataset.place)")
    assert places == [RESNET, VGG]
    assert curves_in(page) == {"adaste", "adaste-annealed"}
    assert "training loss" in page.locator("#panels").inner_text()
    assert "Missing: BayesBiNN, AdaSTE, annealed." in page.locator(f".panel[data-place={VGG}]").inner_text()
    page.click("#curve-controls [data-value=flipped]")
    assert page.locator("#curve-controls [data-value=figure4]").get_attribute("aria-pressed") == "false"
    assert "weights that flipped" in page.locator("#panels").inner_text()


def page_of_lengths(visit: Any, folder: Path, family: str, *runs: tuple[str, int]) -> Any:
    """The page of runs of these methods and lengths, one each."""
    for method, epochs in runs:
        recipe = a_recipe(family, method, RESNET, epochs=epochs)
        write_run(a_run(recipe, 90.0), folder / "runs" / recipe.digest)
    assert main(["report", str(folder / "runs"), "-o", str(folder / "lengths.html")]) == 0
    page = visit()
    page.goto((folder / "lengths.html").as_uri())
    return page


def test_lengths_that_differ_from_the_figure_or_from_each_other_are_told(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(
        visit, tmp_path, "released", ("bayesbinn", 60), ("adaste", 200), ("adaste", 500), ("adaste-annealed", 500)
    )
    page.click("#curve-controls [data-value=figure4]")
    panel = page.locator(f".panel[data-place={RESNET}]")
    told = "Runs of 60 and 500 (first 200) epochs instead of 200: BayesBiNN, AdaSTE, annealed."
    assert told in panel.inner_text()
    panel.locator(".chart").press("Home")
    spoken = panel.locator(".spoken").inner_text()
    told = set(re.findall(r"\w+ \(\d+ ep\.\)", spoken))
    assert told == {"annealing (200 ep.)", "annealed (500 ep.)", "BayesBiNN (60 ep.)"}


def test_dragging_zooms_and_three_ways_lead_back(visit: Any) -> None:
    page = visit()
    whole = epochs_on_axis(page)
    reset = page.locator("#panels .panel .reset").first
    ways = [
        reset.click,
        lambda: page.locator("#panels .panel .chart").first.dblclick(position={"x": 200, "y": 100}),
        lambda: page.locator("#panels .panel .chart").first.press("Escape"),
    ]
    for way in ways:
        drag_over_chart(page, (0.5, 0.5), (0.8, 0.52))
        assert epochs_on_axis(page) != whole
        assert min(epochs_on_axis(page)) >= 3
        way()
        assert epochs_on_axis(page) == whole
        assert reset.is_disabled()


def test_nothing_is_drawn_beyond_a_zoomed_chart(visit: Any) -> None:
    page = visit()
    chart = page.locator("#panels .panel .chart").first
    drag_over_chart(page, (0.2, 0.2), (0.9, 0.5))
    dots = "dots => dots.map(dot => [dot, dot.ownerSVGElement].map(part => part.getBoundingClientRect().toJSON()))"
    seen = []
    for share in (0.2, 0.4, 0.6, 0.8, 0.95):
        frame = chart.bounding_box()
        page.mouse.move(frame["x"] + share * frame["width"], frame["y"] + frame["height"] / 2)
        seen += chart.locator(".dot").evaluate_all(dots)
        assert (
            page.locator("#panels .panel .tip").first.inner_text().count("\n") >= 3
        )  # what cannot be seen is still told
    assert seen
    assert all(frame["top"] <= dot["top"] and dot["bottom"] <= frame["bottom"] for dot, frame in seen)


def test_only_the_keyboard_puts_a_frame_around_a_chart(visit: Any) -> None:
    page = visit()
    chart = page.locator("#panels .panel .chart").first
    outline = "chart => getComputedStyle(chart).outlineStyle"
    chart.click()
    playwright.expect(chart).to_be_focused()
    assert chart.evaluate(outline) == "none"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    playwright.expect(chart).to_be_focused()
    assert chart.evaluate(outline) == "solid"


def test_the_keyboard_zooms_and_reads_values(visit: Any) -> None:
    page = visit()
    chart = page.locator("#panels .panel .chart").first
    whole = epochs_on_axis(page)
    chart.press("End")
    spoken = page.locator("#panels .panel .spoken").first.inner_text()
    assert spoken.startswith("epoch 6: ")
    assert "AdaSTE, no annealing 93.75" in spoken
    chart.press("+")
    assert epochs_on_axis(page) != whole
    chart.press("-")
    assert epochs_on_axis(page) == whole


def test_the_keyboard_keeps_its_place_when_it_switches_curves_and_resets_a_zoom(visit: Any) -> None:
    page = visit()
    for name, drawn in (("None", set()), ("All", {"binaryconnect", "adaste", "adaste-annealed"})):
        button = page.get_by_role("button", name=name, exact=True)
        button.press("Enter")
        playwright.expect(button).to_be_focused()
        assert curves_in(page) == drawn
    page.locator("#panels").get_by_role("button", name="Last half").first.press("Enter")
    page.locator("#panels .panel .reset").first.press("Enter")
    playwright.expect(page.locator("#panels .panel .chart").first).to_be_focused()


def test_hovering_tells_the_values_of_all_visible_curves(visit: Any) -> None:
    page = visit()
    page.locator("#legend [data-method=binaryconnect]").click()
    chart = page.locator(f".panel[data-place={RESNET}] .chart")
    frame = chart.bounding_box()
    chart.hover(position={"x": frame["width"] - 13, "y": 60})
    told = page.locator(f".panel[data-place={RESNET}] .tip").inner_text()
    assert re.findall(r"epoch 6|94\.20|93\.75|90\.25", told) == ["epoch 6", "94.20", "93.75"]


def test_a_tap_tells_the_values_until_another_place_is_tapped(visit: Any) -> None:
    page = visit(viewport={"width": 375, "height": 800}, is_mobile=True, has_touch=True)
    chart = page.locator(f".panel[data-place={RESNET}] .chart")
    chart.scroll_into_view_if_needed()
    frame = chart.bounding_box()
    tip = page.locator(f".panel[data-place={RESNET}] .tip")
    playwright.expect(tip).to_be_hidden()
    page.touchscreen.tap(frame["x"] + 0.5 * frame["width"], frame["y"] + frame["height"] / 2)
    playwright.expect(tip).to_contain_text("AdaSTE, no annealing")
    told = tip.bounding_box()
    assert told["x"] >= 0
    assert told["x"] + told["width"] <= 375
    assert told["y"] >= frame["y"] + frame["height"]  # there is no room beside the cursor
    page.locator("#curves-title").tap()
    playwright.expect(tip).to_be_hidden()


def test_a_chart_is_saved_as_a_picture_that_needs_no_page(visit: Any, tmp_path: Path) -> None:
    page = visit()
    with page.expect_download() as download:
        page.locator(f".panel[data-place={RESNET}] .save").click()
    assert download.value.suggested_filename == f"{RESNET}-test_accuracy-ours.svg"
    picture = tmp_path / "picture.svg"
    download.value.save_as(picture)
    root = ElementTree.parse(picture).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [part for part in root.iter() if "class" in part.attrib or "var(" in json.dumps(part.attrib)]
    texts = [part.text for part in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "AdaSTE, no annealing" in texts
    lines = [part for part in root.iter("{http://www.w3.org/2000/svg}path") if part.get("fill") == "none"]
    assert {line.get("stroke") for line in lines} >= {"rgb(42, 61, 148)"}


def test_a_histogram_is_saved_like_a_chart(visit: Any, tmp_path: Path) -> None:
    digest = a_recipe("ours", "adaste-annealed", RESNET, epochs=6).digest
    page = visit(f"#run/{digest}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save Latents at the end as SVG").click()
    assert download.value.suggested_filename == f"{digest}-latents.svg"
    picture = tmp_path / "latents.svg"
    download.value.save_as(picture)
    root = ElementTree.parse(picture).getroot()
    bins = [part for part in root.iter("{http://www.w3.org/2000/svg}rect") if part.get("fill") == "rgb(42, 61, 148)"]
    assert len(bins) == 81
    assert "Latents at the end" in [part.text for part in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_figure_shows_runs_of_one_length_where_all_methods_have_it(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("bayesbinn", 4), ("adaste", 4), ("adaste", 8))
    page.click("#curve-controls [data-value=figure3]")
    assert max(epochs_on_axis(page)) == 4
    page.click("#curve-controls [data-value=long-runs]")
    assert curves_in(page) == {"adaste"}
    assert max(epochs_on_axis(page)) == 8


def test_no_length_is_marked_as_chosen_while_a_figure_decides_it(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("bayesbinn", 4), ("adaste", 4), ("adaste", 8))
    page.click("#curve-controls [data-value=figure3]")
    pressed = page.locator("#curve-controls [aria-label=Length] [aria-pressed=true]")
    assert pressed.count() == 0  # its runs of 4 epochs are not the longest
    page.click("#curve-controls [data-value=longest]")
    assert pressed.inner_text() == "longest"
    assert max(epochs_on_axis(page)) == 8


def test_long_runs_are_not_hidden_by_shorter_ones_that_all_methods_have(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("full-precision", 4), ("adaste", 4), ("adaste", 500))
    page.click("#curve-controls [data-value=long-runs]")
    assert max(epochs_on_axis(page)) == 500
    panel = page.locator(f".panel[data-place={RESNET}]")
    assert "Runs of 4 epochs instead of 500: Full precision." in panel.inner_text()
    panel.locator(".chart").press("Home")
    told = panel.locator(".spoken").inner_text()
    assert all(title in told for title in ("AdaSTE, no annealing (500 ep.)", "Full precision (4 ep.)"))
