"""The tables of README and docs are those of results/."""

import importlib.util
from types import ModuleType

import pytest

from adaste.paper.collection import Collection
from support.pages import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("update_results", ROOT / "docs" / "update_results.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_every_committed_run_is_whole_and_there_once(committed: Collection) -> None:
    assert not committed.problems


def test_the_tables_of_the_pages_are_those_of_the_results(script: ModuleType, committed: Collection) -> None:
    for page in script.PAGES:
        text = page.read_text()
        assert script.MARKED.search(text), page
        assert script.updated(text, committed.runs) == text, f"{page.name}: run python docs/update_results.py"
