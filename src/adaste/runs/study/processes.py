"""The runner of a study on this machine: each run in a process of its own, several of which may share a GPU.

Needs no torch: a process that only looks after others starts at once.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from adaste._util.files import stale_folders, temporary_folder
from adaste.runs.folder import RunFolder

if TYPE_CHECKING:
    from adaste.runs.study.study import Job

PR_SET_PDEATHSIG = 1
"""The option of prctl for the signal that a process gets when its parent ends."""

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

MPS = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
LOGS = "CUDA_MPS_LOG_DIRECTORY"
MPS_FOLDER = "adaste-mps-"
MPS_PATIENCE = 60.0
"""Seconds for the daemon to start, or to end."""


@dataclass(frozen=True)
class Ending:
    """How the process of a run ended.

    Args:
        code: The exit code; below zero, the signal that killed it.
        problem: The error in one line; None if there was none.
    """

    code: int
    problem: str | None = None

    @property
    def by_signal(self) -> bool:
        """Whether a signal ended it: at once, or after it has saved, which `adaste` shows by a code above 128."""
        return self.code < 0 or self.code > 128


class Child:
    """A process that makes a run in a folder that holds its recipe; what it prints goes to its log.

    Args:
        options: Further arguments of `adaste train`.
        variables: Further environment variables.
    """

    def __init__(self, folder: Path, options: Sequence[str] = (), variables: Mapping[str, str] = NO_VARIABLES) -> None:
        self._told = False
        files = RunFolder(folder)
        self._log = files.log_file
        training = ["train", str(files.recipe_file), "--folder", str(folder), *options]
        with self._log.open("ab") as log:
            self._start_of_log = log.tell()
            self._process = subprocess.Popen(
                # -P: the user's own random.py, here where the study was started, is none of Python's modules.
                [sys.executable, "-P", "-m", "adaste", f"--parent={os.getpid()}", *training],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                process_group=0,  # a Ctrl-C at the terminal reaches the study alone, which passes it on once
            )

    def ended(self) -> Ending | None:
        """Return how it ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else Ending(code, self._problem(code) if code else None)

    def stop(self) -> None:
        """Ask it to save and end; only once, since a second request would end it at once."""
        if not self._told:
            self._told = True
            self._process.terminate()

    def kill(self) -> None:
        """Kill it and all processes that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _problem(self, code: int) -> str:
        """Return why it ended with this code: the last line it printed."""
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        try:
            with self._log.open("rb") as log:
                log.seek(self._start_of_log)
                lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError:  # whoever removes a run's folder ends that run, and must not end the others
            lines = []
        return lines[-1].removeprefix("error: ") if lines else f"exit code {code}"


def die_with_parent(parent: int) -> None:
    """Let the kernel (Linux only) kill this process when `parent`, which started it, ends.

    A study that is killed cannot stop its runs. They would train on, seen by nobody, and hold their folders against
    whoever wants to resume them.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the kernel was asked
            os.kill(os.getpid(), signal.SIGKILL)


class Processes:
    """The runner of this machine: at most `count` children at a time, each with these options and variables."""

    def __init__(
        self, count: int = 1, *, options: Sequence[str] = (), variables: Mapping[str, str] = NO_VARIABLES
    ) -> None:
        if count < 1:
            raise ValueError(f"a study needs at least one process, got {count}")
        self._count, self._options, self._variables = count, options, variables
        self._children: dict[Path, Child] = {}

    def can_start_another(self) -> bool:
        return len(self._children) < self._count

    def start(self, job: "Job") -> None:
        self._children[job.folder] = Child(job.folder, self._options, self._variables)

    def running(self) -> Collection[Path]:
        return self._children.keys()

    def ended(self) -> Mapping[Path, Ending]:
        endings = {folder: ending for folder, child in self._children.items() if (ending := child.ended())}
        for folder in endings:
            del self._children[folder]
        return endings

    def stop(self) -> None:
        for child in self._children.values():
            child.stop()

    def kill(self) -> None:
        for child in self._children.values():
            child.kill()


@contextmanager
def shared_gpu(says: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Run NVIDIA's Multi-Process Service: processes with these environment variables use a GPU at the same time.

    No daemon is started if the program is missing or one is in use already; processes then take turns, or use that one.
    Daemons that killed processes have left running are stopped first.
    """
    program = shutil.which(MPS)
    if program is None or PIPES in os.environ:
        yield {}
        return
    parent = Path(tempfile.gettempdir())
    _stop_stale_daemons(program, parent, says)
    with temporary_folder(parent, MPS_FOLDER, mode=0o700) as folder:
        variables = _variables(folder)
        for path in variables.values():
            Path(path).mkdir()
        problem = _ask(program, ["-d"], variables)
        if problem is not None:
            says(f"{MPS} did not start ({problem}): the runs take turns on the GPU")
            yield {}
            return
        try:
            yield variables
        finally:
            problem = _ask(program, [], variables, command="quit\n")
            if problem is not None:
                says(f"{MPS} did not stop ({problem})")


def _stop_stale_daemons(program: str, parent: Path, says: Callable[[str], None]) -> None:
    """Stop the daemons of killed studies. Nobody uses them: the runs of a study end with it."""
    for folder in stale_folders(parent, MPS_FOLDER):
        if _ask(program, [], _variables(folder), command="quit\n") is None:  # else it was not running any more
            says(f"stopped the {MPS} of a study that was killed")
        shutil.rmtree(folder, ignore_errors=True)


def _variables(folder: Path) -> dict[str, str]:
    return {PIPES: str(folder / "pipes"), LOGS: str(folder / "logs")}


def _ask(program: str, arguments: list[str], variables: dict[str, str], command: str = "") -> str | None:
    """Return why the command failed; None if it did not. Ctrl-C must not reach the daemon: it gets its own session."""
    # Not a pipe: the daemon inherits the output and would hold it open.
    with tempfile.TemporaryFile("w+") as output:
        try:
            done = subprocess.run(
                [program, *arguments],
                input=command,
                stdout=output,
                stderr=output,
                text=True,
                env={**os.environ, **variables},
                timeout=MPS_PATIENCE,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        output.seek(0)
        return (output.read().strip() or f"exit code {done.returncode}") if done.returncode else None
