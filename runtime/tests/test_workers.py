"""The threads of a network: every task of a stage runs exactly once, and no thread stays where another placed it."""

import ctypes
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import LIBRARY
from networks import residual_network


@settings(deadline=None, max_examples=40)
@given(
    threads=st.integers(1, 9),
    callers=st.integers(1, 4),
    tasks=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    slow=st.tuples(st.integers(0, 8), st.integers(0, 300)),
    pause=st.sampled_from([0, 50, 2000]),
)
def test_every_task_runs_exactly_once(threads, callers, tasks, slow, pause):
    counts = (ctypes.c_int * len(tasks))(*tasks)
    assert LIBRARY.adaste_share_tasks(threads, callers, len(tasks), counts, *slow, pause) == 0


def processors_of_threads():
    return {frozenset(os.sched_getaffinity(int(thread.name))) for thread in Path("/proc/self/task").iterdir()}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes have no affinity on this system")
def test_threads_that_were_woken_may_use_all_processors_again(loaded):
    net = loaded(residual_network(np.random.default_rng(0))[0], threads=len(os.sched_getaffinity(0)))
    images = np.zeros((4, 3, 12, 10), np.float32)
    for _ in range(20):
        net(images)
        time.sleep(0.002)  # its threads fall asleep
    until = time.monotonic() + 30
    while processors_of_threads() != {frozenset(os.sched_getaffinity(0))} and time.monotonic() < until:
        time.sleep(0.01)
    assert processors_of_threads() == {frozenset(os.sched_getaffinity(0))}
