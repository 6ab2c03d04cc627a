"""Figures 1 and 2 of the paper on the page in Chromium: drawn where their numbers are, read, zoomed and saved."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from adaste.cli import main
from adaste.paper.report.contents import functions
from support.small_report import write_unfinished

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

PANELS = [(figure["name"], index) for figure in functions() for index in range(len(figure["panels"]))]
SVG = "{http://www.w3.org/2000/svg}"


def data_of(name: str, index: int) -> dict[str, Any]:
    panel: dict[str, Any] = next(figure for figure in functions() if figure["name"] == name)["panels"][index]
    return panel


def number(text: str) -> float:
    return float(text.replace("\u2212", "-"))


def scale_of(chart: Any, anchor: str, coordinate: str) -> np.poly1d:
    """From pixels to the numbers of an axis, as its ticks tell."""
    ticks = chart.locator(f".tick[text-anchor={anchor}]")
    ticks.first.wait_for()  # a chart is drawn once the browser tells its size
    places = ticks.evaluate_all(f"list => list.map(tick => Number(tick.getAttribute('{coordinate}')))")
    return np.poly1d(np.polyfit(places, [number(text) for text in ticks.all_text_contents()], 1))


@pytest.mark.parametrize(("name", "index"), PANELS)
def test_curves_are_drawn_through_the_numbers_of_the_functions(name: str, index: int, visit: Any) -> None:
    chart = visit().locator(f"#{name} .chart").nth(index)
    panel = data_of(name, index)
    across, up = scale_of(chart, "middle", "x"), scale_of(chart, "end", "y")
    paths = chart.locator(".curves .line").evaluate_all("list => list.map(line => line.getAttribute('d'))")
    for path, series in zip(paths, panel["series"], strict=True):
        drawn = np.array([[float(part) for part in point.split(",")] for point in re.findall(r"[\d.-]+,[\d.-]+", path)])
        wanted = [pair for pair in zip(panel["stops"], series["values"], strict=True) if pair[1] is not None]
        pixel = abs(across.coef[0]), abs(up.coef[0])
        assert np.abs(across(drawn[:, 0]) - [stop for stop, _ in wanted]).max() < 0.1 * pixel[0]
        # A tick's text stands 4 pixels below its line.
        assert np.abs(up(drawn[:, 1] + 4) - [value for _, value in wanted]).max() < 0.1 * pixel[1]


def test_no_line_is_drawn_across_the_jump(visit: Any) -> None:
    page = visit()
    for figure in ("figure1", "figure2"):
        page.locator(f"#{figure} .curves .line").first.wait_for(state="attached")
    lines = "list => list.map(line => line.getAttribute('d'))"
    for path in page.locator("#figure2 .curves .line").evaluate_all(lines):
        left, right = path.removeprefix("M").split("M")
        assert left.split("L")[-1].split(",")[0] == right.split("L")[0].split(",")[0]
    assert all(path.count("M") == 1 for path in page.locator("#figure1 .curves .line").evaluate_all(lines))


def test_the_keyboard_reads_the_map_on_both_sides_of_its_jump(visit: Any) -> None:
    page = visit()
    chart, spoken = page.locator("#figure2 .chart"), page.locator("#figure2 .spoken")
    chart.press("Home")
    for _ in range(15):
        chart.press("Shift+ArrowRight")
    assert spoken.inner_text() == "latent θ \u22120: μ = 1 \u22120.5050; μ = 10 \u22120.9182; μ = 100 \u22121.000"
    chart.press("ArrowRight")
    assert spoken.inner_text() == "latent θ 0: μ = 100 1.000; μ = 10 0.9182; μ = 1 0.5050"


def test_hovering_tells_the_height_of_the_lines_that_are_there(visit: Any) -> None:
    page = visit()
    panel = page.locator("#figure1 .panel").nth(1)
    chart = panel.locator(".chart")
    chart.scroll_into_view_if_needed()
    place = scale_of(chart, "middle", "x")
    frame = chart.bounding_box()
    page.mouse.move(frame["x"] + float((place - -0.5).roots[0]), frame["y"] + frame["height"] / 2)
    playwright.expect(panel.locator(".tip .tip-title")).to_have_text("latent θ \u22120.5")
    playwright.expect(panel.locator(".tip p span")).to_have_text(["chord (finite difference 0.58)", "tanh θ"])
    playwright.expect(panel.locator(".tip p b")).to_have_text(["\u22120.0917", "\u22120.4621"])


def test_the_chord_has_its_ends_named_beside_it(visit: Any) -> None:
    page = visit()
    for index in range(3):
        chart = page.locator("#figure1 .chart").nth(index)
        assert set(chart.locator(".curves text").all_text_contents()) == {"w*", "ŵ"}
        frame = chart.bounding_box()
        for text in chart.locator(".curves text").all():
            box = text.bounding_box()
            assert frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"]


def test_a_function_is_zoomed_between_whole_numbers(visit: Any) -> None:
    page = visit()
    chart = page.locator("#figure1 .chart").first
    ticks = chart.locator(".tick[text-anchor=middle]")
    whole = ticks.all_text_contents()
    for _ in range(4):
        chart.press("+")
    near = [number(text) for text in ticks.all_text_contents()]
    assert len(near) > 1
    assert max(near) - min(near) < 1
    chart.press("Escape")
    assert ticks.all_text_contents() == whole


def test_figures_of_functions_are_saved_as_pictures_that_need_no_page(visit: Any, tmp_path: Path) -> None:
    page = visit()
    names = []
    for button in page.locator("#functions .save").all():
        with page.expect_download() as download:
            button.click()
        names.append(download.value.suggested_filename)
        download.value.save_as(tmp_path / names[-1])
        root = ElementTree.parse(tmp_path / names[-1]).getroot()
        assert not [part for part in root.iter() if "class" in part.attrib or "var(" in str(part.attrib)]
    assert names == [
        "figure1-near-zero.svg",
        "figure1-pulled-towards-zero.svg",
        "figure1-pushed-away-from-zero.svg",
        "figure2-forward-map.svg",
    ]
    texts = [part.text for part in ElementTree.parse(tmp_path / names[1]).getroot().iter(f"{SVG}text")]
    assert {"Figure 1: Pulled towards zero", "tanh θ", "chord (finite difference 0.58)", "w*", "ŵ"} <= set(texts)


def test_functions_need_no_finished_runs_and_a_link_leads_to_them(visit: Any, tmp_path: Path) -> None:
    write_unfinished(tmp_path / "none" / "unfinished")
    assert main(["report", str(tmp_path / "none"), "--paper", "-o", str(tmp_path / "empty.html")]) == 0
    page = visit()
    page.goto((tmp_path / "empty.html").as_uri())
    page.click("#curves .about a")
    playwright.expect(page.locator("#functions-title")).to_be_in_viewport()
    headings = page.locator("#functions h3").all_inner_texts()
    assert [text.split(":")[0] for text in headings] == ["Figure 1", "Figure 2"]
    assert page.locator("#functions .curves .line").count() == 12
