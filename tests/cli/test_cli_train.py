"""`adaste train`: what it prints, leaves behind and refuses, alone and among several processes."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

import adaste
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import RunFolder

pytestmark = pytest.mark.slow


def test_away_from_a_terminal_a_run_is_a_few_lines_and_a_finished_one_is_not_run_again(call, tmp_path: Path) -> None:
    code, out, err = call("train", "digits-mlp-adaste", "--epochs", "2")
    first, *epochs, last = out.splitlines()
    assert [line.split("  ")[0] for line in epochs] == ["epoch 1/2", "epoch 2/2"]
    (folder,) = (tmp_path / "runs").iterdir()
    assert (code, err) == (0, "")
    assert "AdaSTE" in first and "digits" in first and "2 epochs" in first
    result = RunFolder(folder).read_result()
    assert f"{result.last_accuracy:.2f} %" in last and str(folder.relative_to(tmp_path)) in last
    assert folder.name == f"digits-mlp-adaste-{Recipe.from_json((folder / 'recipe.json').read_text()).digest}"
    before = (folder / "result.json").stat().st_mtime_ns
    code, out, _ = call("train", "digits-mlp-adaste", "--epochs", "2")
    assert code == 0 and "is finished" in out and out.splitlines()[-1] == last
    assert (folder / "result.json").stat().st_mtime_ns == before


def test_a_quiet_run_says_nothing_but_errors(call) -> None:
    assert call("train", "digits-mlp-adaste", "--epochs", "1", "--folder", "run", "--quiet") == (0, "", "")
    assert call("train", "digits-mlp-adaste", "--epochs", "1", "--folder", "run", "--quiet") == (0, "", "")
    code, out, err = call("train", "digits-mlp-bop", "--folder", "run", "--quiet")
    assert (code, out) == (1, "") and "another recipe" in err


def test_options_reach_the_run(call, tmp_path: Path) -> None:
    options = ["--keep", "3", "--save-every", "0", "--deterministic", "--engine", "eager", "--threads", "1"]
    assert call("train", "digits-mlp-adaste", "--epochs", "2", "--folder", "here", *options)[0] == 0
    (start,) = json.loads((tmp_path / "here" / "environment.json").read_text())
    assert (start["deterministic"], start["engine"], start["threads"]) == (True, "eager", 1)
    assert len(list((tmp_path / "here" / "checkpoints").iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mnist-mlp-adaste"], ["mnist was not found", "adaste data get mnist"]),
        (["digits-mlp-adaste", "--device", "cuda:99"], ["cuda:99", "CUDA devices"]),
        (["digits-mlp-adaste", "--device", "gpu"], ["device must be", "'gpu'"]),
        (["digits-mlp-full-precision", "--set", "base.lr=1e30"], ["diverged in epoch 1"]),
        (["digits-mlp-adaste", "--set", "holdout=5000"], ["holdout", "1297"]),
        (["digits-mlp-adaste", "--folder", "file"], ["file"]),
    ],
)
def test_a_run_that_cannot_be_made_ends_in_one_clear_line(call, tmp_path: Path, arguments, words) -> None:
    (tmp_path / "file").touch()
    code, _, err = call("train", *arguments)
    assert code == 1
    assert len(err.splitlines()) == 1 and err.startswith("error: ")
    assert all(word in err for word in words), err


@pytest.mark.parametrize("command", ["train", "study"])
def test_a_run_learns_from_the_teacher_in_the_folder_it_is_told(call, tmp_path: Path, command: str) -> None:
    assert call("train", "digits-mlp-full-precision", "--epochs", "1", "--runs", "teachers", "--quiet")[0] == 0
    (teacher,) = (tmp_path / "teachers").iterdir()
    digest = RunFolder(teacher).read_recipe().digest
    student = ["digits-mlp-adaste", "--epochs", "1", "--set", "distillation=Distillation"]
    student += ["--set", f"distillation.teacher={digest}", "--quiet"]
    code, _, err = call(command, *student)
    assert code == 1 and f"no run of the recipe {digest} was found in" in err
    assert call(command, *student, "--teachers", "teachers") == (0, "", "")
    (run,) = map(RunFolder, (tmp_path / "runs").iterdir())
    assert run.read_starts()[-1]["teacher"] == RunFolder(teacher).read_result().last_sha256


def test_a_folder_of_another_recipe_and_a_folder_in_use_are_refused(call, trained: Path, tmp_path: Path) -> None:
    code, _, err = call("train", "digits-mlp-bop", "--folder", str(trained))
    assert code == 1 and "another recipe" in err
    (tmp_path / "used").mkdir()
    with (tmp_path / "used" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = call("train", "digits-mlp-bop", "--folder", "used")
    assert code == 75 and "another process trains" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_so_and_goes_on_when_started_again(call, tmp_path: Path, number: int) -> None:
    arguments = ["train", "digits-mlp-adaste", "--epochs", "40", "--folder", "run"]
    metrics = tmp_path / "run" / "metrics.jsonl"

    def send() -> None:
        while not (metrics.exists() and metrics.read_text().count("\n") > 2):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()
    code, out, err = call(*arguments)
    assert code == 128 + number
    assert all(line.startswith("epoch ") for line in out.splitlines()[1:])
    assert "saved: run the same command again to resume" in err and len(err.splitlines()) == 1
    assert RunFolder(tmp_path / "run").read_result() is None
    code, out, _ = call(*arguments)
    assert code == 0 and "going on in epoch" in out
    assert [record.epoch for record in RunFolder(tmp_path / "run").read_records()] == list(range(40))


def test_two_processes_of_torchrun_train_one_network_and_one_of_them_speaks(tmp_path: Path, data_folder: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "adaste"]
    arguments = ["train", "digits-mlp-adaste", "--epochs", "2", "--folder", "run", "--data", str(data_folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(adaste.__file__).parents[1])}
    done = subprocess.run([*torchrun, *arguments], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    assert f"{RunFolder(tmp_path / 'run').read_result().last_accuracy:.2f} %" in done.stdout
    (start,) = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert start["processes"] == 2


def test_tensorboard_that_is_not_installed_is_asked_for(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, err = call("train", "digits-mlp-adaste", "--tensorboard")
    assert code == 1 and "pip install '.[tensorboard]'" in err and "adaste[" not in err


def test_tensorboard_gets_a_scalar_per_number_and_epoch(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []
    closed: list[object] = []

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int) -> None:
            assert (folder, purge_step) == (str(Path("run") / "tensorboard"), 0)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def flush(self) -> None: ...

        def close(self) -> None:
            closed.append(self)

    package = ModuleType("torch.utils.tensorboard")
    package.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", package)
    arguments = ["--tensorboard", "--epochs", "2", "--folder", "run"]
    assert call("train", "digits-mlp-adaste-annealed", *arguments)[0] == 0
    for record in RunFolder(tmp_path / "run").read_records():
        assert ("test_accuracy", record.test_accuracy, record.epoch) in written
        assert ("method/mu", record.method["mu"], record.epoch) in written
    assert not [name for name, _, _ in written if name == "holdout_accuracy"]
    assert len(closed) == 1
