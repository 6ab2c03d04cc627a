"""The committed records of runs can be read by the package that documents them."""

from pathlib import Path

import pytest

from adaste.recipes.recipe import Recipe
from adaste.runs.folder import RunFolder
from adaste.training.records import best_of

RUNS = sorted((Path(__file__).parents[2] / "results" / "runs").glob("*/"))


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_a_committed_run_is_complete_and_agrees_with_itself(folder: Path) -> None:
    recipe = Recipe.from_json((folder / "recipe.json").read_text())
    assert folder.name.endswith(recipe.digest)
    records, result = RunFolder(folder).read_records(), RunFolder(folder).read_result()
    assert result is not None
    assert [record.epoch for record in records] == list(range(recipe.epochs))
    assert records[-1].test_accuracy == result.last_accuracy
    best = best_of(records)
    assert best is not None
    assert (best.epoch, best.test_accuracy) == (result.best_epoch, result.best_accuracy)


def test_there_are_committed_runs() -> None:
    assert RUNS
