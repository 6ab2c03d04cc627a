"""Runs of a study on a Ray cluster: the connection, and runs that go on elsewhere when a node is lost."""

import math
import os
import re
import secrets
import signal
import socket
import threading
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from adaste._util.checks import require, require_count
from adaste._util.packages import require_package
from adaste.runs.folder import RunFolder
from adaste.runs.study.processes import NO_VARIABLES, Ending
from adaste.runs.study.ray_worker import Board, Made, Work, make
from adaste.runs.study.study import Job

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
    with require_package("ray", extra="ray", purpose="a study on a cluster"):
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


RETRIES = 100
"""How many nodes a run may lose."""

SILENCE = 10.0
"""Seconds without news after which a run counts as waiting: its node is lost."""

ON_THE_HEAD = {"node:__internal_head__": 0.001}
"""A resource that only the head node has."""


class Cluster:
    """Runs as tasks of a connected Ray cluster, which starts each as soon as a node has room for it.

    Args:
        ray: The module, connected (`connected`).
        gpu_share: The share of a GPU for each run: with 0.25, four share one. 0 for runs on CPUs.
        cpus: The number of CPUs for each run.
        options: The options of each Child.
        variables: The environment variables of each Child.
    """

    def __init__(
        self,
        ray: Any,
        *,
        gpu_share: float = 0.0,
        cpus: int = 1,
        options: Sequence[str] = (),
        variables: Mapping[str, str] = NO_VARIABLES,
    ) -> None:
        require("gpu_share", gpu_share, least=0, most=1)
        require_count("cpus", cpus, least=1)
        self._ray, self._needs = ray, {"GPU": gpu_share, "CPU": cpus}
        self._options, self._variables = tuple(options), dict(variables)
        self._make = ray.remote(num_cpus=cpus, num_gpus=gpu_share, max_retries=RETRIES)(make)
        self._board = ray.remote(num_cpus=0, resources=ON_THE_HEAD, max_restarts=-1)(Board).remote()
        self._question = self._board.take.remote()
        self._mark = f".study-{secrets.token_hex(8)}"
        self._tasks: dict[Path, Any] = {}
        self._heard: dict[Path, float] = {}
        self._stopped = False

    @property
    def can_run(self) -> bool:
        """Whether a node is large enough for a run; else runs wait until such a node joins."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return any(all(node.get(name, 0) >= need for name, need in self._needs.items()) for node in nodes)

    def can_start_another(self) -> bool:
        return True

    def start(self, job: Job) -> None:
        (job.folder / self._mark).touch()
        work = Work(job.folder.absolute(), self._mark, job.recipe.to_json(), self._options, self._variables)
        self._tasks[job.folder] = self._make.options(name=job.name).remote(work, self._board)

    def running(self) -> Collection[Path]:
        self._hear_news()
        lately = time.monotonic() - SILENCE
        return {folder for folder in self._tasks if self._heard.get(folder, -math.inf) > lately}

    def ended(self) -> Mapping[Path, Ending]:
        tasks = {task: folder for folder, task in self._tasks.items()}
        done = self._ray.wait(list(tasks), num_returns=len(tasks), timeout=0)[0] if tasks else []
        endings = {tasks[task]: self._ending(task, tasks[task]) for task in done}
        for folder in endings:
            del self._tasks[folder]
            (folder / self._mark).unlink(missing_ok=True)
        return endings

    def stop(self) -> None:
        # Once: each cancel interrupts the task, and a second interrupt would not let its child save.
        if not self._stopped:
            self._stopped = True
            for task in self._tasks.values():
                self._ray.cancel(task)

    def kill(self) -> None:
        self._stopped = True
        for folder, task in self._tasks.items():
            self._ray.cancel(task, force=True)
            (folder / self._mark).unlink(missing_ok=True)

    def _ending(self, task: Any, folder: Path) -> Ending:
        try:
            made: Made = self._ray.get(task)
            RunFolder(folder).update(made.files)
            return made.ending
        except self._ray.exceptions.RayError as error:
            return Ending(-signal.SIGINT if self._stopped else 1, _in_a_line(error))
        except OSError as error:
            return Ending(1, _in_a_line(error))

    def _hear_news(self) -> None:
        """Read the news without waiting: the board may be moving to another node."""
        if not self._ray.wait([self._question], timeout=0)[0]:
            return
        with suppress(self._ray.exceptions.RayError, OSError):
            news: dict[Path, bytes | None] = self._ray.get(self._question)
            for folder in [folder for folder in self._tasks if folder.absolute() in news]:
                self._heard[folder] = time.monotonic()
                records = news[folder.absolute()]
                if records is not None:
                    files = RunFolder(folder)
                    files.update({files.metrics_file.name: records})
        self._question = self._board.take.remote()


def _in_a_line(error: Exception) -> str:
    """Return the first line of an error that Ray wraps into a report."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[0] if lines else type(cause).__name__
