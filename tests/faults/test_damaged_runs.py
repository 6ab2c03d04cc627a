"""Files of a run that are damaged are not used, said to be so, and the run ends as if they had not been."""

import os
import random
import signal
from pathlib import Path

import pytest

from adaste._util.signals import StoppedError
from adaste.runs.checkpoint import Checkpoints
from support.faults import MADE
from support.small_runs import Listener, outcome, small_run

pytestmark = pytest.mark.slow


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


def test_a_damaged_list_of_starts_stops_no_run(tmp_path, whole) -> None:
    (tmp_path / "environment.json").write_text("[")
    listener = Listener()
    small_run(MADE, tmp_path, observer=listener)
    assert "environment.json is damaged" in listener.said[0]
    assert outcome(tmp_path) == whole
