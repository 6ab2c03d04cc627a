"""The tables of README and docs are those of results/, and every committed run can be read."""

import importlib.util
import json
import re
from types import ModuleType

import pytest

from adaste.paper.index import Collection, collect
from support.pages import ROOT


@pytest.fixture(scope="module")
def committed() -> Collection:
    return collect(ROOT / "results")


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


def test_a_page_with_another_number_is_not_up_to_date(script: ModuleType, committed: Collection) -> None:
    text = (ROOT / "README.md").read_text()
    assert script.updated(text.replace("| one bit, AdaSTE | 9", "| one bit, AdaSTE | 8"), committed.runs) == text


def test_the_first_runs_are_those_of_their_table() -> None:
    lines = (ROOT / "results" / "README.md").read_text().splitlines()
    rows = [re.match(r"\| \[\w+\]\((runs/\S+)\) \| (\S+) \|", line) for line in lines]
    shown = {found[1]: found[2] for found in rows if found}
    assert len(shown) == 5
    for folder, accuracy in shown.items():
        result = json.loads((ROOT / "results" / folder / "result.json").read_text())
        assert accuracy == f"{result['last_accuracy']:.2f}"
