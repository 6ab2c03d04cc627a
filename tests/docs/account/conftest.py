"""The committed runs, and the pages that tell of what was measured."""

import pytest

from adaste.paper.cells import OverSeeds
from adaste.paper.collection import Collection, Run, collect
from support.pages import ROOT, words
from support.runs_in_words import Found, Reached, runs_named


@pytest.fixture(scope="module")
def committed() -> Collection:
    return collect(ROOT / "results")


@pytest.fixture(scope="module")
def account() -> str:
    return words("docs/reproducing.md")


@pytest.fixture(scope="module")
def readme() -> str:
    return words("README.md")


@pytest.fixture(scope="module")
def found(committed: Collection) -> Found:
    """The run of that name and length with the first seed, or that of a recipe which was mended since."""

    def run_of(name: str, epochs: int = 60, *, mended: bool = False, digest: str = "") -> Run:
        (run,) = (
            run
            for run in committed.runs
            if run.folder.name.rpartition("-")[0] == name
            and bool(run.addresses) is not mended
            and run.digest.startswith(digest)
            and (run.recipe.epochs, run.recipe.seed) == (epochs, 0)
        )
        return run

    return run_of


@pytest.fixture(scope="module")
def reached(committed: Collection) -> Reached:
    """Accuracy after the last epoch of all seeds of the runs of that name and length."""

    def over_seeds(name: str, epochs: int = 60) -> OverSeeds:
        return OverSeeds.of([run.result.last_accuracy for run in runs_named(committed, name, epochs)])

    return over_seeds
