"""Runs: what is in a folder, what is refused, and what is best."""

import dataclasses
import errno
import json
import multiprocessing
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from adaste.estimators import StraightThrough
from adaste.recipes.recipe import Recipe
from adaste.runs.checkpoint import Checkpoints, load
from adaste.runs.folder import RunFolder
from adaste.runs.run import Options, run
from adaste.training.distributed import World
from adaste.training.records import Record
from support.small_runs import (
    CPU,
    EVERY_STEP,
    InterruptedTrainingError,
    Listener,
    outcome,
    small_data,
    small_recipe,
    small_run,
    small_training,
    timeless,
)

pytestmark = pytest.mark.slow


def at(epoch: int, step: int) -> Listener:
    """An observer that breaks a run off there."""

    def stop(training) -> None:
        if (training.epoch, training.step) == (epoch, step):
            raise InterruptedTrainingError

    return Listener(stop)


def test_a_finished_run_leaves_everything_a_reader_needs(tmp_path) -> None:
    made = small_recipe("adaste-annealed", holdout=20)
    result = small_run(made, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    files = {"recipe.json", "environment.json", "metrics.jsonl", "best.safetensors", "last.safetensors", "result.json"}
    files |= {"latents.json"}
    assert names == {*files, "checkpoints", ".lock"}
    assert Recipe.from_json((tmp_path / "recipe.json").read_text()) == made
    records = RunFolder(tmp_path).read_records()
    assert [record.epoch for record in records] == [0, 1, 2]
    assert result == RunFolder(tmp_path).read_result()
    assert result.last_accuracy == records[-1].test_accuracy
    assert result.epochs == 3
    (start,) = json.loads((tmp_path / "environment.json").read_text())
    assert (start["engine"], start["processes"], start["data"]) == ("eager", 1, "small")
    assert (start["from_epoch"], start["from_step"]) == (0, 0)
    assert sum(RunFolder(tmp_path).read_histogram().counts) == 64 * 16 + 16 * 10


def test_the_same_recipe_twice_gives_the_same_files(tmp_path) -> None:
    for name in ("one", "other"):
        small_run(small_recipe("pmf"), tmp_path / name)
    assert outcome(tmp_path / "one") == outcome(tmp_path / "other")


def test_a_folder_alone_does_what_training_alone_does(tmp_path) -> None:
    small_run(small_recipe("pmf"), tmp_path)
    training = small_training(small_recipe("pmf"))
    assert timeless(list(training.run())) == timeless(RunFolder(tmp_path).read_records())
    with training.exported() as model:
        last = load_file(tmp_path / "last.safetensors")
        assert last.keys() == model.state_dict().keys()
        assert all(torch.equal(last[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("method", ["adaste", "binaryconnect", "pmf"])
@pytest.mark.parametrize("moment", [(0, 1), (1, 3), (2, 5), (2, 6)], ids=str)
@pytest.mark.parametrize("every_step", [True, False], ids=["saved at every step", "never saved"])
def test_an_interrupted_run_started_again_ends_the_same(tmp_path, method, moment, every_step) -> None:
    made, options = small_recipe(method), EVERY_STEP if every_step else Options(save_every=1e6)
    small_run(made, tmp_path / "whole")
    with pytest.raises(InterruptedTrainingError):
        small_run(made, tmp_path / "broken", options=options, observer=at(*moment))
    listener = Listener()
    small_run(made, tmp_path / "broken", options=options, observer=listener)
    # The observer stops a run before its step is saved.
    assert listener.began == [(moment[0], moment[1] - 1) if every_step else (0, 0)]
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")
    starts = json.loads((tmp_path / "broken" / "environment.json").read_text())
    assert len(starts) == 2


def test_a_finished_run_is_not_run_again(tmp_path) -> None:
    first = small_run(small_recipe(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    listener = Listener()
    assert small_run(small_recipe(), tmp_path, observer=listener) == first
    assert listener.steps == 0
    assert "is finished" in listener.said[0]
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_run_that_ended_before_its_result_was_written_is_only_finished(tmp_path) -> None:
    small_run(small_recipe(), tmp_path)
    before = outcome(tmp_path)
    (tmp_path / "result.json").unlink()
    (tmp_path / "last.safetensors").unlink()
    listener = Listener()
    small_run(small_recipe(), tmp_path, observer=listener)
    assert listener.steps == 0
    assert outcome(tmp_path) == before
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


@dataclasses.dataclass(frozen=True)
class OnesOwn(StraightThrough):
    """A method that no recipe in a file can name."""


def test_a_method_of_ones_own_is_refused_before_it_trains_for_a_run_that_nobody_could_read(tmp_path) -> None:
    recipe = dataclasses.replace(small_recipe(), estimator=OnesOwn())
    with pytest.raises(ValueError, match=r"unknown kind 'OnesOwn'.*Training trains by any recipe and writes nothing"):
        small_run(recipe, tmp_path)
    assert not (tmp_path / "recipe.json").exists()


@pytest.mark.parametrize(
    ("changes", "processes", "message"),
    [
        ({"batch": 101}, 1, "100 images for batches of 101"),
        ({"batch": 16, "holdout": 90}, 1, "10 images for batches of 16"),
        ({"holdout": 100}, 1, "holdout must leave images"),
        ({"batch": 16}, 3, "must be a multiple of 3, got 16"),
    ],
)
def test_a_batch_that_does_not_suit_is_refused_before_anything_is_written(
    tmp_path, changes, processes, message
) -> None:
    made, world = small_recipe(**changes), World(rank=0, size=processes)
    with pytest.raises(ValueError, match=message):
        run(made, tmp_path / "run", small_data(), device=CPU, world=world)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_another_recipe_is_refused_and_left_alone(tmp_path) -> None:
    small_run(small_recipe(seed=0), tmp_path)
    before = outcome(tmp_path)
    with pytest.raises(ValueError, match=r"another recipe.*use another folder"):
        small_run(small_recipe(seed=1), tmp_path)
    assert outcome(tmp_path) == before


def test_changed_data_are_refused(tmp_path) -> None:
    with pytest.raises(InterruptedTrainingError):
        small_run(small_recipe(), tmp_path, observer=at(1, 2))
    with pytest.raises(ValueError, match=r"its data is small, this one's is other"):
        small_run(small_recipe(), tmp_path, data=small_data(digest="other"))


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path) -> None:
    with pytest.raises(InterruptedTrainingError):
        small_run(small_recipe(seed=0), tmp_path / "a", observer=at(1, 2))
    shutil.copytree(tmp_path / "a" / "checkpoints", tmp_path / "b" / "checkpoints")
    with pytest.raises(ValueError, match="belongs to another run: its recipe is"):
        small_run(small_recipe(seed=1), tmp_path / "b")


def _train_in(folder: Path, answers) -> None:
    try:
        small_run(small_recipe(), folder)
    except RuntimeError as error:
        answers.put(str(error))
    else:
        answers.put("trained")


def test_a_folder_that_cannot_be_locked_says_so(tmp_path, monkeypatch) -> None:
    def refuse(file, operation) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OSError, match="No locks available"):
        small_run(small_recipe(), tmp_path)


def test_two_processes_in_one_folder_are_refused(tmp_path) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()

    def second(training) -> None:
        if (training.epoch, training.step) == (0, 2):
            other = context.Process(target=_train_in, args=(tmp_path, answers))
            other.start()
            other.join()

    small_run(small_recipe(), tmp_path, observer=Listener(second))
    assert "another process trains in" in answers.get(timeout=5)
    assert RunFolder(tmp_path).read_result() is not None


def test_the_lock_ends_with_the_run(tmp_path) -> None:
    with pytest.raises(InterruptedTrainingError):
        small_run(small_recipe(), tmp_path, observer=at(0, 2))
    small_run(small_recipe(), tmp_path)


@pytest.mark.parametrize("keep", [1, 3])
def test_the_last_few_checkpoints_stay(tmp_path, keep) -> None:
    with pytest.raises(InterruptedTrainingError):
        small_run(small_recipe(), tmp_path, options=Options(save_every=0.0, keep=keep), observer=at(1, 5))
    paths = Checkpoints(tmp_path / "checkpoints").paths()
    assert [(load(path)["training"]["epoch"], load(path)["training"]["step"]) for path in paths] == [
        (1, step) for step in (4, 3, 2)
    ][:keep]


def test_a_run_saves_when_time_has_passed_and_at_the_end(tmp_path, monkeypatch) -> None:
    seconds = iter(range(10**6))
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    saved = []

    def save(self, state, *, epoch, step) -> None:
        saved.append((epoch, step))

    monkeypatch.setattr(Checkpoints, "save", save)
    small_run(small_recipe(epochs=1), tmp_path, options=Options(save_every=3))
    assert saved[-1] == (1, 0)
    assert 1 < len(saved) < 6


@pytest.mark.parametrize("method", ["adaste", "pmf", "adaste-annealed"])
def test_the_best_network_has_the_accuracy_of_its_record(tmp_path, method) -> None:
    made = small_recipe(method, epochs=6)
    result = small_run(made, tmp_path, options=Options())
    records = RunFolder(tmp_path).read_records()
    best = max(records, key=lambda record: record.test_accuracy)
    assert (result.best_epoch, result.best_accuracy) == (best.epoch, best.test_accuracy)
    for name, record in (("best", best), ("last", records[-1])):
        network = load_file(tmp_path / f"{name}.safetensors")
        training = small_training(dataclasses.replace(made, norm_always=False))
        training.model.load_state_dict(network)
        training.optimizer.is_soft = lambda: False  # evaluated as it is in the file
        training.optimizer.binarized = _as_it_is
        score = training.evaluate()
        assert score.accuracy == record.test_accuracy
        assert score.loss == record.test_loss
        binary = [value for key, value in network.items() if key.endswith("weight") and value.ndim > 1]
        assert binary
        assert all(bool((value.abs() == 1).all()) for value in binary)


def _as_it_is():
    from contextlib import nullcontext

    return nullcontext()


def test_a_network_file_says_what_it_is(tmp_path) -> None:
    made = small_recipe(holdout=20)
    small_run(made, tmp_path)
    with safe_open(tmp_path / "best.safetensors", "pt") as file:
        facts = json.loads(file.metadata()["adaste"])
    best = RunFolder(tmp_path).read_records()[RunFolder(tmp_path).read_result().best_epoch]
    assert Recipe.from_json(json.dumps(facts["recipe"])) == made
    assert facts["classes"] == list("0123456789")
    assert Record(**facts["record"]).repeatable == best.repeatable


def test_images_held_out_decide_which_epoch_is_best(tmp_path) -> None:
    differ = 0
    for seed in range(6):
        folder = tmp_path / str(seed)
        result = small_run(small_recipe("adaste-printed", epochs=6, holdout=20, seed=seed), folder, options=Options())
        records = RunFolder(folder).read_records()
        best = max(records, key=lambda record: record.holdout_accuracy)
        assert (result.best_epoch, result.best_accuracy) == (best.epoch, best.test_accuracy)
        differ += best.epoch != max(records, key=lambda record: record.test_accuracy).epoch
    assert differ, "the test would not notice if test images decided"


def test_the_first_of_equally_good_epochs_is_the_best(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adaste.training.records.Record.deciding", property(lambda record: 50.0))
    assert small_run(small_recipe(), tmp_path).best_epoch == 0
    with safe_open(tmp_path / "best.safetensors", "pt") as file:
        assert json.loads(file.metadata()["adaste"])["record"]["epoch"] == 0


def test_epochs_between_tests_have_none(tmp_path) -> None:
    result = small_run(small_recipe(epochs=5, evaluate_every=3), tmp_path)
    records = RunFolder(tmp_path).read_records()
    assert [record.test_accuracy is not None for record in records] == [False, False, True, False, True]
    assert result.best_epoch in (2, 4)
    assert result.last_accuracy == records[-1].test_accuracy


def test_a_line_that_is_being_written_is_not_read(tmp_path) -> None:
    small_run(small_recipe(), tmp_path)
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text()[:-20])
    assert [record.epoch for record in RunFolder(tmp_path).read_records()] == [0, 1]
    assert RunFolder(tmp_path / "nowhere").read_records() == []


def test_seconds_add_up_over_all_starts(tmp_path, monkeypatch) -> None:
    seconds = iter(range(10**6))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    with pytest.raises(InterruptedTrainingError):
        small_run(small_recipe(), tmp_path, observer=at(2, 1))
    before = load(Checkpoints(tmp_path / "checkpoints").paths()[0])["seconds"]
    assert small_run(small_recipe(), tmp_path).seconds > before > 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep": 0}, "keep must be a whole number of at least 1, got 0"),
        ({"save_every": -1.0}, r"save_every must be at least 0, got -1\.0"),
    ],
)
def test_options_are_checked_when_made(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        Options(**changes)


def test_an_engine_this_machine_lacks_is_replaced_with_a_word(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("adaste.training.execution.missing_compiler", lambda device: "a hammer")
    listener = Listener()
    options = dataclasses.replace(EVERY_STEP, engine="compiled")
    run(small_recipe(), tmp_path, small_data(), device=CPU, options=options, observer=listener)
    assert listener.said == ["the compiled engine needs a hammer: going on with the eager one"]
