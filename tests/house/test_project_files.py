"""What stands around the source: the release's check, workflows and pages name what there is."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import adaste

ROOT = Path(__file__).parents[2]
CHECK = ROOT / ".github" / "check_release.py"
SPEAKERS = sorted(ROOT.glob(".github/workflows/*.yml")) + sorted(ROOT.glob("*.md"))

problems = runpy.run_path(str(CHECK))["problems"]


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A project whose version 1.2.3 may be released."""
    for package in ("src/adaste", "runtime/src/adaste_runtime", "zoo/adaste_zoo"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text('"""A package."""\n\n__version__ = "1.2.3"\n')
    for folder in (".", "runtime", "zoo"):
        (tmp_path / folder / "pyproject.toml").write_text(
            '[project]\nname = "p"\n[project.urls]\nRepository = "https://example.org/p"\n'
        )
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "package.json").write_text('{\n "name": "p",\n "version": "1.2.3"\n}\n')
    (tmp_path / "mkdocs.yml").write_text("site_name: p\nrepo_url: https://example.org/p\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-12-01)\n\n- All.\n")
    return tmp_path


def test_a_project_that_is_ready_may_be_released(ready: Path) -> None:
    assert problems("v1.2.3", ready) == []


@pytest.mark.parametrize("tag", ["v1.2.4", "v1.2", "v1.2.30", "1.2.3"])
def test_a_tag_that_does_not_name_the_version_in_the_source_is_refused(ready: Path, tag: str) -> None:
    assert problems(tag, ready)


@pytest.mark.parametrize(
    "path",
    [
        "src/adaste/__init__.py",
        "runtime/src/adaste_runtime/__init__.py",
        "zoo/adaste_zoo/__init__.py",
        "web/package.json",
    ],
)
def test_a_tag_that_one_package_does_not_have_is_refused_with_its_file(ready: Path, path: str) -> None:
    (ready / path).write_text((ready / path).read_text().replace("1.2.3", "1.2.2"))
    (problem,) = problems("v1.2.3", ready)
    assert path in problem and "1.2.2" in problem


def test_a_release_without_a_day_or_an_address_is_refused(ready: Path) -> None:
    (ready / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (unreleased)\n")
    (ready / "pyproject.toml").write_text('[project]\nname = "p"\n')
    (ready / "mkdocs.yml").write_text("site_name: p\n")
    places = [problem.split()[0] for problem in problems("v1.2.3", ready)]
    assert places == ["pyproject.toml", "mkdocs.yml", "CHANGELOG.md"]


def test_all_packages_have_one_version() -> None:
    assert not [problem for problem in problems(f"v{adaste.__version__}") if "has version" in problem]


@pytest.mark.parametrize("path", SPEAKERS, ids=lambda path: path.name)
def test_every_target_that_is_named_is_in_the_makefile(path: Path) -> None:
    targets = re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:`|run: |^ {4})make ([\w./-]+)", path.read_text(), re.MULTILINE)) <= set(targets)


def test_the_fast_tests_are_those_without_a_marker_and_contributors_are_told_all_markers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    declared = [line.split(":")[0] for line in settings["markers"]]
    assert f'-m "not ({" or ".join(declared)})"' in (ROOT / "Makefile").read_text()
    assert re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE) == declared
