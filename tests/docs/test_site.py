"""The documentation is a site that builds without a warning and opens from the file system."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import adaste
from support.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
OUTSIDE = re.compile(r'<a href="((?:\.\./)+(?:src|results|runtime|examples|tests|\.github|[A-Z]+)[^"#]*)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


def pages_of(site: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in site.rglob("*.html")}


def test_the_reference_has_every_public_name_once() -> None:
    shown = [
        name for page in REFERENCE.glob("*.md") for name in re.findall(r"^::: adaste\.(\w+)$", page.read_text(), re.M)
    ]
    assert sorted(shown) == sorted(adaste.__all__)


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for path, text in pages_of(site).items():
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"', text)
        assert [link for link in map("".join, loaded) if "//" in link] == [], path


@pytest.mark.slow
def test_formulas_need_no_script(site: Path) -> None:
    text = (site / "mathematics.html").read_text()
    formulas = re.findall(r"<math .*?</math>", text, re.DOTALL)
    assert len(formulas) > 50
    assert 'class="arithmatex"' not in text
    assert [formula for formula in formulas if "\\" in formula] == []  # a command that is not known stays as it is


@pytest.mark.slow
def test_links_to_files_of_the_repository_lead_there(site: Path) -> None:
    found = 0
    for path, text in pages_of(site).items():
        place = ROOT / "site" / path.relative_to(site)  # where `make docs` writes it
        for link in OUTSIDE.findall(text):
            found += 1
            assert Path(os.path.normpath(place.parent / link)).exists(), f"{path.name}: {link}"
    assert found > 20


@pytest.mark.parametrize(
    ("repository", "page", "leads_to"),
    [
        (None, "page.md", "../src/file.py"),
        (None, "reference/page.md", "../../src/file.py"),
        ("https://example.org/p/", "reference/page.md", "https://example.org/p/blob/main/src/file.py"),
    ],
)
def test_links_out_of_docs_lead_to_the_published_repository_or_the_checkout(
    repository: str | None, page: str, leads_to: str
) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")
    up = "../" * (page.count("/") + 1)
    written = runpy.run_path(str(ROOT / "docs" / "hooks.py"))["on_page_markdown"](
        f"[a `file`]({up}src/file.py), [a page]({up.removesuffix('../')}other.md#a) and ![a picture](pictures/a.svg)",
        page=SimpleNamespace(file=SimpleNamespace(src_uri=page)),
        config=SimpleNamespace(repo_url=repository),
    )
    link, rest = written.split(", ")
    assert link == f'<a href="{leads_to}">a `file`</a>'
    assert rest == f"[a page]({up.removesuffix('../')}other.md#a) and ![a picture](pictures/a.svg)"


@pytest.mark.slow
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Page\n\n[lost](lost.md) [file](../elsewhere.py)\n")
    settings = re.search(r"^validation:\n(?:  .*\n)+", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert settings is not None
    hooks = f"hooks: [{ROOT / 'docs' / 'hooks.py'}]\n"
    (tmp_path / "mkdocs.yml").write_text(f"site_name: test\nuse_directory_urls: false\n{hooks}{settings[0]}")
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert build.returncode != 0
    assert "lost.md" in build.stderr and "elsewhere" not in build.stderr


@pytest.mark.slow
@pytest.mark.browser
def test_search_works_without_a_server(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto((site / "reference" / "schedules.html").as_uri())
        page.locator(".md-search__input").focus()
        ready = page.locator(".md-search-result__meta")  # what is typed before is lost
        playwright.expect(ready).not_to_contain_text("Initializing", timeout=30_000)
        page.locator(".md-search__input").press_sequentially("latents of weights")
        playwright.expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=30_000)
        browser.close()
