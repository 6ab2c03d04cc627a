"""What may happen to a run, and that it ends as if nothing had happened: kills, damage, a full disk, signals, NaN."""

import contextlib
import errno
import math
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import Listener, outcome, small_recipe, small_run

from adaste.checkpoint import Checkpoints, load
from adaste.engine import TrainingStep
from adaste.files import NotWrittenError
from adaste.records import DivergedError
from adaste.results import read_records, read_result
from adaste.runs import Options
from adaste.signals import StoppedError
from adaste.train import Training

MADE = small_recipe("binaryconnect", epochs=4, holdout=20)
KILLS = 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run that nothing happened to leaves behind."""
    folder = tmp_path_factory.mktemp("whole")
    small_run(MADE, folder)
    return outcome(folder)


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


def traced(folder: Path, phases: Path) -> None:
    """A run that notes which phase it is in: a test must know that it hit all of them."""

    def noting(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            before = phases.read_text()
            phases.write_text(phase)
            time.sleep(0.001)  # so that every phase lasts long enough to be hit
            try:
                return function(*arguments, **named)
            finally:
                phases.write_text(before)

        return noted

    import adaste.runs
    from adaste.engine import TrainingStep
    from adaste.train import Training

    phases.write_text("start")
    os.fsync = noting("writing", os.fsync)
    Path.replace = noting("renaming", Path.replace)
    Path.unlink = noting("removing", Path.unlink)
    adaste.runs.append = noting("metrics", adaste.runs.append)
    Training._record = noting("evaluating", Training._record)
    TrainingStep.__call__ = noting("step", TrainingStep.__call__)
    small_run(MADE, folder)


def test_a_run_killed_at_twenty_random_moments_ends_as_if_it_had_not_been(tmp_path, whole) -> None:
    source, hit, kills = random.Random(0), Counter(), 0
    folder, phases = tmp_path / "run", tmp_path / "phase"
    for _ in range(200):
        child = in_child(lambda: traced(folder, phases))
        if kills < KILLS:
            time.sleep(source.uniform(0.02, 0.35))
            os.kill(child, signal.SIGKILL)
        code = ended(child)
        if code == 0:
            if kills >= KILLS:
                break
            # It was done before its kill came: once more from the beginning, so that all kills hit something.
            assert outcome(folder) == whole
            _remove(folder)
            continue
        assert code == -signal.SIGKILL
        kills += 1
        hit[phases.read_text()] += 1
    assert kills == KILLS
    assert len(hit) >= 3, f"the kills must hit many phases, got {hit}"
    assert outcome(folder) == whole
    assert read_result(folder) is not None
    assert not list(folder.rglob("*.tmp"))
    assert not list(folder.rglob("*.damaged")), "a kill never leaves half a checkpoint"


@pytest.mark.parametrize("phase", ["step", "writing", "renaming", "removing", "metrics", "evaluating"])
@pytest.mark.parametrize("occasion", [1, 2, 9])
def test_a_run_killed_in_a_given_phase_ends_as_if_it_had_not_been(tmp_path, whole, phase, occasion) -> None:
    """Not by chance: the child kills itself in the middle of that phase, for the n-th time it is there."""
    folder = tmp_path / "run"
    code = ended(in_child(lambda: _dying(folder, phase, occasion)))
    assert code == (-signal.SIGKILL if occasion < 9 or phase not in ("metrics", "evaluating") else 0)
    small_run(MADE, folder)
    assert outcome(folder) == whole
    assert not list(folder.rglob("*.tmp"))


def _dying(folder: Path, phase: str, occasion: int) -> None:
    import adaste.runs
    from adaste.engine import Evaluation, TrainingStep

    owner, name = {
        "step": (TrainingStep, "_step"),
        "writing": (os, "fsync"),
        "renaming": (Path, "replace"),
        "removing": (Path, "unlink"),
        "metrics": (adaste.runs, "append"),
        "evaluating": (Evaluation, "__call__"),
    }[phase]
    function, calls = getattr(owner, name), Counter()

    def dying(*arguments: Any, **named: Any) -> Any:
        calls[phase] += 1
        if calls[phase] == occasion:
            if phase == "metrics":
                with arguments[0].open("ab") as file:
                    file.write(arguments[1][:20])
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)

    setattr(owner, name, dying)
    small_run(MADE, folder)


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def _interrupted(folder: Path, epoch: int = 2, step: int = 3) -> None:
    """A run stopped there by a signal, with two checkpoints."""

    def stop(training) -> None:
        if (training.epoch, training.step) == (epoch, step):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError):
        small_run(MADE, folder, observer=Listener(stop))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_with_a_damaged_checkpoint_the_one_before_is_used(tmp_path, whole, seed, damage) -> None:
    _interrupted(tmp_path)
    newest, before = Checkpoints(tmp_path / "checkpoints").paths()
    source, content = random.Random(seed), bytearray(newest.read_bytes())
    if damage == "truncated":
        del content[source.randrange(len(content)) :]
    else:
        content[source.randrange(len(content))] ^= 1 << source.randrange(8)
    newest.write_bytes(content)
    listener = Listener()
    small_run(MADE, tmp_path, observer=listener)
    assert len(listener.said) == 1
    assert newest.name in listener.said[0]
    assert "damaged" in listener.said[0]
    assert listener.began == [(2, 2)]
    assert before.name.startswith("epoch-00002-step-000002")
    assert outcome(tmp_path) == whole


def test_where_all_checkpoints_are_damaged_a_run_starts_from_the_beginning_and_says_so(tmp_path, whole) -> None:
    _interrupted(tmp_path)
    for path in Checkpoints(tmp_path / "checkpoints").paths():
        path.write_bytes(path.read_bytes()[:-1])
    listener = Listener()
    small_run(MADE, tmp_path, observer=listener)
    assert len(listener.said) == 3
    assert "no checkpoint" in listener.said[-1]
    assert "from the beginning" in listener.said[-1]
    assert listener.began == [(0, 0)]
    assert outcome(tmp_path) == whole


def test_a_full_disk_is_reported_and_the_run_goes_on_later(tmp_path, whole, monkeypatch) -> None:
    original, written = os.fsync, []

    def full(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) > 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotWrittenError, match=r"could not write .*\.(pt|safetensors) \(No space left on device\)"):
        small_run(MADE, tmp_path)
    monkeypatch.undo()
    paths = Checkpoints(tmp_path / "checkpoints").paths()
    assert len(paths) == 2
    assert all(load(path) for path in paths)
    assert not list(tmp_path.rglob("*.tmp"))
    listener = Listener()
    small_run(MADE, tmp_path, observer=listener)
    assert listener.said == []
    assert listener.began > [(0, 0)]
    assert outcome(tmp_path) == whole


def test_metrics_that_cannot_be_written_are_reported(tmp_path, whole, monkeypatch) -> None:
    def full(path: Path, content: bytes) -> None:
        with path.open("ab") as file:
            file.write(content[: len(content) // 2])
        raise NotWrittenError(errno.ENOSPC, f"could not add to {path}")

    monkeypatch.setattr("adaste.runs.append", full)
    with pytest.raises(NotWrittenError, match=r"metrics\.jsonl"):
        small_run(MADE, tmp_path)
    monkeypatch.undo()
    small_run(MADE, tmp_path)
    assert outcome(tmp_path) == whole


def test_a_limit_on_the_size_of_files_is_reported_and_the_run_goes_on_later(tmp_path, whole) -> None:
    answer = tmp_path / "answer"

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        def limit(training) -> None:
            if (training.epoch, training.step) == (1, 2):
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        try:
            small_run(MADE, tmp_path / "run", observer=Listener(limit))
        except NotWrittenError as error:
            answer.write_text(str(error))

    assert ended(in_child(limited)) == 0
    assert "File too large" in answer.read_text()
    assert "checkpoints" in answer.read_text()
    assert len(Checkpoints(tmp_path / "run" / "checkpoints").paths()) == 2
    listener = Listener()
    small_run(MADE, tmp_path / "run", observer=listener)
    assert listener.began == [(1, 1)]
    assert outcome(tmp_path / "run") == whole


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
    assert [record.epoch for record in read_records(tmp_path)] == list(range(moment[0]))
    listener = Listener()
    small_run(MADE, tmp_path, observer=listener)
    assert listener.began == [moment]
    assert outcome(tmp_path) == whole


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


def test_a_run_outside_of_the_main_thread_leaves_signals_alone(tmp_path, whole) -> None:
    import threading

    thread = threading.Thread(target=small_run, args=(MADE, tmp_path))
    thread.start()
    thread.join()
    assert outcome(tmp_path) == whole


@pytest.mark.parametrize("kind", ["weight", "loss"])
def test_a_run_that_diverges_says_where_and_keeps_its_last_good_checkpoint(tmp_path, kind, monkeypatch) -> None:
    made = small_recipe("full-precision", epochs=3)
    if kind == "loss":
        monkeypatch.setattr("adaste.engine.step.loss", _infinite(after := []))

    def spoil(training) -> None:
        if (training.epoch, training.step) == (1, 2):
            if kind == "weight":
                with torch.no_grad():
                    next(training.model.parameters()).fill_(math.nan)
            else:
                after.append(True)

    listener = Listener(spoil)
    what = "the loss was not finite" if kind == "loss" else r"the gradient of .*1\.weight"
    with pytest.raises(DivergedError, match=f"epoch 2, step 3: {what}"):
        small_run(made, tmp_path, observer=listener)
    newest, *_ = Checkpoints(tmp_path / "checkpoints").paths()
    assert newest.name.startswith("epoch-00001-step-000002-")
    assert read_result(tmp_path) is None
    assert len(read_records(tmp_path)) == 1


def _infinite(after: list[bool]) -> Callable[..., Any]:
    from adaste.augment import loss

    def value(*arguments: Any) -> Any:
        return loss(*arguments) + (math.inf if after else 0.0)

    return value


def test_a_damaged_list_of_starts_stops_no_run(tmp_path, whole) -> None:
    (tmp_path / "environment.json").write_text("[")
    listener = Listener()
    small_run(MADE, tmp_path, observer=listener)
    assert "environment.json is damaged" in listener.said[0]
    assert outcome(tmp_path) == whole
