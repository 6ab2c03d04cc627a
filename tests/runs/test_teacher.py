"""The teacher of a run: found by its recipe, checked against what its run wrote, and the same one after a resume."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from adaste.data import Dataset
from adaste.data.augment import Crop
from adaste.models import MLP
from adaste.recipes.distillation import Distillation
from adaste.recipes.recipe import Recipe
from adaste.runs.evaluate import evaluate, network_of_run
from adaste.runs.folder import Result, RunFolder
from adaste.runs.run import Options
from adaste.runs.teacher import find_teacher
from adaste.training.step import Teacher
from support.small_runs import CPU, InterruptedTrainingError, Listener, outcome, small_data, small_recipe, small_run

TEACHER = small_recipe("full-precision", network=MLP(widths=(24,)), epochs=2)
STUDENT = small_recipe("adaste", distillation=Distillation(teacher=TEACHER.digest, weight=0.5))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs, one of which is the teacher's. Copied by whoever changes it."""
    runs = tmp_path_factory.mktemp("runs")
    small_run(TEACHER, runs / f"teacher-{TEACHER.digest}")
    small_run(small_recipe("binaryconnect", epochs=1), runs / "other")
    (runs / "broken").mkdir()
    (runs / "broken" / "recipe.json").write_text("{")
    (runs / "notes.txt").write_text("not a run")
    return runs


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """A copy of the folder of runs."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def folder_of_teacher(runs: Path) -> RunFolder:
    return RunFolder(runs / f"teacher-{TEACHER.digest}")


def find(runs: Path, made: Recipe = STUDENT, data: Dataset | None = None) -> Teacher:
    found = find_teacher(made, runs, data or small_data(), device=CPU)
    assert found is not None
    return found


def test_a_recipe_without_distillation_has_no_teacher(tmp_path: Path) -> None:
    assert find_teacher(TEACHER, tmp_path / "nowhere", small_data(), device=CPU) is None


@pytest.mark.parametrize("where", ["the folder of runs", "the run itself"])
def test_a_teacher_is_found_by_the_digest_of_its_recipe(trained: Path, where: str) -> None:
    run = folder_of_teacher(trained)
    teacher = find(trained if where == "the folder of runs" else run.path)
    assert teacher.sha256 == run.network_sha256("last") == json.loads(run.result_file.read_text())["last_sha256"]
    assert teacher.dtype == torch.float32
    assert not teacher.network.training
    assert not any(parameter.requires_grad for parameter in teacher.network.parameters())
    weights = load_file(run.network_file("last"))
    assert all(torch.equal(weights[name], value) for name, value in teacher.network.state_dict().items())


def test_of_two_runs_of_a_teacher_the_finished_one_counts(runs: Path) -> None:
    begun = RunFolder(runs / "a-begun-one")
    begun.path.mkdir()
    begun.claim(TEACHER)
    assert find(runs).sha256 == folder_of_teacher(runs).network_sha256("last")


def test_a_missing_teacher_is_reported_with_where_it_was_looked_for_and_what_to_do(runs: Path) -> None:
    shutil.rmtree(folder_of_teacher(runs).path)
    with pytest.raises(ValueError) as caught:
        find(runs)
    message = str(caught.value)
    assert f"no run of the recipe {TEACHER.digest} was found in {runs} (other entries: 3)" in message
    assert "`adaste train`" in message and "--teachers DIR" in message
    with pytest.raises(ValueError, match=r"nowhere \(other entries: 0\)"):
        find(runs / "nowhere")


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (
            small_recipe("full-precision", epochs=1).to_json(),
            r"recipe\.json holds another one, of the digest [0-9a-f]{16}",
        ),
        ("{", r"recipe\.json holds no recipe"),
        (None, r"recipe\.json is missing"),
    ],
    ids=["edited", "damaged", "missing"],
)
@pytest.mark.parametrize("where", ["the folder of runs", "the run itself"])
def test_a_teacher_whose_recipe_is_not_that_of_its_name_is_refused_with_what_is_wrong(
    runs: Path, where: str, write: str | None, words: str
) -> None:
    run = folder_of_teacher(runs)
    run.recipe_file.unlink() if write is None else run.recipe_file.write_text(write)
    with pytest.raises(
        ValueError, match=rf"the teacher in {run} cannot be used: .* digest {TEACHER.digest}, .*{words}"
    ):
        find(runs if where == "the folder of runs" else run.path)


def test_a_teacher_that_is_not_finished_is_refused_with_the_command_that_goes_on(runs: Path) -> None:
    run = folder_of_teacher(runs)
    run.result_file.unlink()
    with pytest.raises(ValueError, match=rf"not finished: go on with `adaste train {run.recipe_file} --folder {run}`"):
        find(runs)


def test_a_network_that_its_run_did_not_write_is_refused(runs: Path) -> None:
    run = folder_of_teacher(runs)
    content = bytearray(run.network_file("last").read_bytes())
    content[-1] ^= 1
    run.network_file("last").write_bytes(content)
    with pytest.raises(ValueError, match=r"last.safetensors is not the network that its run wrote: its SHA-256 is"):
        find(runs)


def test_a_network_of_another_recipe_in_the_folder_of_the_teacher_is_refused(runs: Path) -> None:
    shutil.copy(runs / "other" / "last.safetensors", folder_of_teacher(runs).network_file("last"))
    with pytest.raises(ValueError, match="belongs to another run"):
        find(runs)


def test_a_teacher_without_its_network_is_refused(runs: Path) -> None:
    folder_of_teacher(runs).network_file("last").unlink()
    with pytest.raises(ValueError, match=r"has no last\.safetensors: records .* --runs DIR.* --teachers DIR"):
        find(runs)


def without_sha256(run: RunFolder) -> None:
    old = json.loads(run.result_file.read_text())
    del old["last_sha256"]
    run.result_file.write_text(json.dumps(old))


def test_a_result_of_an_older_version_loads_and_is_written_again_with_the_sha256(runs: Path) -> None:
    run = folder_of_teacher(runs)
    wanted = run.read_result()
    without_sha256(run)
    assert run.read_result() == dataclasses.replace(wanted, last_sha256=None)
    with pytest.raises(ValueError, match=r"written without the SHA-256 .*: remove it, and `adaste train"):
        find(runs)
    run.result_file.unlink()
    again = small_run(TEACHER, run.path)
    assert dataclasses.replace(again, seconds=0.0) == dataclasses.replace(wanted, seconds=0.0)
    assert find(runs).sha256 == wanted.last_sha256


def other_data(**changes: Any) -> Dataset:
    return dataclasses.replace(small_data(), **changes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (other_data(digest="another"), r"other images than those of digits here: .* digest small, theirs is another"),
        (other_data(classes=tuple("abcdefghij")), "trained for other classes than those of digits"),
        (other_data(classes=tuple("0123456789X")), r"other classes than those of digits: 10 .*, there are 11"),
        (small_data(side=9), "trained on images of 8 x 8 x 1, those of digits are 9 x 9 x 1"),
    ],
    ids=["images", "names of classes", "number of classes", "size"],
)
def test_a_teacher_of_another_data_set_is_refused(trained: Path, data: Dataset, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find(trained, data=data)


def test_a_teacher_without_a_record_of_its_images_is_refused(runs: Path) -> None:
    folder_of_teacher(runs).environment_file.unlink()
    with pytest.raises(ValueError, match="has the digest None, theirs is small"):
        find(runs)


def test_a_teacher_for_images_of_another_size_than_the_augmentation_makes_is_refused(trained: Path) -> None:
    made = dataclasses.replace(STUDENT, augmentation=(Crop(1, size=7),))
    with pytest.raises(ValueError, match=r"trained on images of 8 x 8, and the augmentation .* makes .* 7 x 7"):
        find(trained, made)


def test_a_teacher_that_was_trained_on_the_images_held_out_is_refused(trained: Path) -> None:
    with pytest.raises(ValueError, match="holds out 20 training images to choose by, and its teacher, with holdout 0"):
        find(trained, dataclasses.replace(STUDENT, holdout=20))


@pytest.mark.slow
def test_a_run_finds_its_teacher_beside_it_and_says_which_file_it_was(runs: Path) -> None:
    small_run(STUDENT, runs / "student")
    run = RunFolder(runs / "student")
    (start,) = run.read_starts()
    assert start["teacher"] == folder_of_teacher(runs).network_sha256("last")
    assert run.read_recipe().distillation.teacher == TEACHER.digest
    assert evaluate(network_of_run(run.path), small_data(), device=CPU).accuracy == run.read_result().last_accuracy


@pytest.mark.slow
def test_a_run_without_a_teacher_names_none_and_needs_no_folder(tmp_path: Path) -> None:
    small_run(small_recipe(epochs=1), tmp_path / "run", options=Options(teachers=tmp_path / "nowhere"))
    assert RunFolder(tmp_path / "run").read_starts()[0]["teacher"] is None


@pytest.mark.slow
def test_the_network_of_a_student_is_no_larger_and_needs_no_teacher(runs: Path, tmp_path: Path) -> None:
    options = Options(teachers=runs)
    small_run(STUDENT, tmp_path / "student", options=options)
    small_run(dataclasses.replace(STUDENT, distillation=None), tmp_path / "alone")
    names = [set(load_file(tmp_path / name / "last.safetensors")) for name in ("student", "alone")]
    assert names[0] == names[1]
    shutil.rmtree(runs)
    finished = small_run(STUDENT, tmp_path / "student", options=options)
    assert isinstance(finished, Result)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [(0, 1), (1, 3), (2, 6)], ids=str)
def test_an_interrupted_run_with_a_teacher_ends_the_same(runs: Path, moment: tuple[int, int]) -> None:
    def stop(training: Any) -> None:
        if (training.epoch, training.step) == moment:
            raise InterruptedTrainingError

    small_run(STUDENT, runs / "whole")
    with pytest.raises(InterruptedTrainingError):
        small_run(STUDENT, runs / "interrupted", observer=Listener(stop))
    small_run(STUDENT, runs / "interrupted")
    assert outcome(runs / "interrupted") == outcome(runs / "whole")


@pytest.mark.slow
def test_a_run_does_not_go_on_with_another_teacher_than_it_began_with(runs: Path) -> None:
    """Equal recipes give other weights on another device."""

    def stop(training: Any) -> None:
        if training.epoch == 1:
            raise InterruptedTrainingError

    with pytest.raises(InterruptedTrainingError):
        small_run(STUDENT, runs / "student", observer=Listener(stop))
    run = folder_of_teacher(runs)
    content = bytearray(run.network_file("last").read_bytes())
    content[-1] ^= 1
    run.network_file("last").write_bytes(content)
    run.write_result(dataclasses.replace(run.read_result(), last_sha256=run.network_sha256("last")))
    with pytest.raises(ValueError, match="belongs to another run: its teacher is"):
        small_run(STUDENT, runs / "student")
    assert "its teacher is" in (RunFolder(runs / "student").read_problem() or "")


@pytest.mark.slow
def test_what_is_wrong_with_a_teacher_is_left_in_the_folder_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the teacher is missing"):
        small_run(STUDENT, tmp_path / "runs" / "student")
    problem = RunFolder(tmp_path / "runs" / "student").read_problem() or ""
    assert problem.startswith("the teacher is missing") and "(other entries: 0)" in problem


@pytest.mark.slow
def test_on_digits_a_binary_network_learns_from_its_float_twin(tmp_path: Path) -> None:
    """Data, recipes and runs as a user has them: the teacher in full precision, the student with one-bit weights."""
    from adaste.data import load
    from adaste.recipes.presets import recipe
    from adaste.runs.run import run

    data = load("digits")
    teacher = recipe("digits-mlp-full-precision", epochs=8)
    best = run(teacher, tmp_path / "teacher", data, device=CPU)
    distillation = Distillation(teacher=teacher.digest, weight=0.9, temperature=4.0)
    student = dataclasses.replace(recipe("digits-mlp-adaste", epochs=8), distillation=distillation)
    result = run(student, tmp_path / "student", data, device=CPU)
    binary = network_of_run(tmp_path / "student")
    assert {float(value) for value in np.unique(binary.tensors["1.weight"].numpy())} == {-1.0, 1.0}
    assert result.last_accuracy > best.last_accuracy - 3 > 90
