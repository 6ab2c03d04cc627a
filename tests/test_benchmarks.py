"""Records of benchmarks are whole, also those of one that runs without adaste."""

import json
import os
import sys
from importlib import import_module
from pathlib import Path

import pytest
from pages import ROOT

from adaste.cli import main
from adaste.results import read_result

pytestmark = pytest.mark.slow


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


def test_statistics_from_augmented_images_are_those_a_run_is_tested_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    made, runs, record = import_module("norm_statistics"), tmp_path / "runs", tmp_path / "record.json"
    assert main(["train", "digits-vgg-small-md-tanh-s", "--epochs", "2", "--device", "cpu", "--runs", str(runs)]) == 0
    (folder,) = runs.iterdir()
    monkeypatch.setattr(sys, "argv", ["norm_statistics.py", str(folder), "--output", str(record)])
    made.main()
    (row,) = json.loads(record.read_text())["rows"]
    assert (row["run"], row["soft"], row["augmented"]) == (folder.name, True, read_result(folder).last_accuracy)
    assert row["training"] != row["augmented"]
