"""Means over the seeds of a study."""

import dataclasses
from pathlib import Path

import pytest

from adaste.cli import main
from adaste.cli.study import over_seeds
from adaste.estimators.noise import Noise
from adaste.recipes.presets import recipe
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import Result, RunFolder
from adaste.runs.study.study import Job, State, Status

pytestmark = pytest.mark.slow


def status(made: Recipe, accuracy: float | None, name: str = "mine") -> Status:
    result = None if accuracy is None else Result(accuracy, 99.0, 0, made.epochs, 1.0)
    return Status(Job(name, made, Path()), State.DONE if result else State.FAILED, result=result)


def test_recipes_with_several_finished_seeds_have_a_mean_and_a_deviation() -> None:
    first, second, third = (recipe("digits-mlp-bayesbinn", epochs=4, seed=seed) for seed in range(3))
    assert over_seeds([status(first, 90.0), status(second, 92.0), status(third, 94.0)]) == [
        "mine, 3 seeds: 92.00 ± 2.00 % after 4 epochs"
    ]
    assert over_seeds([status(first, 90.0), status(second, 91.0), status(third, None)]) == [
        "mine, 2 seeds: 90.50 ± 0.71 % after 4 epochs"
    ]
    assert over_seeds([status(first, 90.0), status(second, None)]) == []


def test_recipes_that_differ_in_more_than_seeds_are_not_mixed_though_they_share_a_name() -> None:
    made = [recipe("digits-mlp-adaste", seed=seed) for seed in range(2)]
    others = [dataclasses.replace(one, batch=64) for one in made]
    runs = [status(one, accuracy) for one, accuracy in zip([*made, *others], [90.0, 90.0, 80.0, 80.0], strict=True)]
    assert over_seeds(runs) == [f"mine, 2 seeds: {mean} ± 0.00 % after 20 epochs" for mean in ("90.00", "80.00")]
    assert over_seeds(runs[1:3]) == []


def test_recipes_whose_noise_has_a_seed_of_its_own_are_not_seeds_of_one_recipe() -> None:
    made = recipe("digits-mlp-bayesbinn")
    others = [dataclasses.replace(made, estimator=dataclasses.replace(made.estimator, noise=Noise(n))) for n in (1, 2)]
    assert over_seeds([status(made, 90.0), *(status(other, 80.0) for other in others)]) == []
    assert [other.unseeded for other in others] == others
    assert made.with_seed(7).unseeded == made.unseeded == made


@pytest.mark.usefixtures("in_an_empty_folder")
def test_a_study_ends_with_the_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--epochs", "1", "--threads", "1", "--device", "cpu"]
    assert main(["study", "digits-mlp-bop", "--seeds", "0,1", *options]) == 0
    last = [result.last_accuracy for path in (tmp_path / "runs").iterdir() if (result := RunFolder(path).read_result())]
    _, *runs, _, mean = capsys.readouterr().out.splitlines()
    assert len(runs) == len(last) == 2
    assert mean.startswith(f"digits-mlp-bop, 2 seeds: {sum(last) / 2:.2f} ± ")
