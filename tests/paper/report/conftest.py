"""The page in Chromium, as its reader meets it: opened from a file, without a network."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adaste.cli import main
from support.small_report import write_results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def address(results: Path) -> str:
    page = results.parent / "report of #1.html"
    assert main(["report", str(results), "-o", str(page)]) == 0
    return page.as_uri()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # tests that ask for it have seen that it is there

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium to open the page in")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
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
        page.set_default_timeout(60_000)
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
