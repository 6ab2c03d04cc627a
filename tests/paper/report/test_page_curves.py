"""The curves of the page in Chromium: what is shown, and how they are looked at."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.page_parts import curves_in, drag_over_chart, epochs_on_axis, page_of_lengths
from support.small_report import RESNET

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser


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


IN_VIEW = """lines => lines.some(line => {
    const { width, height } = line.ownerSVGElement.viewBox.baseVal;
    const shares = Array.from({ length: 200 }, (_, index) => index / 199);
    return shares
        .map(share => line.getPointAtLength(share * line.getTotalLength()))
        .some(({ x, y }) => x > 46 && x < width - 12 && y > 24 && y < height - 42);
})"""


def curve_is_in_view(page: Any) -> bool:
    """Whether a line of the first chart passes between its axes."""
    chart = page.locator("#panels .panel .chart").first
    return bool(chart.locator(".curves .line").evaluate_all(IN_VIEW))


def test_a_drag_beside_all_curves_still_leads_to_some(visit: Any) -> None:
    page = visit()
    whole = epochs_on_axis(page)
    drag_over_chart(page, (0.6, 0.5), (0.9, 0.8))  # below them
    assert epochs_on_axis(page) != whole
    assert curve_is_in_view(page)


def test_a_drag_where_no_curve_is_shown_zooms_nowhere(visit: Any) -> None:
    page = visit()
    whole = epochs_on_axis(page)
    page.get_by_role("button", name="None", exact=True).click()
    drag_over_chart(page, (0.6, 0.2), (0.9, 0.8))
    assert epochs_on_axis(page) == whole
    assert page.locator("#panels .brush").count() == 0


def test_the_axis_and_its_last_half_end_where_visible_curves_end(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("pmf", 4), ("adaste", 40))
    page.click("#curve-controls [data-value=longest]")
    page.get_by_role("button", name="All", exact=True).click()
    assert max(epochs_on_axis(page)) == 40
    page.click("#legend [data-method=adaste]")
    assert max(epochs_on_axis(page)) == 4
    page.locator("#panels").get_by_role("button", name="Last half").click()
    assert curve_is_in_view(page)


def test_without_a_curve_the_axis_stays_near_those_that_could_be_shown(visit: Any) -> None:
    page = visit()
    page.get_by_role("button", name="None", exact=True).click()
    numbers = page.locator("#panels .panel .chart").first.locator(".axes text[text-anchor=end]").all_text_contents()
    assert max(float(text) for text in numbers[:-1]) > 80  # the last one is the axis' name


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


def test_the_line_that_reads_a_zoomed_chart_stays_between_its_ends(visit: Any, tmp_path: Path) -> None:
    page = page_of_lengths(visit, tmp_path, "ours", ("adaste", 6))
    chart = page.locator("#panels .panel .chart").first
    drag_over_chart(page, (0.24, 0.2), (0.72, 0.9))  # between epochs on either side
    left, right = chart.locator(".axes .base").first.evaluate(
        "line => [line.x1, line.x2].map((end) => end.baseVal.value)"
    )
    frame, seen = chart.bounding_box(), 0
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        page.mouse.move(frame["x"] + left + share * (right - left), frame["y"] + frame["height"] / 2)
        at = chart.locator(".cursor").evaluate_all("lines => lines.map((line) => line.x1.baseVal.value)")
        assert all(left <= place <= right for place in at)
        seen += len(at)
    assert seen
    drag_over_chart(page, (0.5, 0.2), (0.51, 0.9))


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
    assert "AdaSTE, no annealing (n=2) 93.75, from 93.00 to 94.50;" in spoken
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
    chart = page.locator(f".panel[data-setup={RESNET}] .chart")
    frame = chart.bounding_box()
    chart.hover(position={"x": frame["width"] - 13, "y": 60})
    told = page.locator(f".panel[data-setup={RESNET}] .tip").inner_text()
    assert re.findall(r"epoch 6|94\.20|93\.75|90\.25", told) == ["epoch 6", "94.20", "93.75"]
    assert re.search(r"AdaSTE, no annealing \(n=2\)\s+93\.00 to 94\.50", told)


def test_a_tap_tells_the_values_until_another_place_is_tapped(visit: Any) -> None:
    page = visit(viewport={"width": 375, "height": 800}, is_mobile=True, has_touch=True)
    chart = page.locator(f".panel[data-setup={RESNET}] .chart")
    chart.scroll_into_view_if_needed()
    frame = chart.bounding_box()
    tip = page.locator(f".panel[data-setup={RESNET}] .tip")
    playwright.expect(tip).to_be_hidden()
    page.touchscreen.tap(frame["x"] + 0.5 * frame["width"], frame["y"] + frame["height"] / 2)
    playwright.expect(tip).to_contain_text("AdaSTE, no annealing")
    told = tip.bounding_box()
    assert told["x"] >= 0
    assert told["x"] + told["width"] <= 375
    assert told["y"] >= frame["y"] + frame["height"]  # there is no room beside the cursor
    page.locator("#curves-title").tap()
    playwright.expect(tip).to_be_hidden()
