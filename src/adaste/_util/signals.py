"""Requests to stop, heard between two steps."""

import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, the usual way to end a process, and the end of its terminal."""


@dataclass
class Heard:
    """The number of the signal that came; 0 while none has."""

    number: int = 0


class StoppedError(Exception):
    """A signal asked a run to stop: between two steps, where it has saved, or within one, where it could not."""

    def __init__(self, signal_number: int, epoch: int, step: int, *, saved: bool = True) -> None:
        how = "run the same command again to resume"
        state = f"saved: {how}" if saved else f"not saved: {how} from the last save"
        super().__init__(f"stopped in epoch {epoch + 1} after {step} of its steps; {state}")
        self.signal_number = signal_number


@contextmanager
def listen_for_stop(always: Collection[int] = ()) -> Iterator[Heard]:
    """Record Ctrl-C, SIGTERM and the end of a terminal during the block; a second one ends the process at once.

    `always` and what happens outside of the main thread are as for `handle_signals`.
    """
    heard = Heard()

    def hear(number: int) -> None:
        heard.number = number
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    with handle_signals(hear, always):
        yield heard


@contextmanager
def handle_signals(hear: Callable[[int], None], always: Collection[int] = ()) -> Iterator[None]:
    """Call `hear` with the number of each request to stop during the block; afterwards all is as before.

    Ignored signals stay so (a terminal's end does not reach a process started with nohup), but for the signals that
    are `always` to be heard. In a thread other than the main one nothing is heard, since Python hears signals in the
    main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [number for number in REQUESTS if number in always or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, frame: hear(number)) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
