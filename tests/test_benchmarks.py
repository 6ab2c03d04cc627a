"""Records of benchmarks are whole, also those of one that runs without adaste."""

import os
from importlib import import_module
from pathlib import Path

import pytest
from pages import ROOT


def test_a_record_of_inference_takes_the_place_of_the_old_one_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    inference = import_module("inference")
    record, old = tmp_path / "record.json", tmp_path / "old.json"
    record.write_text("before")
    os.link(record, old)  # a second name of the old file: it would change, too, if that one were written into
    inference.write(record, {"rows": []})
    assert (record.read_text(), old.read_text()) == ('{\n "rows": []\n}\n', "before")
    assert sorted(tmp_path.iterdir()) == [old, record]
