"""The run that things happen to, and how to make it in a process that may die."""

import os
import sys
import traceback
from collections.abc import Callable

from support.small_runs import small_recipe

MADE = small_recipe("binaryconnect", epochs=4, holdout=20)


def in_child(work: Callable[[], object]) -> int:
    """Start `work` in a child made by fork, which need not load torch again; gives its process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
