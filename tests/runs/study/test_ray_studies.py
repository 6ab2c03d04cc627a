"""Studies on a Ray cluster: a real one of this machine, which may lose a node."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import adaste
from adaste.cli import main
from adaste.data import load
from adaste.recipes.presets import recipe
from adaste.runs.folder import RunFolder
from adaste.runs.run import USUAL
from adaste.runs.study.ray_runner import Cluster, connected
from adaste.runs.study.study import Job, State, Status, Study, folder_of
from support.ray_cluster import processes_in
from support.small_runs import outcome, small_run
from support.waiting import soon, wait_until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the package ray"),
    pytest.mark.usefixtures("in_an_empty_folder"),
]

ONE_THREAD = ["--threads", "1", "--device", "cpu"]


class Nodes:
    """The process in ray_cluster.py."""

    def __init__(self, folder: str) -> None:
        source = Path(adaste.__file__).parents[1]
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parents[2] / "support" / "ray_cluster.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source), "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"},
            process_group=0,
        )
        self.address = self._answer()
        self.ask("add")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the cluster has ended"
        return line

    def ask(self, command: str) -> None:
        assert self._process.stdin is not None
        print(command, file=self._process.stdin, flush=True)
        assert self._answer() == "done"

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    # In /tmp: the names of Ray's sockets are as long as they can be.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        cluster = Nodes(folder)
        try:
            yield cluster
        finally:
            cluster.end()


def job(runs: Path, epochs: int = 2, seed: int = 0) -> Job:
    made = recipe("digits-mlp-adaste", epochs=epochs, seed=seed)
    return Job("digits", made, folder_of("digits", made, runs))


def starts_of(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "environment.json").read_text()))


def test_a_run_whose_node_is_lost_goes_on_elsewhere_and_gives_the_same_bits(
    tmp_path: Path, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [job(tmp_path / "runs", epochs=120, seed=seed) for seed in (0, 1)]
    (tmp_path / "digits.json").write_text(jobs[0].recipe.to_json())

    def lose_the_node_of_the_first_when_it_has_saved() -> None:
        wait_until(lambda: len(list(jobs[0].folder.glob("checkpoints/*.pt"))) == 2)
        nodes.ask(f"lose {jobs[0].folder}")

    nodes.ask("add")
    soon(lose_the_node_of_the_first_when_it_has_saved)
    chosen = ["study", "digits.json", "--seeds", "0,1", "--save-every", "0.2"]
    assert main([*chosen, "--ray", nodes.address, *ONE_THREAD]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = sorted(line.split(":")[0] for line in lines if ":" in line)
    assert told == ["digits, 2 seeds", "digits, seed 0", "digits, seed 1"]
    assert all("waiting" in line or "running" in line or "done" in line for line in lines if ":" not in line)  # no Ray
    resumed = [(start["from_epoch"], start["from_step"]) > (0, 0) for start in starts_of(jobs[0].folder)]
    assert resumed == [False, True]
    assert len(starts_of(jobs[1].folder)) == 1
    small_run(jobs[0].recipe, tmp_path / "local", load("digits"), USUAL)
    assert outcome(jobs[0].folder) == outcome(tmp_path / "local")
    assert not list((tmp_path / "runs").rglob(".study-*"))


def test_what_is_finished_is_skipped_and_a_failure_stops_nobody_else(
    tmp_path: Path, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.json").write_text('["mnist-mlp-adaste", "digits-mlp-adaste", "digits-mlp-bop"]')
    assert main(["train", "digits-mlp-bop", "--epochs", "1"]) == 0
    capsys.readouterr()
    assert main(["study", "study.json", "--epochs", "1", "--ray", nodes.address, *ONE_THREAD]) == 1
    lines = sorted(line for line in capsys.readouterr().out.splitlines() if ":" in line)
    assert [line.split(",")[0] for line in lines] == ["digits-mlp-adaste", "digits-mlp-bop", "mnist-mlp-adaste"]
    assert "after 1 epochs" in lines[0] and "after 1 epochs" in lines[1]
    assert f"failed after 0/1 epochs: mnist was not found in {tmp_path}" in lines[2]
    folders = {path.name.rsplit("-", 1)[0]: path for path in (tmp_path / "runs").iterdir()}
    assert RunFolder(folders["digits-mlp-adaste"]).read_result() is not None
    assert not (folders["digits-mlp-bop"] / "log.txt").exists()


def test_a_signal_lets_runs_save_and_a_second_one_kills_them(tmp_path: Path, nodes: Nodes) -> None:
    jobs = [job(tmp_path, epochs=10_000, seed=seed) for seed in (0, 1)]
    before = signal.getsignal(signal.SIGTERM)
    with connected(nodes.address) as cluster:
        study = Study(jobs, Cluster(cluster, options=ONE_THREAD))
        soon(lambda: signal_when_running(jobs[0]))
        first, second = study.run(lambda statuses: None)
        assert (first.state, second.state, study.stopped_by) == (State.STOPPED, State.STOPPED, signal.SIGTERM)
        assert "saved: run the same command" in (jobs[0].folder / "log.txt").read_text()
        assert list(jobs[0].folder.glob("checkpoints/*.pt")) and not starts_exist(jobs[1])

        def impatient(statuses: list[Status]) -> None:
            if statuses[0].state is State.RUNNING:
                os.kill(os.getpid(), signal.SIGTERM)

        study = Study(jobs[:1], Cluster(cluster, options=ONE_THREAD))
        (status,) = study.run(impatient)
        assert (status.state, study.stopped_by) == (State.STOPPED, signal.SIGTERM)
        wait_until(lambda: not processes_in(str(jobs[0].folder)))
    assert signal.getsignal(signal.SIGTERM) is before


def signal_when_running(job: Job) -> None:
    wait_until(lambda: len(RunFolder(job.folder).read_records()) > 2)
    os.kill(os.getpid(), signal.SIGTERM)


def starts_exist(job: Job) -> bool:
    return (job.folder / "environment.json").exists()


def test_results_come_back_from_nodes_that_do_not_share_the_folder(
    tmp_path: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "touch", lambda path: None)  # the mark by which nodes know the folder
    mine, seen = job(tmp_path, epochs=30), list[tuple[State, int]]()
    with connected(nodes.address) as cluster:
        study = Study([mine], Cluster(cluster, options=ONE_THREAD))
        (status,) = study.run(lambda statuses: seen.append((statuses[0].state, len(statuses[0].records))))
    assert status.state is State.DONE
    assert seen[0] == (State.WAITING, 0)
    assert any(state is State.RUNNING and 0 < count < 30 for state, count in seen)
    assert RunFolder(mine.folder).read_result() is not None and "digits" in (mine.folder / "log.txt").read_text()
    assert [record.epoch for record in RunFolder(mine.folder).read_records()] == list(range(30))
    assert list(mine.folder.glob("checkpoints/*.pt")) and (mine.folder / "last.safetensors").exists()
