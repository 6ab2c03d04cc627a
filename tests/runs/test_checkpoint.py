"""Checkpoints: whole or not used, never more than asked for, and no code is run to read one."""

import hashlib
import io
import os
import pickle
import random
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adaste._util.files import NotWrittenError
from adaste.runs.checkpoint import NAME, Checkpoints, RefusedCheckpointError, load

STATE = {"weights": torch.arange(6.0), "records": [{"loss": 1.5}], "epoch": 3}


def _saved(folder: Path, steps: int = 2, keep: int = 2) -> Checkpoints:
    checkpoints = Checkpoints(folder / "checkpoints", keep=keep)
    for step in range(steps):
        checkpoints.save({**STATE, "step": step}, epoch=0, step=step)
    return checkpoints


def test_what_was_saved_comes_back(tmp_path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    path = checkpoints.save(STATE, epoch=12, step=345)
    assert path.name.startswith("epoch-00012-step-000345-")
    found = checkpoints.newest(pytest.fail)
    assert found is not None
    assert found[0] == path
    assert torch.equal(found[1]["weights"], STATE["weights"])
    assert found[1]["records"] == STATE["records"]


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path) -> None:
    assert Checkpoints(tmp_path / "nowhere").newest(pytest.fail) is None


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_last_few_stay(tmp_path, keep) -> None:
    checkpoints = Checkpoints(tmp_path, keep=keep)
    moments = [(epoch, step) for epoch in (0, 1, 10) for step in (0, 9, 10)]
    for epoch, step in moments:
        checkpoints.save({**STATE, "at": (epoch, step)}, epoch=epoch, step=step)
    assert [load(path)["at"] for path in checkpoints.paths()] == moments[::-1][:keep]


def test_very_long_runs_find_their_checkpoints_again(tmp_path) -> None:
    checkpoints = Checkpoints(tmp_path)
    moments = [(99_999, 999_999), (99_999, 1_000_000), (100_000, 0)]
    for epoch, step in moments:
        checkpoints.save({**STATE, "at": (epoch, step)}, epoch=epoch, step=step)
    assert [load(path)["at"] for path in checkpoints.paths()] == moments[:0:-1]


def test_a_step_saved_twice_does_not_push_out_the_one_before(tmp_path) -> None:
    checkpoints = _saved(tmp_path, steps=2)
    checkpoints.save({**STATE, "step": 1, "seconds": 2.0}, epoch=0, step=1)
    assert [load(path)["step"] for path in checkpoints.paths()] == [1, 0]
    assert load(checkpoints.paths()[0])["seconds"] == 2.0


def test_a_new_checkpoint_stays_even_if_others_are_further(tmp_path) -> None:
    checkpoints = _saved(tmp_path, steps=5)
    path = checkpoints.save({**STATE, "step": 1}, epoch=0, step=1)
    assert path in checkpoints.paths()
    assert len(checkpoints.paths()) == 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_a_damaged_checkpoint_is_named_set_aside_and_the_one_before_used(
    tmp_path_factory, source: random.Random
) -> None:
    checkpoints = _saved(tmp_path_factory.mktemp("damaged"))
    newest, before = checkpoints.paths()
    content = bytearray(newest.read_bytes())
    if source.random() < 0.5:
        content[source.randrange(len(content))] ^= 1 << source.randrange(8)
    else:
        del content[source.randrange(len(content)) :]
    newest.write_bytes(content)
    said: list[str] = []
    found = checkpoints.newest(said.append)
    assert found is not None
    assert (found[0], found[1]["step"]) == (before, 0)
    assert len(said) == 1
    assert str(newest) in said[0]
    assert "damaged" in said[0]
    checkpoints.save({**STATE, "step": 7}, epoch=0, step=7)
    assert [load(path)["step"] for path in checkpoints.paths()] == [7, 0], "a damaged one takes no place"


def test_where_all_are_damaged_there_is_none(tmp_path) -> None:
    checkpoints = _saved(tmp_path)
    for path in checkpoints.paths():
        path.write_bytes(b"")
    said: list[str] = []
    assert checkpoints.newest(said.append) is None
    assert len(said) == 2


def test_a_checkpoint_that_cannot_be_read_is_not_taken_for_damaged(tmp_path) -> None:
    path = tmp_path / f"epoch-00000-step-000000-{'0' * 16}.pt"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        Checkpoints(tmp_path).newest(print)
    assert path.exists()


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("plain", [True, False], ids=["pickle", "torch file"])
def test_a_malicious_file_with_the_right_digest_is_refused_and_runs_nothing(tmp_path, plain) -> None:
    evil = {"training": Malicious(tmp_path / "evil")}
    buffer = io.BytesIO()
    if plain:
        buffer.write(pickle.dumps(evil, protocol=2))
    else:
        torch.save(evil, buffer)
    checkpoints = _saved(tmp_path)
    name = f"epoch-00009-step-000000-{hashlib.sha256(buffer.getvalue()).hexdigest()[:16]}.pt"
    (checkpoints.folder / name).write_bytes(buffer.getvalue())
    with pytest.raises(RefusedCheckpointError, match=r"no code is run.*Remove it"):
        checkpoints.newest(pytest.fail)
    assert not (tmp_path / "evil").exists()


def test_a_file_of_another_name_is_no_checkpoint(tmp_path) -> None:
    checkpoints = _saved(tmp_path)
    (checkpoints.folder / "notes.pt").write_bytes(b"")
    assert all(NAME.fullmatch(path.name) for path in checkpoints.paths())
    with pytest.raises(ValueError, match="not named like a checkpoint"):
        load(checkpoints.folder / "notes.pt")


def test_a_checkpoint_that_cannot_be_written_leaves_the_others(tmp_path, monkeypatch) -> None:
    checkpoints = _saved(tmp_path)
    before = {path: path.read_bytes() for path in checkpoints.folder.iterdir()}
    monkeypatch.setattr("os.fsync", _full)
    with pytest.raises(NotWrittenError, match=r"could not write .*epoch-00000-step-000002.*No space left"):
        checkpoints.save(STATE, epoch=0, step=2)
    assert {path: path.read_bytes() for path in checkpoints.folder.iterdir()} == before


def _full(descriptor: int) -> None:
    raise OSError(28, os.strerror(28))


def test_no_place_for_any_checkpoint_is_an_error(tmp_path) -> None:
    with pytest.raises(ValueError, match="keep=0"):
        Checkpoints(tmp_path, keep=0)
