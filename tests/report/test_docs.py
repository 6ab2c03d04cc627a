"""The tables and numbers of README and docs are those of results/."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from adaste.paper.collection import Collection, Run, collect

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("update_results", ROOT / "docs" / "update_results.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def committed() -> Collection:
    return collect(ROOT / "results")


def test_every_committed_run_is_whole_and_there_once(committed: Collection) -> None:
    assert not committed.problems


def test_the_tables_of_the_pages_are_those_of_the_results(script: ModuleType, committed: Collection) -> None:
    for page in script.PAGES:
        text = page.read_text()
        assert script.MARKED.search(text), page
        assert script.updated(text, committed.runs) == text, f"{page.name}: run python docs/update_results.py"


def accuracy(run: Run, epoch: int) -> str:
    return f"{run.records[epoch - 1].test_accuracy:.2f}"


def test_the_numbers_in_the_account_are_those_of_its_runs(committed: Collection) -> None:
    text = (ROOT / "docs" / "reproducing.md").read_text()

    def found(beginning: str) -> Run:
        (run,) = (run for run in committed.runs if run.folder.name.startswith(beginning))
        return run

    annealed, constant = found("released-cifar10-resnet18-adaste-annealed"), found("released-cifar10-resnet18-adaste-0")
    before, after = annealed.records[15], annealed.records[16]
    assert before.method["mu"] == after.method["mu"] == 100
    assert annealed.records[14].method["mu"] < 100
    assert f"falls from {accuracy(annealed, 16)} to {accuracy(annealed, 17)} %" in text
    assert f"rises from {100 * before.flipped:.1f} to {100 * after.flipped:.1f} %" in text
    assert f"({accuracy(annealed, 16)} against {accuracy(constant, 16)} %)" in text
    assert f"{accuracy(annealed, 60)} against {accuracy(constant, 60)} % at the end" in text

    unstable, vgg = found("released-cifar10-resnet18-md-tanh-30"), found("released-cifar10-vgg16-md-tanh-b")
    best = max(record.test_accuracy for record in unstable.records)
    assert f"ended at {accuracy(unstable, 60)} % (ResNet-18; {best:.2f} in its best epoch)" in text
    assert f"and {accuracy(vgg, 60)} % (VGG-16)" in text

    absorbing, hundred = found("released-cifar10-resnet18-md-tanh-91"), found("released-cifar100-resnet18-md-tanh-81")
    best = max(record.test_accuracy for record in absorbing.records)
    assert f"ResNet-18 ends at {accuracy(absorbing, 60)} %, {best:.2f} in its best epoch" in text
    assert f"and at {accuracy(hundred, 60)} % on CIFAR-100" in text

    common = found("ours-cifar10-resnet18-adaste-4")
    real, annealed, bayes = (
        found(f"ours-cifar10-resnet18-{method}") for method in ("full-precision", "adaste-annealed", "bayesbinn")
    )
    behind = real.records[59].test_accuracy - common.records[59].test_accuracy
    assert f"reaches {accuracy(common, 60)} % on CIFAR-10 in 60 epochs, {behind:.2f} points below full" in text
    assert f"annealed {accuracy(annealed, 60)}, BayesBiNN {accuracy(bayes, 60)}" in text

    vgg = found("released-cifar100-vgg16-full-precision")
    assert f"{vgg.records[12].train_accuracy:.1f} % training accuracy after epoch 13" in text
    assert f"ends at {accuracy(vgg, 60)} %, 9.8 points" in text

    mirror = found("released-cifar10-resnet18-md-tanh-s-")
    early, middle, late = (accuracy(mirror, epoch) for epoch in (15, 24, 30))
    assert f"{early} % after epoch 15 of 60, {middle} after 24, {late} after 30" in text
    assert f"training accuracy is {mirror.records[14].train_accuracy:.1f} % after epoch 15" in text

    straight, released = found("ours-cifar10-resnet18-straight-through"), found("cifar10-resnet-adaste-49ae")
    assert f"reached {accuracy(straight, 30)} % in 30 epochs" in text
    assert f"reached {accuracy(released, 30)} %" in text
