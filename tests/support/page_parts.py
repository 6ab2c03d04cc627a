"""Parts of the page in a browser: what is drawn, how it is pointed at, and what is saved."""

import dataclasses
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from adaste.cli import main
from adaste.paper.index import Run
from support.paper_runs import a_recipe, a_run, write_run
from support.small_report import RESNET

SVG = "{http://www.w3.org/2000/svg}"


def curves_in(page: Any, setup: str = RESNET) -> set[str]:
    drawn = page.locator(f".panel[data-setup={setup}] .curves [data-method]").evaluate_all(
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


def page_of(visit: Any, folder: Path, runs: dict[str, Run], *options: str, **settings: Any) -> Any:
    """The page of these runs, by the names of their folders, made with some options."""
    for name, run in runs.items():
        write_run(run, folder / "runs" / name)
    assert main(["report", str(folder / "runs"), *options, "-o", str(folder / "some.html")]) == 0
    page = visit(**settings)
    page.goto((folder / "some.html").as_uri())
    return page


def own_run(last: float = 90.0, *, epochs: int = 6, seconds: float = 60.0, **changes: Any) -> Run:
    """A run whose recipe no table has."""
    recipe = a_recipe("ours", "adaste", RESNET, epochs=epochs)
    return a_run(dataclasses.replace(recipe, **changes), last, seconds=seconds)


def page_of_lengths(visit: Any, folder: Path, family: str, *runs: tuple[str, int]) -> Any:
    """The page of runs of these methods and lengths, one each."""
    recipes = [a_recipe(family, method, RESNET, epochs=epochs) for method, epochs in runs]
    return page_of(visit, folder, {recipe.digest: a_run(recipe, 90.0) for recipe in recipes})


def saved_by(page: Any, button: Any, folder: Path) -> tuple[str, ElementTree.Element]:
    """The name and the root of the picture that a button saves."""
    with page.expect_download() as download:
        button.click()
    name = download.value.suggested_filename
    download.value.save_as(folder / name)
    return name, ElementTree.parse(folder / name).getroot()


def texts_in(picture: ElementTree.Element) -> list[str]:
    return [part.text or "" for part in picture.iter(f"{SVG}text")]
