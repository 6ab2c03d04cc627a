"""The page in Chromium: its tables, the sheets of cells and runs, and the page as a whole."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from adaste.cli import main
from adaste.paper.report.texts import OTHERS, format_heading
from adaste.paper.tables import TABLES
from support.page_parts import own_run, page_of
from support.paper_runs import a_recipe, a_run, write_run
from support.small_report import HOSTILE, RESNET, write_unfinished
from support.waiting import wait_until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

RESULTS = Path(__file__).parents[3] / "results"
ADASTE_CELL = f"#table1 tr[data-method=adaste] td[data-setup={RESNET}] .cell"


def test_the_tables_show_what_the_runs_reached(visit: Any) -> None:
    page = visit()
    cell = page.locator(ADASTE_CELL).inner_text()
    assert re.search(r"93\.75\s*±\s*1\.06", cell)  # of 93.0 and 94.5
    assert "\u22120.21" in cell
    assert "published 93.96" in cell
    assert "2 runs, 6 epochs (also 3)" in cell
    assert "missing" in page.locator(f"#table1 tr[data-method=pmf] td[data-setup={RESNET}]").inner_text()


def test_tables_are_headed_as_in_every_other_text(visit: Any) -> None:
    headings = visit().locator(".table-head h3").all_inner_texts()
    assert headings == [*(format_heading(table) for table in TABLES.values()), OTHERS]


def test_differences_are_told_by_sign_and_mark_and_not_by_colour_alone(visit: Any) -> None:
    page = visit()
    above = page.locator(f"#table1 tr[data-method=adaste-annealed] td[data-setup={RESNET}] .difference")
    assert above.inner_text().replace("\n", "") == "▲+0.09"
    assert page.locator(f"{ADASTE_CELL} .difference").inner_text().startswith("▼")


def test_families_switch_and_stand_side_by_side(visit: Any) -> None:
    page = visit()
    page.click("#table-controls [data-value=released]")
    assert "93.96" in page.locator(f"{ADASTE_CELL} b").inner_text()
    assert page.locator("#table-controls [data-value=released]").get_attribute("aria-pressed") == "true"
    page.click("#table-controls [data-value=paper]")
    assert "missing" in page.locator(ADASTE_CELL).inner_text()
    assert "no recipe" in page.locator(f"#table1 tr[data-method=pmf] td[data-setup={RESNET}]").inner_text()
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


def test_cells_of_different_lengths_are_not_offered_for_comparison_without_a_word(visit: Any, tmp_path: Path) -> None:
    for method, epochs in (("adaste", 8), ("adaste", 4), ("pmf", 4)):
        recipe = a_recipe("ours", method, RESNET, epochs=epochs)
        write_run(a_run(recipe, 90.0), tmp_path / "runs" / recipe.digest)
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "mixed.html")]) == 0
    page = visit()
    page.goto((tmp_path / "mixed.html").as_uri())
    note = page.locator("#table1 .mixed")
    assert "longest runs, here of 8 and 4 epochs" in note.inner_text()
    page.click("#table1 .table-head [data-value='4']")
    assert note.count() == 0


def test_a_cell_names_another_version_that_made_its_runs(visit: Any, tmp_path: Path) -> None:
    recipes = [a_recipe("ours", "adaste", RESNET, seed=seed) for seed in (0, 1)]
    runs = {"this": a_run(recipes[0], 90.0), "other": a_run(recipes[1], 90.0, adaste="0.0.9")}
    assert "by adaste 0.0.9" in page_of(visit, tmp_path, runs).locator(ADASTE_CELL).inner_text()


def test_rows_of_an_ablation_have_one_length(visit: Any) -> None:
    page = visit()
    row = page.locator("#ablation tr[data-method=printed]")
    assert "70.00" in row.inner_text()  # not 71.00 of a longer run, which the other row has not
    page.click("#ablation [data-value='9']")
    assert "71.00" in row.inner_text()
    assert "missing" in page.locator("#ablation tr[data-method='averaged-0.99']").inner_text()


def test_colours_follow_the_system_until_they_are_chosen(visit: Any) -> None:
    page = visit(color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == "rgb(19, 20, 22)"
    assert light == "rgb(250, 249, 247)"
    page.reload()
    page.wait_for_function("light => getComputedStyle(document.body).backgroundColor === light", arg=light)


@pytest.mark.parametrize("fragment", ["", f"#cell/ours/adaste/{RESNET}"])
def test_a_telephone_scrolls_in_one_direction_only(fragment: str, visit: Any) -> None:
    page = visit(fragment, viewport={"width": 375, "height": 812})
    page.click("#sheet button[aria-label=Close]") if fragment else page.click("#table-controls [data-value=all]")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert page.locator("#sheet").evaluate("sheet => sheet.scrollWidth") <= 375


@pytest.mark.parametrize("width", [320, 375])
def test_a_thumb_meets_the_links_of_the_navigation_on_a_telephone(width: int, visit: Any) -> None:
    page = visit(viewport={"width": width, "height": 812})
    assert all(link.bounding_box()["height"] >= 36 for link in page.locator(".bar nav a").all())
    page.locator(".bar nav a", has_text="Curves").click()
    playwright.expect(page.locator("#curves-title")).to_be_in_viewport()
    bar = page.locator(".bar").bounding_box()
    assert page.locator("#curves-title").bounding_box()["y"] >= bar["y"] + bar["height"]


def test_the_time_of_a_very_short_run_is_told(visit: Any, tmp_path: Path) -> None:
    runs = {
        f"short-{seconds}": own_run(batch=100 + index, seconds=seconds) for index, seconds in enumerate((0.02, 2.5))
    }
    told = page_of(visit, tmp_path, runs).locator("#others tbody").inner_text()
    assert "< 0.1 s" in told
    assert "2.5 s" in told


@pytest.mark.parametrize("width", [320, 360, 390])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_telephone_shows_every_word_of_the_navigation(colours: str, width: int, visit: Any) -> None:
    page = visit(viewport={"width": width, "height": 812}, color_scheme=colours)
    box = page.locator(".bar nav").bounding_box()
    for link in page.locator(".bar nav a").all():
        word = link.bounding_box()
        assert box["x"] <= word["x"] and word["x"] + word["width"] <= box["x"] + box["width"] + 0.5
        assert box["y"] <= word["y"] and word["y"] + word["height"] <= box["y"] + box["height"] + 0.5
    assert box["x"] + box["width"] <= page.locator("#theme").bounding_box()["x"]


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


def test_a_press_beside_a_sheet_closes_it_but_not_the_end_of_a_selection(visit: Any) -> None:
    page = visit(f"#run/{a_recipe('ours', 'adaste', RESNET, epochs=6).digest}")
    title = page.locator("#sheet-title")
    title.hover(position={"x": 100, "y": 10})  # waits until the sheet has arrived
    page.mouse.down()
    page.mouse.move(200, title.bounding_box()["y"] + 10, steps=3)
    page.mouse.up()
    wait_until(lambda: page.evaluate("getSelection().toString()") != "")
    playwright.expect(page.locator("#sheet")).to_be_visible()
    page.mouse.click(200, 400)
    playwright.expect(page.locator("#sheet")).not_to_be_visible()


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


def test_a_folder_without_a_finished_run_makes_a_page_too(visit: Any, tmp_path: Path) -> None:
    write_unfinished(tmp_path / "none" / "unfinished")
    page = visit()
    assert main(["report", str(tmp_path / "none"), "-o", str(tmp_path / "empty.html")]) == 0
    page.goto((tmp_path / "empty.html").as_uri())
    assert "No run is finished." in page.locator("#tables").inner_text()
    assert "null" not in page.locator("body").inner_text()
    assert main(["report", str(tmp_path / "none"), "--paper", "-o", str(tmp_path / "empty.html")]) == 0
    page.reload()
    assert page.locator("#table1 a.cell").count() == 0
    assert "null" not in page.locator("body").inner_text()
    assert "No run has a recipe of the paper's tables" in page.locator("#curves").inner_text()


def test_everything_that_acts_has_a_name(visit: Any) -> None:
    page = visit()
    nameless = page.locator("button, a, input, .chart, .table-box").evaluate_all(
        "list => list.filter(entry => !(entry.ariaLabel || entry.labels?.length || entry.textContent.trim())).length"
    )
    assert nameless == 0
    assert page.locator("th:not([scope])").count() == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
