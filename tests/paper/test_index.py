"""Folders of runs: what is collected, and why the rest is not."""

import dataclasses
import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adaste import __version__
from adaste.paper.index import Run, collect, read_run
from adaste.paper.tables import CellId
from adaste.runs.folder import RunFolder
from adaste.training.records import Record
from support.paper_runs import a_recipe, a_run, write_run


def written(root: Path, name: str = "one", **changes: int) -> tuple[Run, Path]:
    made = a_run(a_recipe("released", "adaste", "cifar10-resnet18", **changes), [40.0, 92.0, 91.5])
    return made, write_run(made, root / name)


def only_problem(root: Path) -> str:
    found = collect(root)
    assert not found.runs and len(found.problems) == 1
    return found.problems[0].reason


def made_by_version(folder: Path, version: str) -> None:
    """Let the run have begun with another version of adaste."""
    starts = json.loads((folder / "environment.json").read_text())
    (folder / "environment.json").write_text(json.dumps([{**starts[0], "adaste": version}, *starts]))


def test_a_finished_run_comes_back_as_it_was_written(tmp_path: Path) -> None:
    made, folder = written(tmp_path)
    run = read_run(folder)
    assert run.recipe == made.recipe and run.digest == made.recipe.digest
    assert (run.records, run.result, run.histogram) == (made.records, made.result, made.histogram)
    assert run.environments == made.environments
    assert run.cell_ids == (CellId("released", "adaste", "cifar10-resnet18"),)


def test_runs_are_found_at_any_depth_and_in_order(tmp_path: Path) -> None:
    written(tmp_path, "b/deep/down", seed=1)
    written(tmp_path, "a", seed=2)
    found = collect(tmp_path)
    assert [run.recipe.seed for run in found.runs] == [2, 1]
    assert found.problems == ()


def test_runs_behind_links_are_found_and_each_counts_once(tmp_path: Path) -> None:
    root = tmp_path / "results"
    written(tmp_path, "another disk/runs/far", seed=1)
    written(root, "near", seed=2)
    (root / "linked").symlink_to(tmp_path / "another disk")
    (root / "latest").symlink_to("near")
    (root / "near" / "around").symlink_to(root)
    found = collect(root)
    assert [run.folder for run in found.runs] == [root / "linked/runs/far", root / "near"]
    assert found.problems == ()


def test_a_run_that_ends_while_it_is_read_is_unfinished_or_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = written(tmp_path)
    records, result = ((folder / name).read_text() for name in ("metrics.jsonl", "result.json"))
    (folder / "metrics.jsonl").write_text(records[: records.index("\n") + 1])
    (folder / "result.json").unlink()

    read = RunFolder.read_records

    def read_and_end(files: RunFolder) -> list[Record]:
        found = read(files)
        (folder / "metrics.jsonl").write_text(records)
        (folder / "result.json").write_text(result)
        return found

    monkeypatch.setattr(RunFolder, "read_records", read_and_end)
    assert only_problem(tmp_path) == "not finished: 1 of 3 epochs"
    assert len(collect(tmp_path).runs) == 1


def test_a_run_of_another_recipe_is_kept_without_an_address(tmp_path: Path) -> None:
    made = a_run(a_recipe("ours", "bop", "cifar10-resnet18"), [10.0, 20.0, 30.0])
    folder = write_run(made, tmp_path / "one")
    text = (folder / "recipe.json").read_text()
    (folder / "recipe.json").write_text(text.replace('"batch": 128', '"batch": 64'))
    assert [run.cell_ids for run in collect(tmp_path).runs] == [()]


def test_a_run_without_a_histogram_is_whole(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    (folder / "latents.json").unlink()
    assert read_run(folder).histogram is None
    (folder / "latents.json").write_text("null")
    assert read_run(folder).histogram is None


def test_an_unfinished_run_is_a_problem_that_says_how_far_it_is(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    (folder / "result.json").unlink()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:2]))
    assert only_problem(tmp_path) == "not finished: 2 of 3 epochs"


def test_a_run_that_has_only_begun_is_a_problem(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    for name in ("result.json", "metrics.jsonl", "environment.json"):
        (folder / name).unlink()
    assert only_problem(tmp_path) == "not finished: 0 of 3 epochs"


def test_a_finished_run_whose_records_were_cut_is_a_problem(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:2]))
    assert only_problem(tmp_path) == "incomplete: metrics.jsonl has 2 records of 3 epochs"


def test_a_recipe_of_another_version_is_a_problem_that_says_what_is_unknown(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    plain = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps({**plain, "entropy": 1}))
    assert "entropy is no field of Recipe" in only_problem(tmp_path)
    (folder / "recipe.json").write_text(json.dumps({**plain, "estimator": {"kind": "Later"}}))
    assert "class Later is not installed" in only_problem(tmp_path)
    (folder / "environment.json").write_text(json.dumps([{"adaste": "9.1"}]))
    assert only_problem(tmp_path).endswith(f"; it was made by adaste 9.1, and this is {__version__}")


def replace(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("recipe.json", lambda text: text[:50], "holds no recipe"),
        ("recipe.json", lambda text: "[" * 100_000, "nested too deeply"),
        ("metrics.jsonl", lambda text: "{}\n" * 3, r"metrics.jsonl is damaged"),
        ("metrics.jsonl", lambda text: "[" * 100_000 + "\n", "nested too deeply"),
        ("metrics.jsonl", lambda text: "".join(text.splitlines(keepends=True)[::-1]), "epochs are not 1, 2, 3"),
        ("metrics.jsonl", replace('"test_accuracy": 92.0', '"test_accuracy": "92"'), "test_accuracy is no number"),
        (
            "metrics.jsonl",
            replace('"test_accuracy": 92.0', '"test_accuracy": 920'),
            "test accuracy of epoch 2 is 920 %",
        ),
        (
            "metrics.jsonl",
            replace('"test_accuracy": 92.0', '"test_accuracy": NaN'),
            "test accuracy of epoch 2 is nan %",
        ),
        ("metrics.jsonl", replace('"test_accuracy": 92.0', '"test_accuracy": true'), "test_accuracy is no number"),
        ("metrics.jsonl", replace('"loss"', '"loss": null, "loss_"'), "damaged"),
        ("metrics.jsonl", replace('"test_accuracy": 91.5', '"test_accuracy": null'), "the last epoch was not tested"),
        ("result.json", lambda text: text[:20], "result.json is damaged"),
        ("result.json", lambda text: "[1, 2]", "result.json is damaged"),
        ("result.json", replace('"last_accuracy": 91.5', '"last_accuracy": 95.5'), "is 95.5 in result.json and 91.5"),
        ("result.json", replace('"seconds": 60.0', '"seconds": "60"'), "seconds must be a number, got '60'"),
        (
            "result.json",
            replace('"best_accuracy": 92.0', '"best_accuracy": null'),
            "best_accuracy must be a number, got None",
        ),
        (
            "result.json",
            replace('"best_accuracy": 92.0', '"best_accuracy": 99.9'),
            "best_accuracy is 99.9 in result.json",
        ),
        (
            "result.json",
            replace('"best_epoch": 1', '"best_epoch": 2'),
            "best_epoch is 2 in result.json and 1 by metrics",
        ),
        ("result.json", replace('"epochs": 3', '"epochs": 999'), "epochs is 999 in result.json and 3 by metrics.jsonl"),
        ("environment.json", lambda text: "{}", "environment.json is damaged .*no list of starts"),
        ("environment.json", lambda text: "[1]", "environment.json is damaged .*no list of starts"),
        ("environment.json", lambda text: "[", "environment.json is damaged"),
        ("latents.json", lambda text: '{"reach": 1}', r"latents.json is damaged \('counts'\): remove it"),
        ("latents.json", lambda text: "[", "latents.json is damaged"),
    ],
)
def test_a_damaged_file_is_a_problem_of_its_run_alone(
    tmp_path: Path, name: str, damage: Callable[[str], str], reason: str
) -> None:
    _, folder = written(tmp_path)
    good, _ = written(tmp_path, "other", seed=1)
    before = (folder / name).read_text()
    (folder / name).write_text(damage(before))
    assert (folder / name).read_text() != before
    found = collect(tmp_path)
    assert [run.digest for run in found.runs] == [good.digest]
    (problem,) = found.problems
    assert problem.folder == folder
    assert re.search(reason, problem.reason)


def test_a_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    (folder / "metrics.jsonl").write_bytes(b"\xff\xfe\n" * 3)
    assert "utf-8" in only_problem(tmp_path)


def test_the_same_run_twice_counts_once(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    shutil.copytree(folder, tmp_path / "two")
    found = collect(tmp_path)
    assert [run.folder for run in found.runs] == [folder]
    (problem,) = found.problems
    assert problem.folder == tmp_path / "two"
    assert problem.reason == f"the same recipe as in {folder.relative_to(tmp_path)}, which is shown"


def test_of_two_runs_of_a_recipe_the_one_named_by_its_digest_is_shown(tmp_path: Path) -> None:
    made, folder = written(tmp_path, "a copy")
    shutil.copytree(folder, own := tmp_path / f"mine-{made.digest}")
    assert [run.folder for run in collect(tmp_path).runs] == [own]
    shutil.rmtree(folder)
    write_run(a_run(made.recipe, [40.0, 80.0, 70.0]), folder)
    found = collect(tmp_path)
    assert [run.folder for run in found.runs] == [own]
    assert [(problem.folder, problem.reason) for problem in found.problems] == [
        (
            folder,
            f"the same recipe as in {own.name}, which is shown, but with other numbers: 70.00 % after the last epoch, "
            "there 91.50 %",
        )
    ]


@pytest.mark.parametrize("left", ["metrics.jsonl", "result.json"])
def test_a_run_without_its_recipe_is_a_problem(tmp_path: Path, left: str) -> None:
    _, folder = written(tmp_path)
    for path in folder.iterdir():
        if path.name != left:
            path.unlink()
    assert only_problem(tmp_path) == "damaged: recipe.json is missing, and nobody knows what the run was"


def test_a_folder_that_is_named_by_the_digest_of_another_recipe_is_a_problem(tmp_path: Path) -> None:
    made, _ = written(tmp_path, "mine-deadbeefdeadbeef")
    reason = f"its name ends in deadbeefdeadbeef, and the digest of its recipe is {made.digest}"
    assert only_problem(tmp_path) == reason


def test_a_folder_that_nobody_may_look_into_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = written(tmp_path)
    looked = os.scandir

    def closed(path: str) -> Any:
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return looked(path)

    monkeypatch.setattr(os, "scandir", closed)
    assert only_problem(tmp_path) == "cannot be read (Permission denied)"


def test_recipes_of_another_version_may_have_had_another_digest(tmp_path: Path) -> None:
    _, folder = written(tmp_path, "mine-deadbeefdeadbeef")
    made_by_version(folder, "0.0.9")
    (run,) = collect(tmp_path).runs
    assert run.other_versions == ("0.0.9",)


def test_runs_of_another_version_are_named(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    written(tmp_path, "other", seed=1)
    made_by_version(folder, "0.0.9")
    found = collect(tmp_path)
    assert len(found.runs) == 2
    assert found.foreign == {folder: "0.0.9"}


def test_a_damaged_copy_does_not_hide_a_whole_one(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    shutil.copytree(folder, tmp_path / "two")
    (folder / "result.json").unlink()
    assert [run.folder.name for run in collect(tmp_path).runs] == ["two"]


def test_without_its_environment_nobody_knows_what_a_run_ran_on(tmp_path: Path) -> None:
    _, folder = written(tmp_path)
    (folder / "environment.json").unlink()
    assert only_problem(tmp_path).endswith("environment.json is missing: nobody knows what the run ran on")


def test_a_folder_without_runs_is_empty_and_no_folder_is_an_error(tmp_path: Path) -> None:
    assert collect(tmp_path).runs == ()
    with pytest.raises(ValueError, match=r"nowhere is not a folder: results are folders of runs"):
        collect(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file is not a folder"):
        collect(tmp_path / "file")


def test_equal_recipes_for_other_images_of_ones_own_are_all_shown(tmp_path: Path) -> None:
    recipe = dataclasses.replace(a_recipe("ours", "adaste", "cifar10-resnet18"), data="folder")
    for name in ("cats", "dogs", "again"):
        made = a_run(recipe, 90.0, data="0123" if name == "cats" else "4567")
        write_run(made, tmp_path / f"{name}-{recipe.digest}")
    found = collect(tmp_path)
    assert [run.folder.name.partition("-")[0] for run in found.runs] == ["again", "cats"]
    assert {run.digest for run in found.runs} == {recipe.digest} and len({run.key for run in found.runs}) == 2
    assert [problem.reason for problem in found.problems] == [
        f"the same recipe as in again-{recipe.digest}, which is shown"
    ]


@pytest.mark.parametrize(("data", "digests"), [("cifar10", ["0123", "4567"]), ("folder", [None, None])])
def test_a_recipe_is_shown_once_where_it_names_the_images_or_where_nobody_knows_them(
    tmp_path: Path, data: str, digests: list[str | None]
) -> None:
    recipe = dataclasses.replace(a_recipe("ours", "adaste", "cifar10-resnet18"), data=data)
    for name, digest in zip(("one", "two"), digests, strict=True):
        write_run(a_run(recipe, 90.0, **({"data": digest} if digest else {})), tmp_path / name)
    found = collect(tmp_path)
    assert [run.key for run in found.runs] == [recipe.digest] and len(found.problems) == 1
