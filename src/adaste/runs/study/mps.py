"""NVIDIA's Multi-Process Service: processes that share a GPU run at the same time, not in turns."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from adaste._util.files import stale_folders, temporary_folder

PROGRAM = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
LOGS = "CUDA_MPS_LOG_DIRECTORY"
PREFIX = "adaste-mps-"
PATIENCE = 60.0
"""Seconds for the daemon to start, or to end."""


@contextmanager
def shared_gpu(says: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """While the block runs, a daemon of its own serves the processes that have these environment variables.

    None is started where the program is missing or one is in use already; processes then take turns, or use that one.
    Daemons whose processes were killed before they could stop them are stopped first.
    """
    program = shutil.which(PROGRAM)
    if program is None or PIPES in os.environ:
        yield {}
        return
    parent = Path(tempfile.gettempdir())
    _stop_those_left_over(program, parent, says)
    with temporary_folder(parent, PREFIX, mode=0o700) as folder:
        variables = _variables(folder)
        for path in variables.values():
            Path(path).mkdir()
        problem = _ask(program, ["-d"], variables)
        if problem is not None:
            says(f"{PROGRAM} did not start ({problem}): the runs take turns on the GPU")
            yield {}
            return
        try:
            yield variables
        finally:
            problem = _ask(program, [], variables, command="quit\n")
            if problem is not None:
                says(f"{PROGRAM} did not stop ({problem})")


def _stop_those_left_over(program: str, parent: Path, says: Callable[[str], None]) -> None:
    """Nobody uses them: the runs of a study end with it, whatever ends that."""
    for folder in stale_folders(parent, PREFIX):
        if _ask(program, [], _variables(folder), command="quit\n") is None:  # else it was not running any more
            says(f"stopped the {PROGRAM} of a study that was killed")
        shutil.rmtree(folder, ignore_errors=True)


def _variables(folder: Path) -> dict[str, str]:
    return {PIPES: str(folder / "pipes"), LOGS: str(folder / "logs")}


def _ask(program: str, arguments: list[str], variables: dict[str, str], command: str = "") -> str | None:
    """Why it failed, None if it did not. In a session of its own: Ctrl-C is for the runs, not for the daemon."""
    # The daemon inherits the output: a pipe would be held open for as long as it lives.
    with tempfile.TemporaryFile("w+") as output:
        try:
            done = subprocess.run(
                [program, *arguments],
                input=command,
                stdout=output,
                stderr=output,
                text=True,
                env={**os.environ, **variables},
                timeout=PATIENCE,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        output.seek(0)
        return (output.read().strip() or f"exit code {done.returncode}") if done.returncode else None
