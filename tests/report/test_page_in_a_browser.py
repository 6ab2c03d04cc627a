"""The page in Chromium, as its reader meets it: opened from a file, without a network."""

import dataclasses
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from paper_runs import a_recipe, a_run, write_run

from adaste.cli import main

RESULTS = Path(__file__).parents[2] / "results"

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the page in")

HOSTILE = "<img src=x onerror=alert(1)>"
RESNET, VGG = "cifar10-resnet18", "cifar10-vgg16"
ADASTE_CELL = f"#table1 tr[data-method=adaste] td[data-place={RESNET}] .cell"
PLANNED = [
    ("ours", "adaste", RESNET, 6, 0, 93.0),
    ("ours", "adaste", RESNET, 6, 1, 94.5),
    ("ours", "adaste", RESNET, 3, 0, 88.0),
    ("ours", "adaste-annealed", RESNET, 6, 0, 94.2),
    ("ours", "binaryconnect", RESNET, 6, 0, 90.25),
    ("ours", "adaste", VGG, 6, 0, 92.0),
    ("released", "adaste", RESNET, 6, 0, 93.96),
    ("ablation", "printed", RESNET, 9, 0, 71.0),
    ("ablation", "printed", RESNET, 6, 0, 70.0),
    ("ablation", "averaged-0.99", RESNET, 6, 0, 80.0),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    for family, method, place, epochs, seed, last in PLANNED:
        recipe = a_recipe(family, method, place, epochs=epochs, seed=seed)
        write_run(a_run(recipe, last), root / f"{place}-{method}-{recipe.digest}")
    recipe = a_recipe("ours", "adaste", RESNET, epochs=6)
    write_run(a_run(dataclasses.replace(recipe, batch=100), 91.0, adaste="0.0.9"), root / HOSTILE)
    unfinished = write_run(a_run(a_recipe("ours", "pmf", RESNET), 90.0), root / "unfinished")
    (unfinished / "result.json").unlink()
    return root


@pytest.fixture(scope="module")
def address(results: Path) -> str:
    page = results.parent / "report of #1.html"
    assert main(["report", str(results), "-o", str(page)]) == 0
    return page.as_uri()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def desk(chromium: Any) -> Any:
    """What most tests open the page on: a large screen in the light."""
    return chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")


@pytest.fixture
def visit(chromium: Any, desk: Any, address: str) -> Iterator[Any]:
    """Opens the page. At the end of the test there must have been no complaint, and no request to a network."""
    pages, complaints, requests = [], [], []

    def opened(fragment: str = "", **settings: Any) -> Any:
        page = (chromium.new_context(**settings) if settings else desk).new_page()
        pages.append(page)
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address + fragment)
        return page

    yield opened
    for page in pages:
        page.close()
    assert complaints == []
    assert all(url.startswith(("file:", "data:,")) for url in requests)


def curves_in(page: Any, place: str = RESNET) -> set[str]:
    drawn = page.locator(f".panel[data-place={place}] .curves [data-method]").evaluate_all(
        "list => list.map(entry => entry.dataset.method)"
    )
    return set(drawn)


def epochs_on_axis(page: Any) -> list[float]:
    """The numbers below the chart of the first panel."""
    texts = page.locator(".panel .chart").first.locator(".axes text[text-anchor=middle]").all_text_contents()
    return [float(text.replace(",", "")) for text in texts]


def drag_over_chart(page: Any, start: tuple[float, float], stop: tuple[float, float]) -> None:
    """From one place to another, in shares of the chart's width and height."""
    chart = page.locator(".panel .chart").first
    chart.scroll_into_view_if_needed()
    frame = chart.bounding_box()
    places = [
        (frame["x"] + across * frame["width"], frame["y"] + down * frame["height"]) for across, down in (start, stop)
    ]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=4)
    page.mouse.up()


def test_the_tables_show_what_the_runs_reached(visit: Any) -> None:
    page = visit()
    cell = page.locator(ADASTE_CELL).inner_text()
    assert re.search(r"93\.75\s*±\s*1\.06", cell)  # of 93.0 and 94.5
    assert "\u22120.21" in cell
    assert "published 93.96" in cell
    assert "2 runs, 6 epochs (also 3)" in cell
    assert "missing" in page.locator(f"#table1 tr[data-method=pmf] td[data-place={RESNET}]").inner_text()


def test_differences_are_told_by_sign_and_mark_and_not_by_colour_alone(visit: Any) -> None:
    page = visit()
    above = page.locator(f"#table1 tr[data-method=adaste-annealed] td[data-place={RESNET}] .difference")
    assert above.inner_text().replace("\n", "") == "▲+0.09"
    assert page.locator(f"{ADASTE_CELL} .difference").inner_text().startswith("▼")


def test_families_switch_and_stand_side_by_side(visit: Any) -> None:
    page = visit()
    page.click("#table-controls [data-value=released]")
    assert "93.96" in page.locator(f"{ADASTE_CELL} b").inner_text()
    assert page.locator("#table-controls [data-value=released]").get_attribute("aria-pressed") == "true"
    page.click("#table-controls [data-value=paper]")
    assert "missing" in page.locator(ADASTE_CELL).inner_text()
    assert "no recipe" in page.locator(f"#table1 tr[data-method=pmf] td[data-place={RESNET}]").inner_text()
    page.click("#table-controls [data-value=all]")
    told = [
        page.locator(f"{ADASTE_CELL}[data-family={family}]").inner_text() for family in ("paper", "released", "ours")
    ]
    assert ["missing" in told[0], "93.96" in told[1], "93.75" in told[2]] == [True] * 3


def test_a_length_that_another_family_lacks_hides_nothing_there(visit: Any) -> None:
    page = visit()
    page.click("#table1 .table-head [data-value='3']")
    page.click("#table-controls [data-value=released]")
    assert "93.96" in page.locator(f"{ADASTE_CELL} b").inner_text()


def test_the_best_epoch_and_another_length_can_be_chosen(visit: Any) -> None:
    page = visit()
    page.click("#table1 .table-head [data-value='3']")
    assert "88.00" in page.locator(f"{ADASTE_CELL} b").inner_text()
    assert page.evaluate("document.activeElement.dataset.value") == "3"
    page.click("#table-controls [data-value=best]")
    assert "last 88.00" in page.locator(ADASTE_CELL).inner_text()


def test_rows_of_an_ablation_have_one_length(visit: Any) -> None:
    page = visit()
    row = page.locator("#ablation tr[data-method=printed]")
    assert "70.00" in row.inner_text()  # not 71.00 of a longer run, which the other row has not
    page.click("#ablation [data-value='9']")
    assert "71.00" in row.inner_text()
    assert "missing" in page.locator("#ablation tr[data-method='averaged-0.99']").inner_text()


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


def test_lengths_that_differ_from_the_figure_or_from_each_other_are_told(visit: Any, tmp_path: Path) -> None:
    for method, epochs in (("bayesbinn", 60), ("adaste", 200), ("adaste", 500), ("adaste-annealed", 500)):
        recipe = a_recipe("released", method, RESNET, epochs=epochs)
        write_run(a_run(recipe, 90.0 + epochs / 100), tmp_path / "runs" / recipe.digest)
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "lengths.html")]) == 0
    page = visit()
    page.goto((tmp_path / "lengths.html").as_uri())
    page.click("#curve-controls [data-value=figure4]")
    panel = page.locator(f".panel[data-place={RESNET}]")
    assert "Runs of 60 and 500 (first 200) epochs instead of 200." in panel.inner_text()
    panel.locator(".chart").press("Home")
    spoken = panel.locator(".spoken").inner_text()
    told = set(re.findall(r"\w+ \(\d+ ep\.\)", spoken))
    assert told == {"annealing (200 ep.)", "annealed (500 ep.)", "BayesBiNN (60 ep.)"}


def test_dragging_zooms_and_three_ways_lead_back(visit: Any) -> None:
    page = visit()
    whole = epochs_on_axis(page)
    reset = page.locator(".panel .reset").first
    ways = [
        reset.click,
        lambda: page.locator(".panel .chart").first.dblclick(position={"x": 200, "y": 100}),
        lambda: page.locator(".panel .chart").first.press("Escape"),
    ]
    for way in ways:
        drag_over_chart(page, (0.5, 0.5), (0.8, 0.52))
        assert epochs_on_axis(page) != whole
        assert min(epochs_on_axis(page)) >= 3
        way()
        assert epochs_on_axis(page) == whole
        assert reset.is_disabled()


def test_the_keyboard_zooms_and_reads_values(visit: Any) -> None:
    page = visit()
    chart = page.locator(".panel .chart").first
    whole = epochs_on_axis(page)
    chart.press("End")
    spoken = page.locator(".panel .spoken").first.inner_text()
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
    page.get_by_role("button", name="Last half").first.press("Enter")
    page.locator(".panel .reset").first.press("Enter")
    playwright.expect(page.locator(".panel .chart").first).to_be_focused()


def test_hovering_tells_the_values_of_all_visible_curves(visit: Any) -> None:
    page = visit()
    page.locator("#legend [data-method=binaryconnect]").click()
    chart = page.locator(f".panel[data-place={RESNET}] .chart")
    frame = chart.bounding_box()
    chart.hover(position={"x": frame["width"] - 13, "y": 60})
    told = page.locator(f".panel[data-place={RESNET}] .tip").inner_text()
    assert re.findall(r"epoch 6|94\.20|93\.75|90\.25", told) == ["epoch 6", "94.20", "93.75"]


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


def test_colours_follow_the_system_until_they_are_chosen(visit: Any) -> None:
    page = visit(color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == "rgb(19, 20, 22)"
    assert light == "rgb(250, 249, 247)"
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


@pytest.mark.parametrize("fragment", ["", f"#cell/ours/adaste/{RESNET}"])
def test_a_telephone_scrolls_in_one_direction_only(fragment: str, visit: Any) -> None:
    page = visit(fragment, viewport={"width": 375, "height": 812})
    page.click("#sheet button[aria-label=Close]") if fragment else page.click("#table-controls [data-value=all]")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert page.locator("#sheet").evaluate("sheet => sheet.scrollWidth") <= 375


def tab_to(page: Any, target: str) -> None:
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == target:
            return
    pytest.fail(f"no tab leads to {target}")


def test_a_cell_and_its_run_open_with_the_keyboard_and_close_again(visit: Any) -> None:
    page = visit()
    page.locator("#table-controls [data-value=best]").focus()
    tab_to(page, f"#cell/ours/adaste/{RESNET}")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#sheet-title")).to_have_text("AdaSTE, no annealing")
    playwright.expect(page.locator("#sheet-title")).to_be_focused()
    assert "2 runs of 6 epochs" in page.locator("#sheet").inner_text()
    digest = a_recipe("ours", "adaste", RESNET, epochs=6).digest
    tab_to(page, f"#run/{digest}")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#sheet")).to_contain_text(digest)
    playwright.expect(page).to_have_url(re.compile(rf"#run/{digest}$"))
    playwright.expect(page.locator("#sheet-title")).to_be_focused()
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#sheet")).not_to_be_visible()
    playwright.expect(page).to_have_url(re.compile(r"\.html$"))
    focused = "link => document.activeElement.getAttribute('href') === link"
    page.wait_for_function(focused, arg=f"#cell/ours/adaste/{RESNET}")


def test_a_run_has_an_address_and_shows_all_it_wrote(visit: Any) -> None:
    recipe = a_recipe("ours", "adaste-annealed", RESNET, epochs=6)
    page = visit(f"#run/{recipe.digest}")
    sheet = page.locator("#sheet")
    told = sheet.inner_text()
    assert all(text in told for text in ("94.20 %", "NVIDIA H200", "1.0 min", "Flips per epoch", "Latents at the end"))
    assert json.loads(sheet.locator("details", has_text="Recipe").locator("pre").text_content()) == json.loads(
        recipe.to_json()
    )
    assert sheet.locator(".bin").count() == 81
    page.evaluate("location.hash = '#run/nobody'")
    playwright.expect(page.locator("#sheet-title")).to_have_text("No such run")


def test_what_is_in_no_table_is_told_apart(visit: Any) -> None:
    page = visit()
    others = page.locator(".run-block").nth(1).inner_text()
    assert "Other runs" in others
    assert HOSTILE in others
    left_out = page.locator("#left-out").inner_text()
    assert "unfinished" in left_out
    assert "not finished: 3 of 3 epochs" in left_out
    assert page.locator("img").count() == 0


def test_runs_are_found_by_words(visit: Any) -> None:
    page = visit()
    page.fill("#filter", "vgg-16 adaste")
    assert page.locator(".run-block").first.locator("tbody tr").count() == 1
    page.fill("#filter", "nothing of the kind")
    assert page.locator(".run-block tbody tr").count() == 0


def test_the_foot_names_version_date_runs_and_hardware(visit: Any) -> None:
    foot = visit().locator("footer").inner_text()
    assert re.search(r"Made by adaste \S+ on \d{4}-\d\d-\d\d \d\d:\d\d UTC from 11 runs", foot)
    assert "NVIDIA H200 (11 runs)" in foot
    assert f"Runs of other versions of adaste: {HOSTILE} (0.0.9)." in foot


def test_the_committed_results_make_a_page_without_words_of_the_program(visit: Any, tmp_path: Path) -> None:
    assert main(["report", str(RESULTS), "-o", str(tmp_path / "ours.html")]) == 0
    page = visit()
    page.goto((tmp_path / "ours.html").as_uri())
    words = page.locator("body").inner_text().split()
    assert not {"null", "undefined", "NaN", "[object"} & set(words)


def test_a_figure_shows_runs_of_one_length_where_all_methods_have_it(visit: Any, tmp_path: Path) -> None:
    for method, epochs in (("bayesbinn", 4), ("adaste", 4), ("adaste", 8)):
        recipe = a_recipe("ours", method, RESNET, epochs=epochs)
        write_run(a_run(recipe, 90.0), tmp_path / "runs" / recipe.digest)
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "lengths.html")]) == 0
    page = visit()
    page.goto((tmp_path / "lengths.html").as_uri())
    page.click("#curve-controls [data-value=figure3]")
    assert max(epochs_on_axis(page)) == 4
    page.click("#curve-controls [data-value=long-runs]")
    assert curves_in(page) == {"adaste"}
    assert max(epochs_on_axis(page)) == 8


def test_a_folder_without_runs_makes_a_page_too(visit: Any, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    assert main(["report", str(tmp_path / "none"), "-o", str(tmp_path / "empty.html")]) == 0
    page = visit()
    page.goto((tmp_path / "empty.html").as_uri())
    assert page.locator("#table1 a.cell").count() == 0
    assert "null" not in page.locator("body").inner_text()
    assert "No setting is chosen" in page.locator("#panels").inner_text()


def test_everything_that_acts_has_a_name(visit: Any) -> None:
    page = visit()
    nameless = page.locator("button, a, input, .chart, .table-box").evaluate_all(
        "list => list.filter(entry => !(entry.ariaLabel || entry.labels?.length || entry.textContent.trim())).length"
    )
    assert nameless == 0
    assert page.locator("th:not([scope])").count() == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
