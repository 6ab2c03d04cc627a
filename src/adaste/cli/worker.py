"""`python -m adaste.cli.worker PARENT ...` is the command `adaste` in a process that ends with its parent.

Whoever starts a run looks after it; one that is killed cannot. Its child would train on, seen by nobody, and hold the
folder against whoever wants to go on with the run. So the kernel kills the child, too: that of Linux, that is.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

from adaste.cli import main

PR_SET_PDEATHSIG = 1


def tie_to(parent: int) -> None:
    """From now on this process is killed when `parent`, who started it, ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the kernel was asked
            os.kill(os.getpid(), signal.SIGKILL)


def tied_main(arguments: Sequence[str]) -> int:
    """Tie this process to the one whose number is the first argument; the others are those of `adaste`."""
    parent, *others = arguments
    tie_to(int(parent))
    return main(others)


if __name__ == "__main__":
    sys.exit(tied_main(sys.argv[1:]))
