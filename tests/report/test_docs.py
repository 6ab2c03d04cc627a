"""The tables and numbers of README and docs are those of results/."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from adaste.paper.cells import best_test_accuracy
from adaste.paper.collection import Collection, Run, collect

ROOT = Path(__file__).parents[2]
Found = Callable[[str], Run]


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


@pytest.fixture(scope="module")
def account() -> str:
    """The text of docs/reproducing.md, however its lines are broken."""
    return " ".join((ROOT / "docs" / "reproducing.md").read_text().split())


@pytest.fixture(scope="module")
def found(committed: Collection) -> Found:
    """The run whose folder's name begins like that."""

    def run_of(beginning: str) -> Run:
        (run,) = (run for run in committed.runs if run.folder.name.startswith(beginning))
        return run

    return run_of


def accuracy(run: Run, epoch: int) -> str:
    return f"{run.records[epoch - 1].test_accuracy:.2f}"


def best(run: Run) -> str:
    return f"{best_test_accuracy(run):.2f}"


def flipped(run: Run, epoch: int, digits: int = 1) -> str:
    return f"{100 * run.records[epoch - 1].flipped:.{digits}f}"


def test_what_adaste_reaches_under_the_common_recipe(account: str, found: Found) -> None:
    ten, hundred = found("ours-cifar10-resnet18-adaste-4"), found("ours-cifar100-resnet18-adaste-b")
    behind = [
        f"{found(f'ours-{data}-resnet18-full-precision').result.last_accuracy - run.result.last_accuracy:.2f}"
        for data, run in (("cifar10", ten), ("cifar100", hundred))
    ]
    assert f"reaches {accuracy(ten, 60)} % on CIFAR-10 in 60 epochs, {behind[0]} points below full" in account
    assert f"and {accuracy(hundred, 60)} % on CIFAR-100, {behind[1]} points below it" in account
    next_best, annealed = found("ours-cifar10-resnet18-md-tanh-f"), found("ours-cifar100-resnet18-adaste-annealed")
    assert f"{accuracy(ten, 60)} % against {accuracy(next_best, 60)} of the next on CIFAR-10" in account
    assert f"{accuracy(hundred, 60)} against {accuracy(annealed, 60)} of its own annealed form" in account
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"{accuracy(ten, 60)} % on CIFAR-10, {accuracy(hundred, 60)} % on CIFAR-100" in readme


def test_what_binaryconnect_reaches_under_the_common_recipe(account: str, found: Found) -> None:
    ten, hundred = (found(f"ours-{data}-resnet18-binaryconnect") for data in ("cifar10", "cifar100"))
    assert f"{accuracy(ten, 60)} % on CIFAR-10 and {accuracy(hundred, 60)} % on CIFAR-100" in account
    distance = found("ours-cifar100-resnet18-adaste-b").result.last_accuracy - hundred.result.last_accuracy
    assert f"is {distance:.1f} there" in account
    assert f"and {accuracy(hundred, 60)} of BinaryConnect on CIFAR-100" in account


def test_the_jump_of_annealing(account: str, found: Found) -> None:
    annealed, constant = found("released-cifar10-resnet18-adaste-annealed"), found("released-cifar10-resnet18-adaste-0")
    assert annealed.records[15].method["mu"] == annealed.records[16].method["mu"] == 100
    assert annealed.records[14].method["mu"] < 100
    assert f"falls from {accuracy(annealed, 16)} to {accuracy(annealed, 17)} %" in account
    assert f"rises from {flipped(annealed, 16)} to {flipped(annealed, 17)} %" in account
    assert f"({accuracy(annealed, 16)} against {accuracy(constant, 16)} %)" in account
    assert f"{accuracy(annealed, 60)} against {accuracy(constant, 60)} % at the end" in account


def test_the_printed_rule_with_and_without_an_average(account: str, found: Found) -> None:
    printed, averaged = (
        found("ablation-cifar10-resnet18-printed-4"),
        found("ablation-cifar10-resnet18-averaged-0.9997-1"),
    )
    assert f"{accuracy(printed, 60)} % after 60 epochs" in account
    assert f"from {flipped(printed, 1)} to {flipped(printed, 60)} % while" in account
    assert f"from {printed.records[0].latent:.2f} to {printed.records[-1].latent:.2f} on average" in account
    assert f"trains, to {accuracy(averaged, 60)} %" in account
    assert f"{flipped(averaged, 60)} % of the weights flip in the last epoch" in account
    released = found("ours-cifar10-resnet18-adaste-4")
    assert (
        f"{flipped(released, 60, 2)} % do with the released update, which ends at {accuracy(released, 60)}" in account
    )


def test_the_released_update_beside_straight_through(account: str, found: Found) -> None:
    straight, released = found("ours-cifar10-resnet18-straight-through-f"), found("cifar10-resnet-adaste-49ae")
    assert f"reached {accuracy(straight, 30)} % in 30 epochs" in account
    assert f"reached {accuracy(released, 30)} %" in account


def test_the_unstable_mirror_descent(account: str, found: Found) -> None:
    free, vgg = found("released-cifar10-resnet18-md-tanh-30"), found("released-cifar10-vgg16-md-tanh-b")
    assert f"ended at {accuracy(free, 60)} % (ResNet-18; {best(free)} in its best epoch)" in account
    assert f"and {accuracy(vgg, 60)} % (VGG-16)" in account
    absorbing, hundred = found("released-cifar10-resnet18-md-tanh-91"), found("released-cifar100-resnet18-md-tanh-81")
    assert f"ResNet-18 ends at {accuracy(absorbing, 60)} %, {best(absorbing)} in its best epoch" in account
    assert f"and at {accuracy(hundred, 60)} % on CIFAR-100" in account
    common = found("ours-cifar10-resnet18-md-tanh-f")
    assert f"reaches {accuracy(common, 60)} %, more than any other mirror descent" in account


def test_the_slow_start_of_the_stable_mirror_descent(account: str, found: Found) -> None:
    scripted, common = found("released-cifar10-resnet18-md-tanh-s-"), found("ours-cifar10-resnet18-md-tanh-s")
    early, middle, late = (accuracy(scripted, epoch) for epoch in (15, 24, 30))
    assert f"{early} % after epoch 15 of 60, {middle} after 24, {late} after 30" in account
    assert f"training accuracy is {scripted.records[14].train_accuracy:.1f} % after epoch 15" in account
    assert f"MD-tanh-s is at {accuracy(common, 15)} % after epoch 15" in account


def test_proxquant_with_a_falling_rate(account: str, found: Found) -> None:
    falling, scripted = found("ours-cifar10-resnet18-proxquant-ac"), found("released-cifar10-resnet18-proxquant")
    adaste = found("ours-cifar10-resnet18-adaste-4")
    assert f"it ended at {accuracy(falling, 60)} %, where its scripts reach {accuracy(scripted, 60)} %" in account
    assert f"{flipped(falling, 16, 2)} % of them flip in epoch 16, with AdaSTE {flipped(adaste, 16)} %" in account


def test_full_precision_of_vgg_on_a_hundred_classes(account: str, found: Found) -> None:
    run = found("released-cifar100-vgg16-full-precision")
    assert f"{run.records[12].train_accuracy:.1f} % training accuracy after epoch 13" in account
    assert f"ends at {accuracy(run, 60)} %, 9.8 points" in account
