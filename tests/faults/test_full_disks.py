"""What cannot be written is reported, spoils nothing that was, and the run goes on when it can be."""

import errno
import os
import resource
import signal
from pathlib import Path

import pytest

from adaste._util.files import NotWrittenError
from adaste.runs.checkpoint import Checkpoints, load
from support.faults import MADE, ended, in_child
from support.small_runs import Listener, outcome, small_run


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

    monkeypatch.setattr("adaste.runs.folder.append", full)
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
