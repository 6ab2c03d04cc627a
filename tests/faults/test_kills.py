"""A run that is killed, at any moment, ends as if it had not been when it is started again."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adaste.runs.folder import RunFolder
from support.faults import MADE, ended, in_child
from support.small_runs import outcome, small_run

pytestmark = pytest.mark.slow

KILLS = 20


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

    import adaste.runs.folder
    from adaste.training.step import TrainingStep
    from adaste.training.trainer import Training

    phases.write_text("start")
    os.fsync = noting("writing", os.fsync)
    Path.replace = noting("renaming", Path.replace)
    Path.unlink = noting("removing", Path.unlink)
    adaste.runs.folder.append = noting("metrics", adaste.runs.folder.append)
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
    assert RunFolder(folder).read_result() is not None
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
    import adaste.runs.folder
    from adaste.training.evaluation import Evaluation
    from adaste.training.step import TrainingStep

    owner, name = {
        "step": (TrainingStep, "_step"),
        "writing": (os, "fsync"),
        "renaming": (Path, "replace"),
        "removing": (Path, "unlink"),
        "metrics": (adaste.runs.folder, "append"),
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
