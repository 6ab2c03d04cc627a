"""The service that lets runs share a GPU."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from adaste._util.files import BOOT
from adaste.cli import main, options
from adaste.runs.study.processes import shared_gpu
from support.programs import program

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_an_empty_folder")]


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of NVIDIA's; gives the file in which it writes how it was called."""
    log = tmp_path / "calls"
    ask = f'echo "$* [$(cat)] $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY" >> {log}'
    program(tmp_path, "nvidia-cuda-mps-control", ask)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    return log


def test_the_service_has_folders_of_its_own_and_is_stopped_whatever_happens(control: Path) -> None:
    with pytest.raises(KeyError), shared_gpu(print) as variables:
        folders = [variables["CUDA_MPS_PIPE_DIRECTORY"], variables["CUDA_MPS_LOG_DIRECTORY"]]
        assert all(Path(folder).is_dir() for folder in folders)
        assert control.read_text() == f"-d [] {' '.join(folders)}\n"
        raise KeyError
    assert control.read_text().splitlines()[1] == f" [quit] {' '.join(folders)}"
    assert not any(Path(folder).exists() for folder in folders)


STUDY = """
import sys
from adaste.runs.study.processes import PIPES, shared_gpu
with shared_gpu(print) as variables:
    print(variables[PIPES], flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(not BOOT.exists(), reason="this kernel does not name its starts")
def test_the_next_study_stops_the_service_of_a_killed_one_and_not_that_of_a_live_one(
    control: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said: list[str] = []

    def study() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", STUDY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with study() as first, study() as second:
        killed, live = (Path(one.stdout.readline().strip()) for one in (first, second))
        first.kill()
        first.wait()
        assert killed.is_dir() and "quit" not in control.read_text()
        with shared_gpu(said.append):
            quits = [line for line in control.read_text().splitlines() if "quit" in line]
            assert quits == [f" [quit] {killed} {killed.with_name('logs')}"]
            assert not killed.parent.exists() and live.is_dir()
            assert said == ["stopped the nvidia-cuda-mps-control of a study that was killed"]
    assert not list(tmp_path.glob("adaste-mps-*"))


def test_without_the_program_or_beside_a_running_service_none_is_started(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/somewhere")
    with shared_gpu(print) as variables:
        assert variables == {}
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY")
    monkeypatch.setenv("PATH", "/nowhere")
    with shared_gpu(print) as variables:
        assert variables == {}
    assert not control.exists()


def test_a_service_that_does_not_start_is_reported_and_done_without(control: Path, tmp_path: Path) -> None:
    program(tmp_path, "nvidia-cuda-mps-control", "echo An instance is already running; exit 1")
    said: list[str] = []
    with shared_gpu(said.append) as variables:
        assert variables == {}
    (line,) = said
    assert "An instance is already running" in line and "take turns" in line


@pytest.mark.parametrize(("arguments", "calls"), [(["--processes", "2"], 2), (["--processes", "2", "--no-mps"], 0)])
def test_runs_that_share_a_gpu_get_the_service(
    control: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], calls: int
) -> None:
    import torch

    monkeypatch.setattr(options, "device_named", lambda name: torch.device("cuda"))
    program(tmp_path, "python", 'echo "pipes: $CUDA_MPS_PIPE_DIRECTORY"; exit 1')
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main(["study", "digits-mlp-bop", "--device", "cuda", *arguments]) == 1
    assert len(control.read_text().splitlines() if control.exists() else []) == calls
    (log,) = tmp_path.glob("runs/*/log.txt")
    assert ("adaste-mps-" in log.read_text()) == (calls > 0)
