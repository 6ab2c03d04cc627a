"""How studies find a Ray cluster and what they ask of it: addresses, options, shares of nodes."""

import argparse
import socket
import sys
import time
from importlib.util import find_spec
from typing import Any
from unittest.mock import MagicMock

import pytest

from adaste.cli import main
from adaste.cli.study import _gpu_share
from adaste.runs.study import ray_runner
from adaste.runs.study.ray_runner import RETRIES, Cluster, connected

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the package ray"),
    pytest.mark.usefixtures("in_an_empty_folder"),
]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command says, in one line."""
    assert main(["study", "digits-mlp-bop", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.slow
def test_an_address_where_nothing_or_something_else_answers_is_refused_soon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ray_runner.PATIENCE <= 10
    monkeypatch.setattr(ray_runner, "PATIENCE", 2.0)
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert f"what answers at 127.0.0.1:{port} is not Ray" in refused(capsys, "--ray", f"127.0.0.1:{port}")
    assert f"nothing answers at 127.0.0.1:{port}" in refused(capsys, "--ray", f"127.0.0.1:{port}")
    assert time.monotonic() - started < 10


class FakeRay:
    """In the place of Ray: notes to what it is connected, or raises an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.addresses: list[str] = []
        self._error = error

    def is_initialized(self) -> bool:
        return False

    def init(self, address: str, **options: Any) -> None:
        self.addresses.append(address)
        if self._error is not None:
            raise self._error

    def shutdown(self) -> None: ...


@pytest.mark.parametrize("kind", ["", "ray://"])
def test_ray_is_asked_once_for_a_connection_to_the_address(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"{kind}127.0.0.1:{server.getsockname()[1]}"
        with connected(address) as found:
            assert found is ray
    assert ray.addresses == [address]


def test_what_ray_says_of_an_address_is_passed_on_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", FakeRay(RuntimeError("Version mismatch:\n  Ray: 1.0\n  Ray: 2.0\n")))
    said = "error: no connection to Ray at auto: Version mismatch: Ray: 1.0 Ray: 2.0"
    assert refused(capsys, "--ray", "auto") == said


def test_where_no_cluster_runs_the_advice_is_about_options_there_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = "Please specify the one to connect to by setting `--address` flag"
    error = ConnectionError(f"Could not find any running Ray instance. {advice}")
    monkeypatch.setitem(sys.modules, "ray", FakeRay(error))
    assert refused(capsys, "--ray", "auto") == (
        "error: no Ray cluster runs on this machine: `ray start --head` starts one, and --ray HOST:PORT names another"
    )


def test_without_the_package_the_error_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install '.[ray]'" in refused(capsys, "--ray", "auto")


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
