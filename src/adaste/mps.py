"""NVIDIA's Multi-Process Service: processes that share a GPU run at the same time, not in turns."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
LOGS = "CUDA_MPS_LOG_DIRECTORY"
PATIENCE = 60.0
"""Seconds for the daemon to start, or to end."""


@contextmanager
def shared_gpu(says: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """While the block runs, a daemon of its own serves the processes that have these environment variables.

    None is started where the program is missing or one is in use already; processes then take turns, or use that one.
    """
    program = shutil.which(PROGRAM)
    if program is None or PIPES in os.environ:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="adaste-mps-", ignore_cleanup_errors=True) as folder:
        variables = {PIPES: str(Path(folder, "pipes")), LOGS: str(Path(folder, "logs"))}
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
