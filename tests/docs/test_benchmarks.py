"""Records of benchmarks are whole, also those of one that runs without adaste."""

import json
import os
import shutil
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import adaste_zoo
import pytest
import torch

from adaste.cli import main
from adaste.data import load
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import RunFolder
from adaste.training.trainer import Training
from support.pages import ROOT

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
    assert (row["run"], row["soft"], row["augmented"]) == (
        folder.name,
        True,
        RunFolder(folder).read_result().last_accuracy,
    )
    assert row["training"] != row["augmented"]


def test_a_curve_of_both_kinds_of_statistics_agrees_with_the_run_and_does_not_disturb_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    made, record = import_module("norm_statistics_curve"), tmp_path / "record.json"
    options = ["--epochs", "3", "--every", "2", "--device", "cpu", "--output", str(record)]
    monkeypatch.setattr(sys, "argv", ["norm_statistics_curve.py", "digits-vgg-small-binaryconnect", *options])
    made.main()
    (run,) = json.loads(record.read_text())["runs"]
    recipe = Recipe.from_json(json.dumps(run["recipe"]))
    for kind, always in (("running", False), ("reestimated", True)):
        undisturbed = Training(replace(recipe, norm_always=always), load("digits"), device=torch.device("cpu"))
        alone = list(undisturbed.run())
        assert [(row["epoch"], row["loss"], row[kind]) for row in run["epochs"]] == [
            (record.epoch, record.loss, record.test_accuracy) for record in alone[1:]
        ]
    assert all(row["estimation_seconds"] > 0 and not row["soft"] for row in run["epochs"])


def test_the_program_of_the_page_on_own_loops_is_tested_with_both_kinds_of_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    made, record = import_module("own_loop_statistics"), tmp_path / "record.json"
    monkeypatch.setattr(sys, "argv", ["own_loop_statistics.py", "--seeds", "1", "--output", str(record)])
    made.main()
    (run,) = json.loads(record.read_text())["runs"]
    assert len(run["epochs"]) == 20
    running, estimated = ([row[kind] for row in run["epochs"]] for kind in ("running", "reestimated"))
    assert sum(running[4:16]) < sum(estimated[4:16]) - 100


def test_times_to_an_accuracy_are_those_of_whole_trainings_and_choose_on_held_out_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    made, record = import_module("time_to_accuracy"), tmp_path / "record.json"
    options = ["--epochs", "3", "--seeds", "2", "--first-seed", "1", "--device", "cpu", "--output", str(record)]
    tested = []
    evaluate = Training.evaluate
    monkeypatch.setattr(Training, "evaluate", lambda self, split: tested.append(split) or evaluate(self, split))
    monkeypatch.setattr(
        sys, "argv", ["time_to_accuracy.py", "digits-mlp-adaste", "digits-mlp-full-precision", *options]
    )
    made.main()
    adaste, real = json.loads(record.read_text())["rows"]
    for seed, run in zip((1, 2), adaste["runs"], strict=True):
        recipe = Recipe.from_json(json.dumps(adaste["recipe"])).with_seed(seed)
        whole = list(Training(recipe, load("digits", None), device=torch.device("cpu"), engine="eager").run())
        assert (run["seed"], run["split"], run["accuracy"]) == (seed, "test", whole[-1].test_accuracy)
        assert sum(run["epoch_seconds"]) < run["seconds"]
    assert [row["runs"][0]["all_weights_binary"] for row in (adaste, real)] == [True, False]
    tested.clear()
    monkeypatch.setattr(sys, "argv", ["time_to_accuracy.py", "digits-mlp-adaste", "--set", "holdout=200", *options])
    made.main()
    (row,) = json.loads(record.read_text())["rows"]
    assert set(tested) == {"holdout"}
    assert {(run["split"], run["images"]) for run in row["runs"]} == {("holdout", 200)}


def test_the_check_of_the_zoo_writes_the_card_of_a_network_that_is_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    made, record = import_module("zoo"), tmp_path / "record.json"
    whole = {card.name: card for card in adaste_zoo.cards()}
    monkeypatch.setattr(adaste_zoo, "NETWORKS", tmp_path / "networks")
    (tmp_path / "networks").mkdir()
    shutil.copy(ROOT / "zoo" / "adaste_zoo" / "networks" / "digits-vgg-small.safetensors", tmp_path / "networks")
    monkeypatch.setattr(sys, "argv", ["zoo.py", "--output", str(record)])
    made.main()
    (card,) = adaste_zoo.cards()
    assert replace(card, checked="") == replace(whole[card.name], checked="")
    (row,) = json.loads(record.read_text())["rows"]
    assert (row["sha256"], row["int8"]) == (card.sha256, card.int8)
