"""Waiting for what other threads and processes do."""

import os
import signal
import threading
import time
from collections.abc import Callable


def wait_until(true: Callable[[], bool]) -> None:
    """Wait as long as a busy machine may take."""
    deadline = time.monotonic() + 300
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def soon(act: Callable[[], None]) -> None:
    """Act beside a study. If that fails, the study ends, and the test with it."""

    def run() -> None:
        try:
            act()
        except BaseException:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
            raise

    threading.Thread(target=run, daemon=True).start()
