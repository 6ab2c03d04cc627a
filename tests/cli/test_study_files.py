"""Study files: lists of names, recipes, runs and cells, with estimates and a limit of time."""

import json
import re
import time
from pathlib import Path

import pytest

from adaste.cli.recipe_args import find_recipes
from adaste.paper.families import SETUPS
from adaste.paper.tables import FAMILIES
from adaste.recipes.overrides import override
from adaste.recipes.presets import recipe
from adaste.runs.folder import Result, RunFolder
from adaste.runs.study.schedule import Estimate
from adaste.runs.study.study import folder_of

ROOT = Path(__file__).parents[2]
ADASTE, BOP = "digits-mlp-adaste", "digits-mlp-bop"


@pytest.fixture
def file(tmp_path: Path):
    """Writes a study file with these entries."""

    def write(*entries: object) -> str:
        path = tmp_path / "study.json"
        path.write_text(json.dumps(entries))
        return str(path)

    return write


def runs(**entry: object) -> dict[str, object]:
    return {"kind": "Runs", **entry}


def cells(**entry: object) -> dict[str, object]:
    return {"kind": "Cells", "family": "ours", "setups": ["cifar10-vgg16"], "methods": ["adaste"], **entry}


def estimate(seconds: float, at_once: int | None = None) -> dict[str, object]:
    return {"kind": "Estimate", "seconds": seconds, "at_once": at_once}


def test_an_entry_of_runs_is_a_recipe_with_changes_once_per_seed(file) -> None:
    entry = runs(recipe=BOP, set=["batch=64"], epochs=7, seeds=[3, 5], estimate=estimate(2.0, 4))
    expected = [override(recipe(BOP, epochs=7, seed=seed), ["batch=64"]) for seed in (3, 5)]
    found = find_recipes(file(entry))
    assert [(run.name, run.recipe) for run in found] == [(BOP, made) for made in expected]
    assert {run.estimate for run in found} == {Estimate(seconds=2.0, at_once=4)}


def test_a_recipe_is_also_named_by_its_file_beside_the_study_file(file, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine.json").write_text(recipe(BOP, epochs=9).to_json())
    path = file(runs(recipe="mine.json", seeds=[2]), "mine.json", runs(recipe=json.loads(recipe(BOP).to_json())))
    monkeypatch.chdir("/")
    found = find_recipes(path)
    assert [run.name for run in found] == ["mine", "mine", "digits-mlp-bop"]
    assert [run.recipe for run in found] == [recipe(BOP, epochs=9, seed=2), recipe(BOP, epochs=9), recipe(BOP)]


def test_cells_are_the_recipes_of_the_tables_with_the_names_and_estimates_of_reproduce(file) -> None:
    methods, setups = ["adaste", "md-tanh"], ["cifar10-vgg16", "cifar100-resnet18"]
    found = find_recipes(file(cells(family="released", setups=setups, methods=methods, epochs=285, seeds=[0, 1])))
    made = [
        (f"released-{setup}-{method}", FAMILIES["released"].recipe(method, SETUPS[setup], 285, seed))
        for seed in (0, 1)
        for setup in setups
        for method in methods
    ]
    assert [(run.name, run.recipe) for run in found] == made
    assert found[0].estimate is not None and found[0].estimate.seconds == pytest.approx(0.9 * 0.508)
    (given,) = find_recipes(file(cells(estimate=estimate(3.0))))
    assert given.estimate == Estimate(seconds=3.0)


def test_options_of_the_command_change_every_entry(file) -> None:
    path = file(BOP, runs(recipe=ADASTE, epochs=30, seeds=[1]), cells(epochs=300))
    bop, adaste, cell = (run.recipe for run in find_recipes(path, ["epochs=5", "seed=4", "batch=64"]))
    changed = [override(recipe(name, epochs=5, seed=4), ["batch=64"]) for name in (BOP, ADASTE)]
    assert [bop, adaste] == changed
    ours = FAMILIES["ours"].recipe("adaste", SETUPS["cifar10-vgg16"], 5, 4)
    assert cell == override(ours, ["batch=64"])


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (runs(), ["recipe is missing"]),
        (runs(recipe=BOP, epoch=3), ["epoch is no field of Runs", "near it: epochs"]),
        (runs(recipe=BOP, epochs=0), ["epochs must be a whole number of at least 1, got 0"]),
        (runs(recipe=BOP, seeds=3), ["seeds must be a list, each of it a whole number", "got 3"]),
        (runs(recipe=BOP, seeds=[]), ["seeds must be one or more different numbers", "got []", "leave them out"]),
        (runs(recipe=BOP, seeds=[0, 1, 0]), ["seeds must be one or more different numbers", "got [0, 1, 0]"]),
        (runs(recipe=BOP, epochs=3, set=["epochs=4"]), ["epochs 3 and set epochs=4 contradict each other"]),
        (cells(seeds=[1, 2], set=["seed = 2"]), ["seeds 1, 2 and set seed = 2 contradict each other"]),
        (runs(recipe=BOP, seeds=[-1]), ["seed must be a whole number of at least 0, got -1"]),
        (runs(recipe="digits-mlp-bopp"), ["no recipe 'digits-mlp-bopp'", "near it: digits-mlp-bop"]),
        (runs(recipe="lost.json"), ["lost.json: No such file"]),
        (runs(recipe="broken.json"), ["broken.json: Expecting"]),
        (runs(recipe=BOP, estimate=estimate(-1.0)), ["estimate of kind Estimate: seconds must be above 0, got -1.0"]),
        (runs(recipe=BOP, estimate=3), ["estimate must be an Estimate or null, got 3"]),
        (cells(family="hours"), ["no family 'hours'", "near it: ours", "paper, released, ours, ablation"]),
        (cells(methods=["adast"]), ["family ours has no 'adast'", "near it: adaste"]),
        (cells(setups=["cifar10"]), ["no setup 'cifar10'", "near it: cifar10-vgg16"]),
        (cells(setups=[]), ["setups must name at least one, got an empty list"]),
        ({"kind": "Cell"}, ["unknown kind 'Cell'", "near it: Cells", "there are: Recipe, Runs, Cells"]),
        (7, ["must be a Recipe or a Runs or a Cells, got 7"]),
    ],
)
def test_a_wrong_entry_is_refused_in_one_line_before_anything_starts(call, file, tmp_path: Path, entry, words) -> None:
    (tmp_path / "broken.json").write_text("{")
    for options in ([], ["--dry-run"]):
        code, out, err = call("study", file(BOP, entry), *options)
        assert (code, out) == (1, "")
        assert err.startswith("error: ") and len(err.splitlines()) == 1
        assert all(word in err for word in words), err
    assert not (tmp_path / "runs").exists()


def test_setups_without_a_recipe_of_the_method_need_an_entry_of_their_own(file) -> None:
    ours, paper = FAMILIES["ours"], FAMILIES["paper"]
    lacking = [(method, name) for method in paper.makers for name, at in SETUPS.items() if not paper.has(method, at)]
    method, setup = lacking[0]
    with pytest.raises(ValueError, match=f"entry 1.*family paper has no recipe for {method} at {setup}"):
        find_recipes(file(cells(family="paper", methods=[method], setups=[setup])))
    assert ours.has("adaste", SETUPS[setup])


def test_a_dry_run_lists_what_is_done_and_how_long_the_rest_takes(call, file, tmp_path: Path) -> None:
    done = recipe(BOP, epochs=3)
    folder = folder_of(BOP, done, tmp_path / "runs")
    folder.mkdir(parents=True)
    RunFolder(folder).write_result(Result(90.0, 90.0, 0, 3, 1.0))
    path = file(
        runs(recipe=BOP, epochs=3, estimate=estimate(1.0)),
        runs(recipe=ADASTE, epochs=100, seeds=[0, 1, 2], estimate=estimate(3.0, 2)),
        "digits-mlp-pmf",
    )
    code, out, _ = call("study", path, "--dry-run")
    *rows, total = out.splitlines()
    assert code == 0
    assert [row.split()[0] for row in rows] == [BOP, ADASTE, ADASTE, ADASTE, "digits-mlp-pmf"]
    # With two at a time, an epoch of each takes twice as long.
    assert rows[0].endswith("done") and rows[1].endswith("10:15 min") and rows[4].endswith("no estimate")
    assert total == (
        "4 of 5 runs left, about 15:22 min with 2 at a time (the shortest takes 10:15 min); 1 without an estimate"
    )
    assert list((tmp_path / "runs").iterdir()) == [folder]
    alone = call("study", path, "--dry-run", "--processes", "1")[1].splitlines()[-1]
    assert "about 15:45 min with 1 at a time" in alone


def test_a_dry_run_lists_a_run_once_that_is_asked_for_twice(call, file) -> None:
    path = file(BOP, runs(recipe=BOP, seeds=[0, 1]))
    assert call("study", path, "--dry-run")[1].splitlines()[-1].startswith("2 of 2 runs left")
    code, out, _ = call("study", path, "--dry-run", "--seeds", "3")
    assert (code, len(out.splitlines())) == (0, 2)


def test_an_option_and_a_change_that_contradict_each_other_are_refused(call, capsys) -> None:
    for command in ("train", "study", "show"):
        code, out, err = call(command, BOP, "--epochs", "2", "--set", "epochs=1")
        assert (code, out) == (1, "")
        assert err == "error: --epochs 2 and --set epochs=1 contradict each other: leave out one of the two\n"
    assert "--seed 3 and --set seed=1" in call("show", BOP, "--set", "seed=1", "--seed", "3")[2]
    assert "--seeds 0,1 and --set seed=1" in call("study", BOP, "--set", "seed=1", "--seeds", "0,1", "--dry-run")[2]
    assert call("show", BOP, "--set", "epochs=2", "--epochs", "2") == call("show", BOP, "--epochs", "2")
    with pytest.raises(SystemExit):
        call("study", BOP, "--seeds", "0,0")
    assert "must be different whole numbers, one for each run; got '0,0'" in capsys.readouterr().err


def test_no_run_starts_that_would_not_end_in_time(call, file, tmp_path: Path) -> None:
    path = file(runs(recipe=BOP, epochs=100, estimate=estimate(60.0)), runs(recipe=ADASTE, estimate=estimate(9.0)))
    code, out, _ = call("study", path, "--minutes", "1", "--device", "cpu")
    assert code == 0
    assert out.splitlines()[-1] == "2 of 2 runs left, about 1:43:30 h with 1 at a time (the shortest takes 3:15 min)"
    assert not (tmp_path / "runs").exists()


def test_what_limits_of_time_cannot_be_is_refused(call, capsys) -> None:
    for minutes in ("0", "-1", "soon"):
        with pytest.raises(SystemExit):
            call("study", BOP, "--minutes", minutes)
        assert "must be a number" in capsys.readouterr().err
    _, _, err = call("study", BOP, "--minutes", "3", "--ray", "auto")
    assert err.startswith("error: --minutes is for one machine") and len(err.splitlines()) == 1


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.json")), ids=lambda path: path.stem)
def test_every_run_of_the_studies_of_this_project_can_be_made_and_has_an_estimate(path: Path) -> None:
    found = find_recipes(str(path))
    assert len({run.recipe.digest for run in found}) == len(found)
    assert all(run.estimate is not None for run in found)
    distilled = {run.recipe.distillation.teacher for run in found if run.recipe.distillation}
    assert distilled <= {run.recipe.digest for run in found}  # teachers are trained in the same study
    assert f"({path.name})" in (ROOT / "studies" / "README.md").read_text()


def test_the_study_file_of_the_training_page_can_be_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.DOTALL)
    (tmp_path / "study.json").write_text(example)
    seeds = [(run.name, run.recipe.seed) for run in find_recipes(str(tmp_path / "study.json"))]
    named = [(BOP, 0), (ADASTE, 0), (ADASTE, 1), (ADASTE, 2)]
    assert seeds == [*named, *((f"released-cifar10-resnet18-{method}", 0) for method in ("adaste", "md-tanh"))]


@pytest.mark.slow
def test_a_run_that_is_slower_than_its_estimate_saves_when_the_time_is_over_and_goes_on(
    call, file, tmp_path: Path
) -> None:
    quick = runs(recipe=BOP, epochs=2, estimate=estimate(0.1))
    slow = runs(recipe=ADASTE, epochs=100_000, estimate=estimate(1e-4))
    options = ["--threads", "1", "--device", "cpu"]
    started = time.monotonic()
    code, out, _ = call("study", file(slow, quick), *options, "--minutes", "0.75")
    assert time.monotonic() - started < 120
    (stopped,) = (RunFolder(path) for path in (tmp_path / "runs").glob(f"{ADASTE}-*"))
    epochs = len(stopped.read_records())
    assert code == 0 and epochs > 0
    assert f"{ADASTE}, seed 0: stopped after {epochs}/100000 epochs" in out
    assert "going on in epoch" not in stopped.log_file.read_text()
    assert "2 of 2 runs left, about " in out.splitlines()[-1] and not list((tmp_path / "runs").glob(f"{BOP}-*"))
    code, out, _ = call("study", file(slow, quick), *options, "--minutes", "0.75")
    assert f"{BOP}, seed 0: " in out and "1 of 2 runs left" in out.splitlines()[-1]
    assert len(stopped.read_records()) == epochs  # by its own records it would not end in time, and is not started
