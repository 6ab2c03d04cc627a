"""Studies on a Ray cluster: a real one of this machine, which may lose a node."""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from ray_cluster import processes_in
from small_runs import outcome, small_run

import adaste
from adaste import connecting
from adaste.cli import main
from adaste.cli.study import _gpu_share
from adaste.cluster import RETRIES, Cluster
from adaste.connecting import connected
from adaste.data import load
from adaste.locks import alone_in
from adaste.nodes import Work, make
from adaste.recipes import recipe
from adaste.results import read_records, read_result
from adaste.runs import USUAL
from adaste.studies import Job, State, Status, Study, folder_of

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs the package ray")

ONE_THREAD = ["--threads", "1", "--device", "cpu"]


class Nodes:
    """The process in tests/ray_cluster.py."""

    def __init__(self, folder: str) -> None:
        source = Path(adaste.__file__).parents[1]
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("ray_cluster.py"))],
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


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADASTE_DATA", str(tmp_path))


def job(runs: Path, epochs: int = 2, seed: int = 0) -> Job:
    made = recipe("digits-mlp-adaste", epochs=epochs, seed=seed)
    return Job("digits", made, folder_of("digits", made, runs))


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def soon(act: Callable[[], None]) -> None:
    """Act beside a study. If that fails, the study ends, and the test with it."""

    def run() -> None:
        try:
            act()
        except BaseException:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
            raise

    threading.Thread(target=run, daemon=True).start()


def starts_of(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "environment.json").read_text()))


def test_a_run_whose_node_is_lost_goes_on_elsewhere_and_gives_the_same_bits(
    tmp_path: Path, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [job(tmp_path / "runs", epochs=30, seed=seed) for seed in (0, 1)]
    (tmp_path / "digits.json").write_text(jobs[0].recipe.to_json())

    def lose_the_node_of_the_first_when_it_has_saved() -> None:
        wait_until(lambda: len(list(jobs[0].folder.glob("checkpoints/*.pt"))) == 2)
        nodes.ask(f"lose {jobs[0].folder}")

    nodes.ask("add")
    soon(lose_the_node_of_the_first_when_it_has_saved)
    chosen = ["study", "digits.json", "--seeds", "0,1", "--save-every", "0.2"]
    assert main([*chosen, "--ray", nodes.address, *ONE_THREAD]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split(":")[0] for line in lines) == ["digits, seed 0", "digits, seed 1"]  # and nothing of Ray's
    assert [start["from_epoch"] > 0 for start in starts_of(jobs[0].folder)] == [False, True]
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
    lines = sorted(capsys.readouterr().out.splitlines())
    assert [line.split(",")[0] for line in lines] == ["digits-mlp-adaste", "digits-mlp-bop", "mnist-mlp-adaste"]
    assert "after 1 epochs" in lines[0] and "after 1 epochs" in lines[1]
    assert f"failed after 0/1 epochs: mnist was not found in {tmp_path}" in lines[2]
    folders = {path.name.rsplit("-", 1)[0]: path for path in (tmp_path / "runs").iterdir()}
    assert read_result(folders["digits-mlp-adaste"]) is not None
    assert not (folders["digits-mlp-bop"] / "log.txt").exists()


def test_a_signal_lets_runs_save_and_a_second_one_kills_them(tmp_path: Path, nodes: Nodes) -> None:
    jobs = [job(tmp_path, epochs=10_000, seed=seed) for seed in (0, 1)]
    before = signal.getsignal(signal.SIGTERM)
    with connected(nodes.address) as cluster:
        study = Study(jobs, Cluster(cluster, options=ONE_THREAD))
        soon(lambda: signal_when_running(jobs[0]))
        first, second = study.run(lambda statuses: None)
        assert (first.state, second.state, study.stopped_by) == (State.STOPPED, State.STOPPED, signal.SIGTERM)
        assert "saved: start it again" in (jobs[0].folder / "log.txt").read_text()
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
    wait_until(lambda: len(read_records(job.folder)) > 2)
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
    assert read_result(mine.folder) is not None and "digits" in (mine.folder / "log.txt").read_text()
    assert [record.epoch for record in read_records(mine.folder)] == list(range(30))
    assert list(mine.folder.glob("checkpoints/*.pt")) and (mine.folder / "last.safetensors").exists()


# --- what a node does, in this process


class Posts:
    """A board that nobody asks."""

    def __init__(self) -> None:
        self.post, self.posted = self, list[tuple[Path, bytes | None]]()

    def remote(self, folder: Path, records: bytes | None) -> None:
        self.posted.append((folder, records))


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program in the place of `adaste train`; it is in the folder of its run."""

    def write(text: str) -> None:
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\ncd "$(dirname "$5")"\n{text}\n')
        path.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(path))

    return write


def test_a_node_that_does_not_see_the_folder_works_elsewhere_and_returns_all_files(
    tmp_path: Path, child: Callable[[str], None]
) -> None:
    left_behind = "touch .lock .two.12.0123abcd.tmp"
    child(
        f"mkdir checkpoints; echo 1 > checkpoints/one; {left_behind}; cat recipe.json; echo 3 > metrics.jsonl; sleep 1"
    )
    board, folder = Posts(), tmp_path / "elsewhere"
    made = make(Work(folder, ".mark", "{}\n"), board)
    assert made.ending.code == 0
    assert made.files == {
        "checkpoints/one": b"1\n",
        "log.txt": b"{}\n",
        "metrics.jsonl": b"3\n",
        "recipe.json": b"{}\n",
    }
    assert board.posted[-1] == (folder, b"3\n")
    assert not folder.exists()


@pytest.fixture(params=[False, True], ids=["heeded", "ignored"])
def interrupts(request: pytest.FixtureRequest) -> Iterator[None]:
    """As in a node that was started at a terminal, and as in one that a script has started in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if request.param else signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_a_node_lets_its_child_save_when_it_is_interrupted(tmp_path: Path, child: Callable[[str], None]) -> None:
    child("trap 'echo saved; exit 143' TERM; touch ready; while :; do sleep 0.05; done")
    (tmp_path / ".mark").touch()

    def interrupt() -> None:
        wait_until((tmp_path / "ready").exists)
        os.kill(os.getpid(), signal.SIGINT)

    soon(interrupt)
    board = Posts()
    made = make(Work(tmp_path, ".mark", ""), board)
    assert (made.ending.code, made.ending.problem, made.files) == (143, "saved", {})
    assert board.posted[0] == (tmp_path, None)


def test_a_node_waits_for_the_folder_of_a_run_that_is_still_ending(
    tmp_path: Path, child: Callable[[str], None]
) -> None:
    child("exit 0")
    (tmp_path / ".mark").touch()
    freed = list[float]()

    def hold() -> None:
        with alone_in(tmp_path):
            held.set()
            time.sleep(0.6)
            freed.append(time.monotonic())

    held = threading.Event()
    soon(hold)
    held.wait()
    assert make(Work(tmp_path, ".mark", ""), Posts()).ending.code == 0
    assert freed and not (time.monotonic() < freed[0])


# --- addresses and options


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command says, in one line."""
    assert main(["study", "digits-mlp-bop", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_an_address_where_nothing_or_something_else_answers_is_refused_soon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connecting.PATIENCE <= 5
    monkeypatch.setattr(connecting, "PATIENCE", 2.0)
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert f"what answers at 127.0.0.1:{port} is not Ray" in refused(capsys, "--ray", f"127.0.0.1:{port}")
    assert f"nothing answers at 127.0.0.1:{port}" in refused(capsys, "--ray", f"127.0.0.1:{port}")
    assert time.monotonic() - started < 10


def test_a_client_server_is_asked_for_one_connection_which_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay("asked = []\ndef init(address, **options):\n    asked.append(address)\n")
    monkeypatch.setitem(sys.modules, "ray", ray)
    for name in connecting.CLIENT_PATIENCE:
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"ray://127.0.0.1:{server.getsockname()[1]}"
        with connected(address):
            assert vars(ray)["asked"] == [address]
    assert all(3 * int(os.environ[name]) < 10 for name in connecting.CLIENT_PATIENCE)  # it tries three times


def test_what_ray_says_of_an_address_is_passed_on_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = "def init(*address, **options):\n    raise RuntimeError('Version mismatch:\\n  Ray: 1.0\\n  Ray: 2.0\\n')\n"
    (tmp_path / "ray.py").write_text(fake)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = "error: no connection to Ray at auto: Version mismatch: Ray: 1.0 Ray: 2.0"
    assert refused(capsys, "--ray", "auto") == said
    monkeypatch.setattr(connecting, "_check_answer", lambda address: None)
    monkeypatch.setitem(sys.modules, "ray", FakeRay(fake))
    assert refused(capsys, "--ray", "auto") == said


def test_without_the_package_the_error_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'adaste[ray]'" in refused(capsys, "--ray", "auto")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ray", "elsewhere"], "must be HOST:PORT, ray://HOST:PORT or auto, got 'elsewhere'"),
        (["--ray", "auto", "--processes", "2"], "--processes is for one machine"),
        (["--gpu-share", "0.5"], "--gpu-share is for clusters"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in refused(capsys, *arguments)


class FakeRay:
    """A module with this text, and what else is asked of one that is not connected."""

    def __init__(self, text: str) -> None:
        exec(text, self.__dict__)

    def is_initialized(self) -> bool:
        return False

    def shutdown(self) -> None: ...


def test_a_process_that_is_connected_already_is_not_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = MagicMock()
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(RuntimeError, match="connected to Ray already"), connected("auto"):
        pass
    assert not ray.shutdown.called


class Recorder:
    """In the place of Ray: remembers what was asked of it."""

    def __init__(self, *nodes: dict[str, float]) -> None:
        self.asked: list[dict[str, float]] = []
        self._nodes = nodes

    def remote(self, **asked: float) -> MagicMock:
        self.asked.append(asked)
        return MagicMock()

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": node} for node in self._nodes]


def test_a_run_takes_its_share_of_a_node() -> None:
    fake = Recorder({"CPU": 8}, {"CPU": 2, "GPU": 1})
    assert Cluster(fake, gpu_share=0.25, cpus=2).can_run
    assert fake.asked[0] == {"num_cpus": 2, "num_gpus": 0.25, "max_retries": RETRIES}
    assert not Cluster(fake, gpu_share=0.25, cpus=3).can_run
    assert Cluster(fake, cpus=8).can_run
    with pytest.raises(ValueError, match="gpu_share"):
        Cluster(fake, gpu_share=2)
    with pytest.raises(ValueError, match="cpus"):
        Cluster(fake, cpus=0)


@pytest.mark.parametrize(
    ("device", "given", "has_gpus", "share"),
    [
        ("auto", None, True, 1),
        ("auto", None, False, 0),
        ("cpu", None, True, 0),
        ("cuda", None, False, 1),
        ("auto", 0.25, False, 0.25),
    ],
)
def test_runs_get_a_gpu_where_there_are_some(device: str, given: float | None, has_gpus: bool, share: float) -> None:
    assert _gpu_share(argparse.Namespace(device=device, gpu_share=given), has_gpus) == share


@pytest.mark.parametrize(
    ("device", "given", "words"),
    [("cuda:1", None, "where Ray counts"), ("cpu", 0.5, "share of 0.5"), ("cuda", 0.0, "share of 0")],
)
def test_devices_that_contradict_the_share_are_refused(device: str, given: float | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _gpu_share(argparse.Namespace(device=device, gpu_share=given), has_gpus=True)
