"""Connecting to a Ray cluster, or saying soon why that cannot be done."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from adaste._util.extras import needs

ADDRESS = re.compile(r"auto|(?:ray://)?(?P<host>[^\s/:]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")

PATIENCE = 5.0
"""Seconds for a cluster to answer."""

CLIENT = "ray://"
"""Begins the address of a server that connects for its clients, which takes it seconds; they give up by themselves."""

CLIENT_PATIENCE = MappingProxyType(
    {"RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2", "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "2"}
)
"""Seconds, as Ray's client reads them: so long it waits for an answer, three times."""

NONE_FOUND = "Could not find any running Ray instance"
"""What Ray says of auto where none runs; it goes on with advice on options of its own commands."""

QUIET = "RAY_DEDUP_LOGS_SKIP_REGEX"
"""Ray prints into our table what it has to say of nodes, unless it is told which lines to leave out."""

PROBE = """
import sys, ray
print(flush=True)
try:
    ray.init(sys.argv[1], log_to_driver=False, logging_level="CRITICAL")
except Exception as error:
    sys.exit(" ".join(str(error).split()) or type(error).__name__)
"""
"""A process of its own connects first, since ray.init waits for minutes where something else than Ray answers."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster at an address as ray.init takes it: HOST:PORT, ray://HOST:PORT or auto.

    ConnectionError says why not, within ten seconds.
    """
    ray = _ray()
    if ray.is_initialized():
        raise RuntimeError("this process is connected to Ray already: call ray.shutdown() before")
    _check_answer(address)
    try:
        with _own_sigterm():
            _init(ray, address)
        yield ray
    finally:
        ray.shutdown()


def _init(ray: Any, address: str) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):  # what is wrong, the error says
            ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # of many kinds, often in many lines
        raise ConnectionError(f"no connection to Ray at {address}: {' '.join(str(error).split())}") from error


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and does not give it back."""
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, before)


def _ray() -> Any:
    for name, value in {QUIET: ".", **CLIENT_PATIENCE}.items():
        os.environ.setdefault(name, value)
    with needs("ray", extra="ray", purpose="a study on a cluster"):
        import ray
    return ray


def _check_answer(address: str) -> None:
    parts = ADDRESS.fullmatch(address)
    if parts is None:
        raise ValueError(f"the address of a cluster must be HOST:PORT, ray://HOST:PORT or auto, got {address!r}")
    if parts["host"]:
        try:
            socket.create_connection((parts["host"].strip("[]"), int(parts["port"])), PATIENCE / 3).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"nothing answers at {address} ({error}): is Ray running there?") from error
    if not address.startswith(CLIENT):
        _check_that_it_is_ray(address)


def _check_that_it_is_ray(address: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", PROBE, address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as probe:
        try:
            _wait_for(probe, address)
        finally:
            probe.kill()


def _wait_for(probe: "subprocess.Popen[str]", address: str) -> None:
    assert probe.stdout is not None
    probe.stdout.readline()  # it is ready: how long that takes says nothing of the address
    try:
        _, said = probe.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise ConnectionError(f"what answers at {address} is not Ray, or too busy to say so") from error
    if probe.returncode:
        if NONE_FOUND in said:
            raise ConnectionError(
                "no Ray cluster runs on this machine: `ray start --head` starts one, and --ray HOST:PORT names another"
            )
        lines = [line for line in said.splitlines() if line.strip()] or [f"exit code {probe.returncode}"]
        raise ConnectionError(f"no connection to Ray at {address}: {lines[-1]}")
