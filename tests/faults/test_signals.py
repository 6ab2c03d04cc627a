"""A signal saves and stops a run, which goes on later; a second one ends it at once."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from adaste._util.signals import StoppedError
from adaste.runs.checkpoint import Checkpoints
from adaste.runs.folder import RunFolder
from adaste.runs.run import Options
from adaste.training.step import TrainingStep
from adaste.training.trainer import Training
from support.faults import MADE
from support.small_runs import Listener, outcome, small_run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("moment", [(0, 1), (1, 5), (3, 2)], ids=str)
def test_a_signal_saves_and_stops_and_the_run_goes_on_later(tmp_path, whole, number, moment) -> None:
    before = signal.getsignal(number)

    def stop(training) -> None:
        if (training.epoch, training.step) == moment:
            os.kill(os.getpid(), number)

    with pytest.raises(StoppedError, match=rf"epoch {moment[0] + 1} after {moment[1]} of its steps; saved") as caught:
        small_run(MADE, tmp_path, options=Options(save_every=1e6), observer=Listener(stop))
    assert caught.value.signal_number == number
    assert signal.getsignal(number) is before
    assert len(Checkpoints(tmp_path / "checkpoints").paths()) == 1
    assert [record.epoch for record in RunFolder(tmp_path).read_records()] == list(range(moment[0]))
    listener = Listener()
    small_run(MADE, tmp_path, observer=listener)
    assert listener.began == [moment]
    assert outcome(tmp_path) == whole


def test_under_nohup_the_end_of_the_terminal_does_not_stop_a_run(tmp_path, whole) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        small_run(MADE, tmp_path, observer=Listener(lambda training: os.kill(os.getpid(), signal.SIGHUP)))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert outcome(tmp_path) == whole


def test_a_signal_after_the_last_epoch_lets_the_run_finish(tmp_path, whole) -> None:
    class Late(Listener):
        def epoch_ended(self, record) -> None:
            if record.epoch + 1 == MADE.epochs:
                os.kill(os.getpid(), signal.SIGTERM)

    small_run(MADE, tmp_path, observer=Late())
    assert outcome(tmp_path) == whole
    assert RunFolder(tmp_path).read_result() is not None


def test_a_signal_that_ends_the_compiler_too_stops_the_run_at_its_last_checkpoint(tmp_path, whole, monkeypatch) -> None:
    def compiler_dies(step: TrainingStep) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise RuntimeError("C++ compile error")

    def spoil(training: Training) -> None:
        if (training.epoch, training.step) == (1, 2):
            monkeypatch.setattr(TrainingStep, "__call__", compiler_dies)

    with pytest.raises(StoppedError, match="epoch 2 after 2 of its steps; not saved") as caught:
        small_run(MADE, tmp_path, options=Options(save_every=0), observer=Listener(spoil))
    assert caught.value.signal_number == signal.SIGINT
    monkeypatch.undo()
    listener = Listener()
    small_run(MADE, tmp_path, observer=listener)
    assert listener.began == [(1, 2)]
    assert outcome(tmp_path) == whole


def test_a_second_interrupt_ends_a_run_at_once(tmp_path) -> None:
    def stop(training) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        with contextlib.suppress(StoppedError):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small_run(MADE, tmp_path, options=Options(save_every=1e6), observer=Listener(stop))
    assert not Checkpoints(tmp_path / "checkpoints").paths()


def test_tests_hear_the_signals_that_a_background_process_ignores() -> None:
    test = f"{__file__}::test_a_signal_saves_and_stops_and_the_run_goes_on_later"
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    chosen = [f"{test}[(0, 1)-{number.name}]" for number in (signal.SIGINT, signal.SIGHUP)]
    ignoring = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"]
    done = subprocess.run([*ignoring, *pytest_here, *chosen], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_a_run_outside_of_the_main_thread_leaves_signals_alone(tmp_path, whole) -> None:
    import threading

    thread = threading.Thread(target=small_run, args=(MADE, tmp_path))
    thread.start()
    thread.join()
    assert outcome(tmp_path) == whole
