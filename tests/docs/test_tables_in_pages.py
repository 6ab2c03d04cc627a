"""The tables of README and docs are those of results/, and every committed run can be read."""

import dataclasses
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from adaste.cli.recipe_args import find_recipes
from adaste.paper.index import Collection, collect
from adaste.recipes.presets import recipe as named_recipe
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


def test_a_study_shows_held_out_accuracies_the_best_first_and_gains_over_no_changes(script: ModuleType) -> None:
    planned = find_recipes(str(ROOT / "studies" / "3-cifar10-vgg16.json"))
    mixed = [run.recipe for run in planned if run.name == "cifar10-vgg16-adaste" and not run.recipe.distillation]
    accuracies = dict(zip([recipe.digest for recipe in mixed], (90.0, 91.0, 92.5, 93.5), strict=True))
    runs = [
        SimpleNamespace(digest=digest, records=[SimpleNamespace(deciding=accuracy, train_accuracy=99.0)])
        for digest, accuracy in accuracies.items()
    ]
    lines = [re.split(r" *\| *", line)[1:-1] for line in script.study("3-cifar10-vgg16", runs=runs).splitlines()[2:]]
    assert lines[0] == ["`adaste`", "CutMix()", "2", "93.00 ± 0.71", "+2.50", "99.00"]
    assert lines[1][:3] == ["`adaste`", "", "2"] and lines[1][4] == ""
    assert all(line[2:4] == ["0 of 1", "missing"] for line in lines[2:])
    assert len(lines) == 7


def test_the_best_recipes_are_shown_with_their_seeds_beside_published_numbers(script: ModuleType) -> None:
    made = named_recipe("cifar100-vgg16-best")
    runs = [
        SimpleNamespace(recipe=made.with_seed(seed), result=SimpleNamespace(last_accuracy=accuracy))
        for seed, accuracy in enumerate((72.0, 73.0, 74.0))
    ]
    (line,) = (line for line in script.best(runs=runs).splitlines() if "CIFAR-100 VGG-16" in line)
    assert line.startswith("| CIFAR-100 VGG-16 | 69.28 | 71.50 | 72.09 | 73.00 ± 1.00 (n = 3) | 500 | missing |")


def test_times_are_shown_with_the_differences_of_their_recipes(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "ROOT", tmp_path)
    assert script.time_to_accuracy("fast") == "Not measured yet.\n"
    usual = named_recipe("cifar10-resnet18-fast", epochs=50)
    rows = [
        {
            "name": "fast",
            "recipe": json.loads(made.to_json()),
            "runs": [
                {"seconds": seconds, "accuracy": 94.0, "split": split, "images": 5000, "all_weights_binary": binary}
                for seconds in (20.0, 23.0, 21.0)
            ],
        }
        for made, split, binary in (
            (usual, "test", True),
            (dataclasses.replace(usual, batch=512, augmentation=usual.augmentation[:2]), "holdout", False),
        )
    ]
    environment = {"gpu": "NVIDIA H200", "processor": "Xeon", "date": "2026-11-20T01:02:03+00:00"}
    (tmp_path / "results" / "benchmarks").mkdir(parents=True)
    record = {"environment": environment, "rows": rows}
    (tmp_path / "results" / "benchmarks" / "fast.json").write_text(json.dumps(record))
    _, _, first, second, _, last = script.time_to_accuracy("fast").splitlines()
    assert first == "| `fast`, 50 epochs |  | 3 | 94.00 ± 0.00 | 5,000 test | 20.0 / 21.0 | all binary |"
    assert "| batch=512, no Cutout(size=8) | 3 |" in second and second.endswith("| not all binary |")
    assert "5,000 held out" in second
    assert last == "Made on NVIDIA H200, 2026-11-20."
