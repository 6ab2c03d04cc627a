"""Pictures that are saved from the page: they say what they are of, and look the same wherever they are opened."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from adaste.training.records import Histogram
from support.page_parts import SVG, own_run, page_of, saved_by, texts_in
from support.paper_runs import a_recipe
from support.small_report import RESNET

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

LATENTS = "Save Latents at the end as SVG"


def test_a_chart_is_saved_as_a_picture_that_needs_no_page(visit: Any, tmp_path: Path) -> None:
    page = visit()
    name, root = saved_by(page, page.locator(f".panel[data-setup={RESNET}] .save"), tmp_path)
    assert name == f"{RESNET}-test_accuracy-ours.svg"
    assert root.tag == f"{SVG}svg"
    assert not [part for part in root.iter() if "class" in part.attrib or "var(" in json.dumps(part.attrib)]
    lines = [part for part in root.iter(f"{SVG}path") if part.get("fill") == "none"]
    assert {line.get("stroke") for line in lines} >= {"rgb(42, 61, 148)"}


def test_a_saved_chart_tells_how_many_runs_there_are_and_what_is_missing(visit: Any, tmp_path: Path) -> None:
    page = visit()
    _, root = saved_by(page, page.locator(f".panel[data-setup={RESNET}] .save"), tmp_path)
    texts = texts_in(root)
    assert {"AdaSTE, no annealing (n=2)", "AdaSTE, annealed"} <= set(texts)
    assert "Missing: MD-tanh-s; BayesBiNN. Runs of 6 epochs instead of 200." in texts


def test_pictures_are_light_even_from_a_dark_page(visit: Any, tmp_path: Path) -> None:
    grounds = []
    for colours in ("light", "dark"):
        page = visit(color_scheme=colours, viewport={"width": 1280, "height": 900})
        _, root = saved_by(page, page.locator(f".panel[data-setup={RESNET}] .save"), tmp_path)
        grounds.append({part.get(name) for part in root.iter() for name in ("fill", "stroke")})
    assert grounds[0] == grounds[1]
    assert "rgb(255, 255, 255)" in grounds[1]


def test_a_histogram_is_saved_like_a_chart(visit: Any, tmp_path: Path) -> None:
    digest = a_recipe("ours", "adaste-annealed", RESNET, epochs=6).digest
    page = visit(f"#run/{digest}")
    name, root = saved_by(page, page.get_by_role("button", name=LATENTS), tmp_path)
    assert name == f"{digest}-latents.svg"
    bins = [part for part in root.iter(f"{SVG}rect") if part.get("fill") == "rgb(42, 61, 148)"]
    assert len(bins) == 81
    assert "Latents at the end" in texts_in(root)


def test_a_histogram_has_names_and_counts_at_its_axes(visit: Any) -> None:
    page = visit(f"#run/{a_recipe('ours', 'adaste-annealed', RESNET, epochs=6).digest}")
    texts = page.locator("#sheet .histogram text").all_text_contents()
    assert {"latent", "latents in a bin", "0", "20", "80", "\u22124", "4"} <= set(texts)


def test_numbers_below_a_histogram_do_not_touch_each_other(visit: Any, tmp_path: Path) -> None:
    run = dataclasses.replace(own_run(batch=100), histogram=Histogram(7.4e-4, tuple(range(81))))
    page = page_of(visit, tmp_path, {"small": run})
    page.evaluate(f"location.hash = '#run/{run.digest}'")
    ticks = page.locator("#sheet .histogram text[text-anchor=middle]")
    playwright.expect(ticks.first).to_be_visible()
    boxes = [tick.bounding_box() for tick in ticks.all()]
    assert len(boxes) >= 3
    assert all(one["x"] + one["width"] + 4 < other["x"] for one, other in itertools.pairwise(boxes))


def test_pictures_of_a_run_say_of_which_run(visit: Any, tmp_path: Path) -> None:
    digest = a_recipe("ours", "adaste", RESNET, epochs=6, seed=1).digest
    page = visit(f"#run/{digest}")
    buttons = page.locator("#sheet .save").all()
    assert len(buttons) == 6
    for button in buttons:
        _, root = saved_by(page, button, tmp_path)
        told = " ".join(texts_in(root))
        assert f"AdaSTE, no annealing, CIFAR-10 ResNet-18, seed 1, 6 epochs, run {digest}" in told


def test_pictures_of_a_cell_say_of_which_cell(visit: Any, tmp_path: Path) -> None:
    page = visit(f"#cell/ours/adaste/{RESNET}")
    _, root = saved_by(page, page.locator("#sheet .save").first, tmp_path)
    assert "AdaSTE, no annealing, CIFAR-10 ResNet-18, ours, 6 epochs" in " ".join(texts_in(root))


def test_names_that_are_longer_than_a_picture_is_wide_have_several_lines(visit: Any, tmp_path: Path) -> None:
    page = page_of(visit, tmp_path, {letter * 180: own_run(batch=ord(letter)) for letter in "ab"})
    _, root = saved_by(page, page.locator("#others .save"), tmp_path)
    texts = texts_in(root)
    assert "a" * 180 not in texts
    assert "".join(text for text in texts if set(text) == {"a"}) == "a" * 180
