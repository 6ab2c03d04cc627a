"""Which runs of a study start within a time limit, and in which order."""

import dataclasses
import time
from pathlib import Path

import pytest

from adaste.recipes.distillation import Distillation
from adaste.recipes.presets import recipe
from adaste.runs.folder import Result, RunFolder
from adaste.runs.study.schedule import START, Estimate, Queue, TimeLimit, seconds_to_end
from adaste.runs.study.study import Job, folder_of
from adaste.training.records import Record


def job(runs: Path, epochs: int, seconds: float | None = 1.0, method: str = "adaste") -> Job:
    """A run of so many epochs that take so many seconds each."""
    name = f"digits-mlp-{method}"
    made = recipe(name, epochs=epochs)
    return Job(name, made, folder_of(name, made, runs), seconds and Estimate(seconds=seconds))


def begin(begun: Job, records: int, saved: int, seconds: float = 1.0) -> Job:
    """Let the run have records of its epochs, and a checkpoint after some of them."""
    begun.files.checkpoints.mkdir(parents=True)
    (begun.files.checkpoints / f"epoch-{saved:05d}-step-000000-0123456789abcdef.pt").touch()
    each = {"loss": 1.0, "train_accuracy": 50.0, "test_loss": 1.0, "test_accuracy": 50.0, "holdout_accuracy": None}
    others = {"lr": 0.1, "method": {}, "flipped": None, "latent": None, "evaluation_seconds": 0.25 * seconds}
    RunFolder(begun.folder).write_records(
        [Record(epoch=epoch, **each, **others, seconds=0.75 * seconds) for epoch in range(records)]
    )
    return begun


def finish(done: Job) -> Job:
    done.folder.mkdir(parents=True)
    done.files.write_result(Result(90.0, 90.0, 0, done.recipe.epochs, 1.0))
    return done


def order(jobs: list[Job], seconds: float | None = None, at_once: int = 1) -> list[int]:
    """The runs that are started with so many seconds left, in their order, by their epochs."""
    queue = Queue(jobs, None if seconds is None else TimeLimit(time.monotonic() + seconds, at_once))
    return [taken.recipe.epochs for taken in iter(lambda: queue.take(ended=()), None)]


def test_without_a_limit_all_runs_start_in_their_order_but_begun_ones_first(tmp_path: Path) -> None:
    jobs = [job(tmp_path, 10), job(tmp_path, 30), begin(job(tmp_path, 20), records=5, saved=5)]
    assert order(jobs) == [20, 10, 30]


def test_within_a_limit_the_longest_runs_that_end_in_time_come_first(tmp_path: Path) -> None:
    jobs = [job(tmp_path, epochs) for epochs in (10, 300, 100, 99)]
    assert order(jobs, 1000) == [300, 100, 99, 10]
    assert order(jobs, START + 100.5) == [100, 99, 10]
    assert order(jobs, START + 9) == []


def test_a_begun_run_counts_by_the_epochs_after_its_checkpoint_and_comes_first(tmp_path: Path) -> None:
    begun = begin(job(tmp_path, 300), records=260, saved=250)
    assert seconds_to_end([begun], 1)[begun.folder] == pytest.approx(START + 50)
    assert order([job(tmp_path, 60), begun], START + 60.5) == [300, 60]
    assert order([job(tmp_path, 40), begun], START + 49) == [40]


def test_the_speed_of_a_run_itself_counts_more_than_its_estimate(tmp_path: Path) -> None:
    slow = begin(job(tmp_path, 100), records=90, saved=90, seconds=7.0)
    assert seconds_to_end([slow], at_once=1)[slow.folder] == pytest.approx(START + 70)


def test_records_without_a_checkpoint_are_no_progress(tmp_path: Path) -> None:
    lost = begin(job(tmp_path, 100), records=90, saved=0)
    assert seconds_to_end([lost], 1)[lost.folder] == pytest.approx(START + 100)


def test_a_run_without_an_estimate_is_the_last_and_counts_after_its_first_epochs(tmp_path: Path) -> None:
    unknown = job(tmp_path, 1000, seconds=None)
    assert seconds_to_end([unknown], 1)[unknown.folder] is None
    assert order([unknown, job(tmp_path, 5)], START + 6) == [5, 1000]
    begin(unknown, records=1, saved=1, seconds=2.0)
    assert seconds_to_end([unknown], 1)[unknown.folder] == pytest.approx(START + 2 * 999)
    assert order([unknown, job(tmp_path, 5)], START + 6) == [5]


def test_runs_that_share_the_machine_take_longer_and_the_last_ones_less(tmp_path: Path) -> None:
    jobs = [job(tmp_path, 100), job(tmp_path, 50)]
    assert list(seconds_to_end(jobs, 2).values()) == pytest.approx([START + 200, START + 100])
    finish(jobs[1])
    assert list(seconds_to_end(jobs, 2).values()) == pytest.approx([START + 100, 0])


def test_finished_runs_need_no_time(tmp_path: Path) -> None:
    assert order([job(tmp_path, 100), finish(job(tmp_path, 7))], 1.0) == [7]


def test_a_damaged_run_is_taken_so_that_the_study_can_tell_of_it(tmp_path: Path) -> None:
    damaged = finish(job(tmp_path, 5, seconds=None))
    damaged.files.result_file.write_text("{")
    assert order([damaged], 1.0) == [5]


def test_a_run_waits_until_its_teacher_has_ended(tmp_path: Path) -> None:
    other, teacher = job(tmp_path, 30), job(tmp_path, 5, method="full-precision")
    taught = dataclasses.replace(
        other.recipe, epochs=10, distillation=Distillation(teacher=teacher.recipe.digest, weight=0.5)
    )
    student = Job("student", taught, folder_of("student", taught, tmp_path))
    for limit in (None, TimeLimit(time.monotonic() + 1000, 1)):
        queue = Queue([student, other, teacher], limit)
        assert [queue.take(ended=()) for _ in range(3)] == [teacher, other, None]
        assert queue.take(ended=[other.folder]) is None
        assert queue.take(ended=[other.folder, teacher.folder]) == student
    alone = Queue([student, other])  # its teacher is somewhere else
    assert [alone.take(ended=()), alone.take(ended=())] == [student, other]


def test_an_estimate_is_a_time_and_a_number_of_runs() -> None:
    for wrong in ({"seconds": 0.0}, {"seconds": float("inf")}, {"seconds": 1.0, "at_once": 0}):
        with pytest.raises(ValueError, match=next(reversed(wrong))):
            Estimate(**wrong)
