"""A child process that makes a run. Needs no torch: whoever only looks after children starts at once."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

PR_SET_PDEATHSIG = 1
"""The option of prctl for the signal that a process gets when its parent ends."""

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Ending:
    """How a child ended.

    code     its exit code; below zero, the signal that killed it.
    problem  what went wrong, in one line; None where nothing did.
    """

    code: int
    problem: str | None = None

    @property
    def by_signal(self) -> bool:
        """Whether a signal ended it: at once, or after it has saved, as `adaste` says by a code above 128."""
        return self.code < 0 or self.code > 128


class Child:
    """A process that makes a run in a folder that holds its recipe; what it prints goes to log.txt there.

    options    further arguments of `adaste train`.
    variables  further environment variables.
    """

    def __init__(self, folder: Path, options: Sequence[str] = (), variables: Mapping[str, str] = NO_VARIABLES) -> None:
        self._told = False
        self._log = folder / "log.txt"
        training = ["train", str(folder / "recipe.json"), "--folder", str(folder), *options]
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
        """How it ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else Ending(code, self._problem(code) if code else None)

    def stop(self) -> None:
        """Let it save and end; once, since a second request would end it at once."""
        if not self._told:
            self._told = True
            self._process.terminate()

    def kill(self) -> None:
        """End it now, with all processes it has started itself."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _problem(self, code: int) -> str:
        """Why it ended with this code: the last line it printed."""
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
