"""Connecting to a Ray cluster, or saying soon why that cannot be done."""

import os
import re
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from adaste._util.extras import needs

ADDRESS = re.compile(r"auto|(?:ray://)?(?P<host>[^\s/:]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")

ANSWER = 2.0
"""Seconds for somebody to answer at an address."""

PATIENCE = 10.0
"""Seconds for a cluster to connect this process."""

NONE_FOUND = "Could not find any running Ray instance"
"""Ray's error for the address auto if no cluster runs; it goes on with advice on options of its own commands."""

SETTINGS = MappingProxyType({"RAY_DEDUP_LOGS_SKIP_REGEX": ".", "RAY_gcs_rpc_server_connect_timeout_s": "30"})
"""Else Ray prints into our table what it has to say of nodes, and beside our error that it cannot connect yet."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster at an address as ray.init takes it: HOST:PORT, ray://HOST:PORT or auto.

    Raises:
        ValueError: The address is none.
        ConnectionError: There is no cluster, within PATIENCE seconds.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    with needs("ray", extra="ray", purpose="a study on a cluster"):
        import ray
    if ray.is_initialized():
        raise RuntimeError("this process is connected to Ray already: call ray.shutdown() before")
    _check_answer(address)
    try:
        _init(ray, address)
        yield ray
    finally:
        ray.shutdown()


def _check_answer(address: str) -> None:
    parts = ADDRESS.fullmatch(address)
    if parts is None:
        raise ValueError(f"the address of a cluster must be HOST:PORT, ray://HOST:PORT or auto, got {address!r}")
    if parts["host"]:
        try:
            socket.create_connection((parts["host"].strip("[]"), int(parts["port"])), ANSWER).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"nothing answers at {address} ({error}): is Ray running there?") from error


def _init(ray: Any, address: str) -> None:
    """Call ray.init with a time-out, which it lacks: it waits for minutes if something else than Ray answers.

    It runs in a thread of its own, where it also leaves SIGTERM to this process.
    """
    errors: list[Exception] = []

    def init() -> None:
        try:
            ray.init(address, log_to_driver=False, logging_level="CRITICAL")
        except Exception as error:  # of many kinds
            errors.append(error)

    thread = threading.Thread(target=init, name="adaste-ray-init", daemon=True)
    with warnings.catch_warnings(action="ignore"):  # what is wrong, the error says
        thread.start()
        thread.join(PATIENCE)
    if thread.is_alive():
        raise ConnectionError(f"what answers at {address} is not Ray, or too busy to say so")
    for error in errors:
        said = " ".join(str(error).split()) or type(error).__name__
        if NONE_FOUND in said:
            raise ConnectionError(
                "no Ray cluster runs on this machine: `ray start --head` starts one, and --ray HOST:PORT names another"
            ) from error
        raise ConnectionError(f"no connection to Ray at {address}: {said}") from error
