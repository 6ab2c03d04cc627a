"""Many runs in child processes."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adaste.cli import main
from adaste.recipes.distillation import Distillation
from adaste.recipes.presets import recipe
from adaste.runs.folder import RunFolder
from adaste.runs.study.processes import Child, Processes
from adaste.runs.study.study import Job, State, Status, Study, folder_of
from support.programs import program
from support.small_runs import small_recipe, small_run
from support.waiting import soon, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_an_empty_folder")]


def job(name: str, runs: Path, epochs: int = 2) -> Job:
    made = recipe(name, epochs=epochs)
    return Job(name, made, folder_of(name, made, runs))


def job_of_a_child_that(does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job with its folder; whoever makes it is a line of shell."""
    program(tmp_path, "python", does)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    mine = job("digits-mlp-bop", tmp_path / "runs")
    mine.folder.mkdir(parents=True)
    return mine


def test_a_study_runs_what_is_not_finished_and_a_failure_stops_nobody_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unfit = dataclasses.replace(recipe("digits-mlp-straight-through"), batch=100_000)
    (tmp_path / "study.json").write_text(f'["digits-mlp-adaste", {unfit.to_json()}, "digits-mlp-bop"]')
    arguments = ["study", "study.json", "--processes", "2", "--epochs", "1", "--device", "cpu"]
    assert main(["train", "digits-mlp-bop", "--epochs", "1"]) == 0
    capsys.readouterr()
    assert main(arguments) == 1
    finished, first, *lines, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ("2 running, 1 done; epochs 0/1, 0/1", "2 done, 1 failed")
    lines.append(finished)
    lines.sort()
    assert [line.split(",")[0] for line in lines] == [
        "digits-mlp-adaste",
        "digits-mlp-bop",
        "digits-mlp-straightthrough",
    ]
    assert "after 1 epochs" in lines[0] and "after 1 epochs" in lines[1]
    assert "failed after 0/1 epochs: " in lines[2] and "100000" in lines[2]
    folders = {path.name.rsplit("-", 1)[0]: path for path in (tmp_path / "runs").iterdir()}
    assert RunFolder(folders["digits-mlp-adaste"]).read_result() is not None
    assert "digits" in (folders["digits-mlp-adaste"] / "log.txt").read_text()
    assert not (folders["digits-mlp-bop"] / "log.txt").exists()  # it was finished: no process was started


def test_a_student_is_trained_after_its_teacher_in_the_same_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = recipe("digits-mlp-full-precision", epochs=1)
    student = dataclasses.replace(
        recipe("digits-mlp-adaste", epochs=1), distillation=Distillation(teacher=teacher.digest, weight=0.5)
    )
    (tmp_path / "study.json").write_text(f"[{student.to_json()}, {teacher.to_json()}]")
    assert main(["study", "study.json", "--processes", "2", "--threads", "1", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 done"


def test_a_signal_lets_a_run_save_and_the_same_study_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["study", "digits-mlp-adaste", "--seeds", "0,1", "--epochs", "30", "--threads", "1", "--device", "cpu"]

    def interrupt() -> None:
        wait_until(lambda: any(len(RunFolder(path).read_records()) > 2 for path in tmp_path.glob("runs/*")))
        os.kill(os.getpid(), signal.SIGINT)

    soon(interrupt)
    assert main(arguments) == 130
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first.endswith("running; epochs 0/30") and last == "2 stopped"
    assert [line.split(":")[1].split()[0] for line in lines] == ["stopped"] * 2
    (begun,) = (tmp_path / "runs").iterdir()
    assert "saved: run the same command" in (begun / "log.txt").read_text()
    assert main(arguments) == 0
    assert "going on in epoch" in (begun / "log.txt").read_text()
    for path in (tmp_path / "runs").iterdir():
        assert [record.epoch for record in RunFolder(path).read_records()] == list(range(30))
        assert RunFolder(path).read_result() is not None


class Impatient(Study):
    """Hears two signals as soon as its children run."""

    def watch(self, statuses: list[Status]) -> None:
        if any(status.state is State.RUNNING for status in statuses):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("handler", "stopped_by"), [(signal.SIG_DFL, signal.SIGHUP), (signal.SIG_IGN, None)])
def test_a_closed_terminal_stops_a_study_unless_it_was_told_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: signal.Handlers, stopped_by: int | None
) -> None:
    program(tmp_path, "python", "sleep 1")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    before = signal.signal(signal.SIGHUP, handler)
    try:
        study = Study([job("digits-mlp-adaste", tmp_path / "runs")], Processes())
        (status,) = study.run(lambda statuses: os.kill(os.getpid(), signal.SIGHUP))
        assert signal.getsignal(signal.SIGHUP) is handler
    finally:
        signal.signal(signal.SIGHUP, before)
    assert study.stopped_by == stopped_by
    assert status.state is (State.DONE if stopped_by is None else State.STOPPED)


def test_a_run_that_could_not_save_when_asked_to_stop_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "python", "trap 'echo error: no space; exit 1' TERM; touch ready; while :; do sleep 0.05; done")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    def interrupt() -> None:
        wait_until((tmp_path / "ready").exists)
        os.kill(os.getpid(), signal.SIGINT)

    soon(interrupt)
    study = Study([job("digits-mlp-adaste", tmp_path / "runs")], Processes())
    (status,) = study.run(lambda statuses: None)
    assert (status.state, status.problem, study.stopped_by) == (State.FAILED, "no space", signal.SIGINT)


@pytest.mark.parametrize("error", [BrokenPipeError, SystemExit])
def test_runs_save_also_where_nobody_watches_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    saving = "trap 'sleep 0.3; touch saved; exit 143' TERM; touch ready"
    program(tmp_path, "python", f"{saving}; while :; do sleep 0.05; done")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    def watch(statuses: list[Status]) -> None:
        if (tmp_path / "ready").exists():
            raise error

    with pytest.raises(error):
        Study([job("digits-mlp-adaste", tmp_path / "runs")], Processes()).run(watch)
    assert (tmp_path / "saved").exists()


def test_modules_in_the_folder_where_a_study_is_started_are_not_taken_for_those_of_python(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise ImportError('mine')")
    (tmp_path / "recipe.json").write_text(recipe("digits-mlp-adaste", epochs=1).to_json())
    child = Child(tmp_path, ["--engine", "none"])
    wait_until(lambda: child.ended() is not None)
    assert "invalid choice: 'none'" in (tmp_path / "log.txt").read_text()


def test_a_second_signal_kills_the_children(tmp_path: Path) -> None:
    study = Impatient([job("digits-mlp-adaste", tmp_path, epochs=10_000)], Processes())
    started = time.monotonic()
    (status,) = study.run(study.watch)
    assert (status.state, study.stopped_by) == (State.STOPPED, signal.SIGTERM)
    assert time.monotonic() - started < 10
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_killed_child_and_a_folder_that_cannot_be_made_have_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "python", "kill -KILL $$")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "file").touch()
    jobs = [job("digits-mlp-adaste", tmp_path / "runs"), job("digits-mlp-bop", tmp_path / "file")]
    killed, unmade = Study(jobs, Processes()).run(lambda statuses: None)
    assert (killed.state, killed.problem) == (State.FAILED, "killed by SIGKILL")
    assert RunFolder(jobs[0].folder).read_problem() == "killed by SIGKILL"
    assert unmade.state is State.FAILED and "Not a directory" in (unmade.problem or "")


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels leave children alone")
def test_a_child_does_not_outlive_the_process_that_looks_after_it(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(recipe("digits-mlp-adaste", epochs=100_000).to_json())
    text = (
        "import pathlib, time; from adaste.runs.study.processes import Child; Child(pathlib.Path('.')); time.sleep(100)"
    )
    parent = subprocess.Popen([sys.executable, "-c", text])
    try:
        wait_until(lambda: len(RunFolder(tmp_path).read_records()) > 0)
        assert RunFolder(tmp_path).is_taken()
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not RunFolder(tmp_path).is_taken())


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels leave children alone")
def test_a_child_whose_parent_is_gone_already_does_not_start(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-m", "adaste", "--parent=-1", "list", "recipes"], capture_output=True)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, b"")


def test_children_get_options_variables_and_a_log_whose_last_line_is_the_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "python", 'echo "$@ $EXTRA"; echo "error: of this kind" >&2; exit 1')
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    mine = job("digits-mlp-adaste", tmp_path / "runs")
    processes = Processes(options=["--keep", "3"], variables={"EXTRA": "more"})
    (status,) = Study([mine, mine], processes).run(lambda statuses: None)
    first, last = (mine.folder / "log.txt").read_text().splitlines()
    training = f"train {mine.folder}/recipe.json --folder {mine.folder} --keep 3 more"
    assert first == f"-P -m adaste --parent={os.getpid()} {training}"
    assert (last, status.problem) == ("error: of this kind", "of this kind")


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("result.json", '{"last', "result.json is damaged"),
        ("recipe.json", "{}", "recipe.json holds no recipe"),
        ("recipe.json", recipe("digits-mlp-bop", epochs=7).to_json(), "holds a run of another recipe"),
        ("metrics.jsonl", "half\n", None),
    ],
)
def test_a_damaged_or_foreign_folder_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, content: str, problem: str | None
) -> None:
    program(tmp_path, "python", "exit 0")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    jobs = [job("digits-mlp-bop", tmp_path / "runs"), job("digits-mlp-adaste", tmp_path / "runs")]
    jobs[0].folder.mkdir(parents=True)
    (jobs[0].folder / file).write_text(content)
    damaged, other = Study(jobs, Processes()).run(lambda statuses: None)
    assert other.state is State.DONE
    assert damaged.state is (State.DONE if problem is None else State.FAILED)
    assert problem is None or problem in (damaged.problem or "")


@pytest.mark.parametrize("file", ["metrics.jsonl", "result.json"])
def test_a_run_whose_files_cannot_be_read_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    program(tmp_path, "python", "exit 0")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    jobs = [job("digits-mlp-bop", tmp_path / "runs"), job("digits-mlp-adaste", tmp_path / "runs")]
    (jobs[0].folder / file).mkdir(parents=True)
    unreadable, other = Study(jobs, Processes()).run(lambda statuses: None)
    assert other.state is State.DONE
    assert file in (unreadable.problem or "")


def test_records_of_the_same_moment_are_all_seen(tmp_path: Path) -> None:
    mine = job("digits-mlp-bop", tmp_path)
    small_run(small_recipe(epochs=2), mine.folder)
    path, study = mine.folder / "metrics.jsonl", Study([mine], Processes())
    lines = path.read_text().splitlines(keepends=True)
    for count in (1, 2):
        path.write_text("".join(lines[:count]))
        os.utime(path, (1e9, 1e9))
        assert len(study.statuses()[0].records) == count


def test_the_reason_of_a_failure_is_forgotten_when_the_run_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = job_of_a_child_that("exit 0", tmp_path, monkeypatch)
    RunFolder(mine.folder).write_problem("killed by SIGKILL")
    Study([mine], Processes()).run(lambda statuses: None)
    assert RunFolder(mine.folder).read_problem() is None


def test_a_study_says_nothing_in_a_folder_where_another_process_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = job_of_a_child_that("exit 1", tmp_path, monkeypatch)
    with RunFolder(mine.folder).lock():
        (status,) = Study([mine], Processes()).run(lambda statuses: None)
    assert status.state is State.FAILED
    assert RunFolder(mine.folder).read_problem() is None


def test_runs_that_another_process_trains_are_skipped_with_their_students_and_are_no_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = recipe("digits-mlp-full-precision", epochs=1)
    student = dataclasses.replace(
        recipe("digits-mlp-adaste", epochs=1), distillation=Distillation(teacher=teacher.digest, weight=0.5)
    )
    other = recipe("digits-mlp-bop", epochs=1)
    (tmp_path / "study.json").write_text(f"[{student.to_json()}, {teacher.to_json()}, {other.to_json()}]")
    taken = folder_of("digits-mlp-fullprecision", teacher, tmp_path / "runs")
    taken.mkdir(parents=True)
    with RunFolder(taken).lock():
        assert main(["study", "study.json", "--threads", "1", "--device", "cpu"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "1 done, 2 skipped"
    told = {line.split(",")[0]: line for line in lines}
    assert "skipped after 0/1 epochs: another process trains in" in told["digits-mlp-fullprecision"]
    assert "its teacher is trained by another process: run the same command" in told["digits-mlp-adaste"]
    assert RunFolder(taken).read_problem() is None


def test_a_run_whose_folder_is_removed_stops_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "python", 'case "$6" in *bop*) rm -r "$(dirname "$6")"; exit 3;; esac')
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    jobs = [job("digits-mlp-bop", tmp_path / "runs"), job("digits-mlp-adaste", tmp_path / "runs")]
    removed, other = Study(jobs, Processes()).run(lambda statuses: None)
    assert (removed.state, removed.problem) == (State.FAILED, "exit code 3")
    assert other.state is State.DONE


def test_a_study_needs_processes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one process, got 0"):
        Processes(0)


def test_wrong_seeds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["study", "digits-mlp-bop", "--seeds", "0;1"])
    assert "0,1,2" in capsys.readouterr().err


def test_a_quiet_study_says_nothing_of_what_goes_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["study", "digits-mlp-bop", "--epochs", "1", "--threads", "1", "--device", "cpu", "--quiet"]
    assert main([*arguments, "--seeds", "0,1"]) == 0
    assert main([*arguments, "--set", "batch=5000"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "failed after 0/1 epochs" in told.err and len(told.err.splitlines()) == 1
