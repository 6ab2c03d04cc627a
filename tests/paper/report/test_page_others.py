"""Recipes of one's own on the page in Chromium: compared in a table, and curve by curve."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from adaste.paper.index import Run
from adaste.training.records import Histogram
from support.page_parts import own_run, page_of
from support.paper_runs import a_run
from support.waiting import wait_until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

LONG = "a" * 90


def mine() -> dict[str, Run]:
    """Two recipes, one of them with two seeds."""
    runs = [
        own_run(last, batch=batch, seed=seed) for batch, seed, last in ((100, 0, 90.0), (100, 1, 92.0), (64, 0, 80.0))
    ]
    return {f"mine-{run.digest}": run for run in runs}


def names_of_curves(page: Any) -> list[str]:
    """As the keyboard reads them, those of the first setting."""
    page.locator("#others .chart").first.press("End")
    told = page.locator("#others .spoken").first.inner_text().split(": ", 1)[1]
    return [text.rsplit(" ", 1)[0] for text in re.sub(", from [^;]*", "", told).split("; ")]


def test_recipes_of_ones_own_are_compared_over_their_seeds_before_tables_that_are_empty(
    visit: Any, tmp_path: Path
) -> None:
    page = page_of(visit, tmp_path, mine(), "--paper")
    rows = page.locator("#others tbody tr").all_inner_texts()
    assert len(rows) == 2
    assert re.search(r"mine \(batch=100\)\s+91\.00 ±\s*1\.41", rows[0])
    playwright.expect(page.locator("#others .curves [data-method]")).to_have_count(2)
    tops = [page.locator(place).bounding_box()["y"] for place in ("#others", "#table1")]
    assert tops[0] < tops[1]
    page.click("#others tbody a >> nth=0")
    playwright.expect(page.locator("#sheet-title")).to_have_text("mine (batch=100)")
    assert "Seed 1" in page.locator("#sheet").inner_text()
    page.click("#sheet [aria-label=Close]")
    wait_until(lambda: page.evaluate("location.hash") == "")


def test_curves_of_ones_own_recipes_can_be_of_any_quantity(visit: Any, tmp_path: Path) -> None:
    page = page_of(visit, tmp_path, mine())
    titles = ["Test accuracy", "Training accuracy", "Training loss", "Test loss", "Flips per epoch"]
    buttons = page.locator("#others [aria-label=Quantity] button")
    assert buttons.all_inner_texts() == titles
    page.locator("#others [data-value=flipped]").press("Enter")
    playwright.expect(page.locator("#others [data-value=flipped]")).to_be_focused()
    playwright.expect(page.locator("#others .chart .axes")).to_contain_text("weights that flipped, %")
    playwright.expect(page.locator("#others .curves [data-method]")).to_have_count(2)


def test_curves_of_ones_own_recipes_are_switched_by_mouse_and_keyboard(visit: Any, tmp_path: Path) -> None:
    page = page_of(visit, tmp_path, mine())
    drawn = page.locator("#others .curves [data-method]")
    first = page.locator("#others .legend .method").first
    assert first.inner_text() == "mine (batch=100) (n=2)"
    first.click()
    playwright.expect(drawn).to_have_count(1)
    page.locator("#others [data-value=loss]").click()
    playwright.expect(drawn).to_have_count(1)  # what is off stays off
    first.press("Enter")
    playwright.expect(drawn).to_have_count(2)
    for name, count in (("None", 0), ("All", 2)):
        button = page.locator("#others").get_by_role("button", name=name, exact=True)
        button.press("Space")
        playwright.expect(button).to_be_focused()
        playwright.expect(drawn).to_have_count(count)


def test_runs_of_ones_own_that_differ_in_length_are_told_apart(visit: Any, tmp_path: Path) -> None:
    page = page_of(visit, tmp_path, {f"mine-{epochs}": own_run(epochs=epochs, batch=100) for epochs in (8, 4)})
    note = page.locator("#others figcaption")
    assert "Runs of 8 and 4 epochs stand side by side." in note.inner_text()
    page.locator("#others .legend .method").last.click()
    playwright.expect(note).to_be_hidden()
    assert len(names_of_curves(page)) == 1
    assert "ep.)" not in names_of_curves(page)[0]


def test_no_two_curves_of_a_large_sweep_look_alike(visit: Any, tmp_path: Path) -> None:
    page = page_of(visit, tmp_path, {f"sweep{batch}": own_run(batch=batch) for batch in range(200, 231)})
    curves = page.locator("#others .curves [data-method]")
    playwright.expect(curves).to_have_count(31)
    looks = curves.evaluate_all(
        """list => list.map(entry => {
            const { stroke, strokeDasharray } = getComputedStyle(entry.querySelector(".line"));
            return `${stroke} ${strokeDasharray}`;
        })"""
    )
    assert len(set(looks)) == 31
    assert len(names_of_curves(page)) == 31
    chart = page.locator("#others .chart")
    chart.hover()
    assert "and 19 lower" in page.locator("#others .tip").inner_text()
    page.get_by_role("button", name="None", exact=True).click()
    page.locator("#others .legend .method").nth(30).click()
    assert names_of_curves(page) == ["sweep230"]


def test_the_page_of_ones_own_runs_has_nothing_of_the_paper(visit: Any, tmp_path: Path) -> None:
    page = page_of(visit, tmp_path, mine())
    assert page.locator("#others .curves [data-method]").count() == 2
    assert page.locator("nav a").all_inner_texts() == ["Tables", "Runs", "Left out"]
    for part in ("#table1", "#table-controls", "#curves", "#functions"):
        assert page.locator(part).count() == 0
    seen = page.locator("body").inner_text()
    assert not [word for word in ("paper", "published", "Figure", "Families", "other recipes") if word in seen]


def test_runs_and_recipes_are_sorted_by_accuracy_and_by_any_other_column(visit: Any, tmp_path: Path) -> None:
    page = page_of(visit, tmp_path, mine())

    def column(place: str, number: int) -> list[str]:
        return [text.split()[0] for text in page.locator(f"{place} tbody td:nth-child({number})").all_inner_texts()]

    def sort(place: str, name: str) -> None:
        button = page.locator(f"{place} .sort[data-value='{name}']")
        button.press("Enter")
        playwright.expect(button).to_be_focused()

    sort("#run-list", "Last")
    assert column("#run-list", 4) == ["92.00", "90.00", "80.00"]
    assert page.locator("#run-list th[aria-sort=descending]").inner_text().startswith("Last")
    page.fill("#filter", "resnet")  # what is sorted stays so
    assert column("#run-list", 4) == ["92.00", "90.00", "80.00"]
    sort("#run-list", "Last")
    assert column("#run-list", 4) == ["80.00", "90.00", "92.00"]
    assert page.locator("#run-list th[aria-sort=ascending]").inner_text().startswith("Last")
    sort("#others", "Recipe")
    sort("#others", "Recipe")
    assert column("#others", 2) == ["91.00", "80.00"]
    sort("#others", "Last epoch")
    sort("#others", "Last epoch")
    assert column("#others", 2) == ["80.00", "91.00"]


def test_a_run_tells_its_threads_and_has_one_colour_for_the_test_images(visit: Any, tmp_path: Path) -> None:
    run = own_run(batch=100)
    starts = tuple({"processor": "some CPU", "threads": threads} for threads in (2, 1))
    page = page_of(visit, tmp_path, {"mine": dataclasses.replace(run, environments=starts)})
    page.locator("#run-list tbody a").click()
    playwright.expect(page.locator("#sheet .facts")).to_contain_text("2, then 1")
    colours = {
        name: page.locator(f"#sheet .curves [data-method={name}]").evaluate("entry => getComputedStyle(entry).color")
        for name in ("test_accuracy", "train_accuracy", "test_loss", "loss")
    }
    assert colours["test_accuracy"] == colours["test_loss"] != colours["loss"] == colours["train_accuracy"]


def test_the_ticks_of_large_latents_stay_inside_of_their_cards(visit: Any, tmp_path: Path) -> None:
    run = own_run(batch=100)
    records = tuple(dataclasses.replace(record, latent=7.5e7 + 1e5 * record.epoch) for record in run.records)
    large = Histogram(reach=7.5e8, counts=tuple(150_000 * index for index in range(81)))
    page = page_of(visit, tmp_path, {"mine": dataclasses.replace(run, records=records, histogram=large)})
    page.locator("#run-list tbody a").click()
    for panel in page.locator("#sheet .panel").all():
        card = panel.bounding_box()
        texts = panel.locator("svg .tick").all_text_contents()
        assert texts and len(set(texts)) >= len(texts) - 1, "ticks are told apart"  # both axes may have a 0
        for tick in panel.locator("svg .tick").all():
            box = tick.bounding_box()
            assert card["x"] <= box["x"] and box["x"] + box["width"] <= card["x"] + card["width"]


def test_runs_of_one_recipe_on_other_images_of_ones_own_lead_to_sheets_of_their_own(visit: Any, tmp_path: Path) -> None:
    recipe = own_run(data="folder").recipe
    runs = {
        f"{name}-{recipe.digest}": a_run(recipe, last, data=name) for name, last in (("cats", 90.0), ("dogs", 70.0))
    }
    page = page_of(visit, tmp_path, runs)
    for place, name in enumerate(("cats", "dogs")):
        for link in ("#others tbody a", "#run-list tbody a"):
            page.locator(link).nth(place).click()
            playwright.expect(page.locator("#sheet")).to_contain_text(("90.00", "70.00")[place])
            page.click("#sheet [aria-label=Close]")
        assert page.locator("#others tbody a").nth(place).inner_text() == name


def test_where_no_run_is_of_the_paper_its_curves_point_to_ones_own(visit: Any, tmp_path: Path) -> None:
    page = page_of(visit, tmp_path, mine(), "--paper")
    assert page.locator("#curve-controls button").count() == 0
    link = page.locator("#panels a")
    assert "No run has a recipe of the paper's tables" in page.locator("#panels").inner_text()
    link.click()
    playwright.expect(page.locator("#others h3")).to_be_in_viewport()


@pytest.mark.parametrize("width", [375, 1280])
def test_long_names_stay_in_their_panels_and_sheets(width: int, visit: Any, tmp_path: Path) -> None:
    runs = {LONG + str(batch): own_run(batch=batch) for batch in (100, 101)}
    page = page_of(visit, tmp_path, runs, viewport={"width": width, "height": 812})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    panel = page.locator("#others .panel").bounding_box()
    for button in page.locator("#others .method").all():
        box = button.bounding_box()
        assert panel["x"] <= box["x"] and box["x"] + box["width"] <= panel["x"] + panel["width"]
        assert button.evaluate("button => button.scrollWidth <= button.clientWidth")
    page.locator("#others .chart").hover()
    tip = page.locator("#others .tip")
    assert tip.evaluate("tip => tip.scrollWidth <= tip.clientWidth")
    for link in ("#others tbody a", "#run-list tbody a"):
        page.locator(link).first.evaluate("link => link.click()")
        playwright.expect(page.locator("#sheet")).to_be_visible()
        assert page.locator("#sheet").evaluate("sheet => sheet.scrollWidth <= sheet.clientWidth")
        page.click("#sheet [aria-label=Close]")
        playwright.expect(page.locator("#sheet")).to_be_hidden()
