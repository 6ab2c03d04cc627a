"""What the page shows is what the runs wrote."""

import dataclasses
import json
import math
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaste.cli import main
from adaste.paper.index import Collection, Problem, Run, collect
from adaste.paper.report.contents import contents, finite
from adaste.paper.report.page import as_script, page
from adaste.paper.tables import FAMILIES
from support.paper_runs import a_recipe, a_run, write_run

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).parents[3] / "results"
ROOT = Path("runs")
NOW = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)


def shown(*runs: Run, problems: tuple[Problem, ...] = ()) -> dict[str, Any]:
    return contents(Collection(runs, problems), ROOT)


def cells_in(data: dict[str, Any], table: str, method: str, family: str, setup: str) -> Any:
    rows = next(entry["rows"] for entry in data["tables"] if entry["name"] == table)
    return next(row["cells"][family][setup] for row in rows if row["method"] == method)


def embedded(text: str) -> dict[str, Any]:
    """The data inside of a page, as a browser finds them."""
    start = text.index('<script type="application/json" id="contents">')
    inside = text[text.index(">", start) + 1 :]
    data: dict[str, Any] = json.loads(inside[: inside.index("</script>")])
    return data


def test_every_committed_run_is_on_the_page_with_its_own_numbers() -> None:
    data = contents(collect(RESULTS), RESULTS)
    folders = {path.parent for path in RESULTS.rglob("recipe.json")}
    assert len(data["runs"]) + len(data["problems"]) == len(folders)
    for run in data["runs"]:
        folder = RESULTS / run["folder"]
        result = json.loads((folder / "result.json").read_text())
        records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert run["last"] == result["last_accuracy"]
        assert run["best"] == max(record["test_accuracy"] or 0 for record in records)
        for name, column in run["curves"].items():
            factor = 100 if name == "flipped" else 1  # in percent
            told = [None if record[name] is None else factor * record[name] for record in records]
            assert all(
                (wanted is None and short is None) or math.isclose(short, wanted, rel_tol=5.1e-4)
                for short, wanted in zip(column, told, strict=True)
            ), name


def test_cells_hold_the_means_of_their_runs() -> None:
    data = contents(collect(RESULTS), RESULTS)
    last = {run["digest"]: run["last"] for run in data["runs"]}
    cells = [
        cell
        for table in data["tables"]
        for row in table["rows"]
        for setups in row["cells"].values()
        for several in setups.values()
        for cell in several or []
    ]
    assert cells
    for cell in cells:
        assert cell["last"]["mean"] == pytest.approx(statistics.fmean(last[run] for run in cell["runs"]), abs=1e-4)


def test_a_cell_has_mean_spread_and_the_difference_from_the_published_number() -> None:
    runs = [
        a_run(a_recipe("ours", "adaste", "cifar10-resnet18", seed=seed), [50.0, 94.5, last])
        for seed, last in enumerate((93.0, 94.0))
    ]
    (cell,) = cells_in(shown(*runs), "table1", "adaste", "ours", "cifar10-resnet18")
    assert cell["last"] == {"mean": 93.5, "spread": round(statistics.stdev((93.0, 94.0)), 4), "difference": -0.46}
    assert cell["best"] == {"mean": 94.5, "spread": 0.0, "difference": 0.54}
    assert cell["runs"] == [run.digest for run in runs]
    assert cell["epochs"] == 3


def test_the_longest_runs_come_first_and_the_others_stay_reachable() -> None:
    runs = [a_run(a_recipe("ours", "adaste", "cifar10-resnet18", epochs=epochs), 90.0) for epochs in (3, 5, 4)]
    cells = cells_in(shown(*runs), "table1", "adaste", "ours", "cifar10-resnet18")
    assert [cell["epochs"] for cell in cells] == [5, 4, 3]


def test_a_missing_run_differs_from_a_recipe_that_there_is_not() -> None:
    data = shown()
    assert cells_in(data, "table1", "pmf", "ours", "cifar10-vgg16") == []
    assert cells_in(data, "table1", "pmf", "paper", "cifar10-vgg16") is None


def test_runs_of_other_recipes_are_shown_but_are_in_no_cell() -> None:
    recipe = a_recipe("ours", "adaste", "cifar10-resnet18")
    other = a_run(dataclasses.replace(recipe, batch=100), 99.0)
    data = shown(other)
    assert [run["cells"] for run in data["runs"]] == [[]]
    assert cells_in(data, "table1", "adaste", "ours", "cifar10-resnet18") == []


def test_folders_that_were_left_out_are_told_with_their_reasons_and_without_paths_of_this_machine(
    tmp_path: Path,
) -> None:
    folder = write_run(a_run(a_recipe("ours", "adaste", "cifar10-resnet18"), 90.0), tmp_path / "runs" / "whole")
    unfinished = write_run(a_run(a_recipe("ours", "adaste", "cifar10-vgg16"), 90.0), tmp_path / "runs" / "unfinished")
    (unfinished / "result.json").unlink()
    damaged = write_run(a_run(a_recipe("ours", "pmf", "cifar10-vgg16"), 90.0), tmp_path / "runs" / "damaged")
    (damaged / "metrics.jsonl").write_text("{nonsense\n")
    data = contents(collect(tmp_path), tmp_path)
    assert [run["folder"] for run in data["runs"]] == [folder.relative_to(tmp_path).as_posix()]
    assert [problem["folder"] for problem in data["problems"]] == ["runs/damaged", "runs/unfinished"]
    assert "not finished" in data["problems"][1]["reason"]
    assert str(tmp_path) not in json.dumps(data)


def test_methods_keep_their_colours_from_family_to_family() -> None:
    slots: dict[str, set[int]] = {}
    for family in shown()["families"]:
        used = [method["slot"] for method in family["methods"]]
        assert len(set(used)) == len(used)
        assert {method["name"] for method in family["methods"]} == set(FAMILIES[family["name"]].makers)
        if family["name"] != "ablation":
            for method in family["methods"]:
                slots.setdefault(method["name"], set()).add(method["slot"])
    assert all(len(found) == 1 for found in slots.values())


def test_runs_on_other_images_of_ones_own_have_keys_and_curves_of_their_own() -> None:
    usual = dataclasses.replace(a_recipe("ours", "adaste", "cifar10-resnet18"), data="folder")
    made = [(dataclasses.replace(usual, seed=seed), images) for images in ("cats", "dogs") for seed in (0, 1)]
    runs = [a_run(recipe, 90.0, data=images) for recipe, images in made]
    data = shown(*runs)
    assert [run["key"] for run in data["runs"]] == [run.key for run in runs] and len({run.key for run in runs}) == 4
    assert [run["digest"] for run in data["runs"]] == [run.digest for run in runs]
    assert [recipe["runs"] for recipe in data["recipes"]] == [
        [run.key for run in runs[:2]],
        [run.key for run in runs[2:]],
    ]
    assert [other["cell"]["runs"] for other in data["others"]] == [recipe["runs"] for recipe in data["recipes"]]


def test_several_seeds_of_a_recipe_have_one_curve_and_a_single_run_has_its_own() -> None:
    first, second = (a_recipe("ours", "adaste", "cifar10-resnet18", seed=seed) for seed in (0, 1))
    runs = [
        a_run(first, [None, 94.5, 93.0]),
        a_run(second, [None, 95.5, 91.0]),
        a_run(a_recipe("ours", "bop", "cifar10-resnet18"), [70.0, 92.0, 91.0]),
    ]
    several, single = shown(*runs)["recipes"]
    assert several["runs"] == [run.digest for run in runs[:2]] and single["runs"] == [runs[2].digest]
    assert several["cells"] == [["ours", "adaste", "cifar10-resnet18"]]
    assert several["curves"]["test_accuracy"] == {
        "mean": [None, 95.0, 92.0],
        "low": [None, 94.5, 91.0],
        "high": [None, 95.5, 93.0],
        "count": 2,
    }
    assert "holdout_accuracy" not in several["curves"] and "curves" not in single


def test_a_figure_tells_the_length_of_its_curves_and_what_its_panels_lack() -> None:
    run = a_run(a_recipe("ours", "adaste", "cifar10-resnet18", epochs=3), 90.0)
    figure = next(entry for entry in shown(run)["figures"] if entry["name"] == "figure3")
    assert figure["lengths"]["ours"]["cifar10-resnet18"] == 3
    assert figure["lengths"]["ours"]["cifar10-vgg16"] is None
    assert figure["notes"]["ours"]["cifar10-resnet18"] == (
        "Missing: BinaryConnect; MD-tanh-s; BayesBiNN; AdaSTE, annealed. Runs of 3 epochs instead of 200."
    )


def test_a_method_is_called_what_the_tables_of_its_family_call_it() -> None:
    made = [a_recipe(family, "straight-through", "cifar10-resnet18") for family in ("ours", "ablation")]
    titles = [run["title"] for run in shown(*(a_run(recipe, 90.0) for recipe in made))["runs"]]
    assert titles == [
        ["straight-through with decay", "CIFAR-10 ResNet-18"],
        ["straight-through, same latent dynamics", "CIFAR-10 ResNet-18"],
    ]


def test_what_json_cannot_hold_is_left_empty() -> None:
    run = a_run(a_recipe("ours", "adaste", "cifar10-resnet18"), 90.0, load=math.inf)
    diverged = dataclasses.replace(run.records[0], loss=math.nan)
    data = shown(dataclasses.replace(run, records=(diverged, *run.records[1:])))
    assert data["runs"][0]["curves"]["loss"][0] is None
    assert data["runs"][0]["environments"][0]["load"] is None
    as_script(data)


def test_fields_without_a_single_number_are_left_out() -> None:
    data = shown(a_run(a_recipe("ours", "adaste", "cifar10-resnet18"), 90.0))
    assert "holdout_accuracy" not in data["runs"][0]["curves"]


def test_a_hundred_and_fifty_long_runs_make_less_than_six_megabytes() -> None:
    """Real numbers have many digits."""
    noisy = [90 + 3 * math.sin(epoch) for epoch in range(500)]
    with_one = len(
        page(Collection((a_run(a_recipe("released", "adaste", "cifar10-vgg16", epochs=500), noisy),), ()), ROOT, NOW)
    )
    with_none = len(page(Collection((), ()), ROOT, NOW))
    assert with_none + 150 * (with_one - with_none) < 6e6


@given(st.text() | st.sampled_from(["</script><script>alert(1)</script>", "<!--", "{{script}}", "\u2028"]))
def test_no_text_leaves_the_place_of_the_data(text: str) -> None:
    inside = as_script({"text": text})
    assert "<" not in inside
    assert json.loads(inside) == {"text": text}


def test_a_hostile_name_is_nothing_but_a_name() -> None:
    name = "</script><img src=x onerror=alert(1)>{{script}}"
    run = dataclasses.replace(a_run(a_recipe("ours", "adaste", "cifar10-resnet18"), 90.0), folder=ROOT / name)
    text = page(Collection((run,), (Problem(ROOT / name, name),)), ROOT, NOW)
    assert "<img" not in text
    assert embedded(text)["runs"][0]["folder"] == name
    assert embedded(text)["problems"] == [{"folder": name, "reason": name}]


def test_the_page_asks_for_nothing_and_knows_when_it_was_made() -> None:
    text = page(Collection((), ()), ROOT, NOW)
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    assert "src=" not in text
    assert text.count("http://") == text.count("http://www.w3.org/2000/svg")
    assert "https://" not in text
    assert embedded(text)["about"] == {"version": "0.1.0", "made": "2026-11-16T12:30:00+00:00", "root": "runs"}


@given(
    st.recursive(st.floats() | st.text() | st.none(), lambda part: st.lists(part) | st.dictionaries(st.text(), part))
)
def test_finite_data_are_json_whatever_they_were(value: Any) -> None:
    json.dumps(finite(value), allow_nan=False)


def test_the_command_writes_the_report_and_says_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(a_run(a_recipe("ours", "adaste", "cifar10-resnet18"), 90.0), tmp_path / "runs" / "one")
    (tmp_path / "runs" / "two").mkdir()
    (tmp_path / "runs" / "two" / "recipe.json").write_text("{}")
    assert main(["report", "runs"]) == 0
    assert capsys.readouterr().out == "report.html: 1 run, 1 folder left out\n"
    assert len(embedded((tmp_path / "report.html").read_text())["runs"]) == 1


@pytest.mark.parametrize(
    ("form", "file", "start"),
    [("markdown", "report.md", "|"), ("latex", "report.tex", "%"), ("csv", "report.csv", "table")],
)
def test_the_command_writes_tables_too(
    form: str, file: str, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(a_run(a_recipe("ours", "adaste", "cifar10-resnet18"), 91.5), tmp_path / "runs" / "one")
    assert main(["report", "runs", "--format", form]) == 0
    text = (tmp_path / file).read_text()
    assert start in text
    assert "91.5" in text


def test_the_command_can_keep_to_runs_of_one_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for epochs in (3, 5):
        recipe = a_recipe("ours", "adaste", "cifar10-resnet18", epochs=epochs)
        write_run(a_run(recipe, 90.0), tmp_path / "runs" / str(epochs))
    output = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "runs"), "--epochs", "3", "-o", str(output)]) == 0
    assert [run["epochs"] for run in embedded(output.read_text())["runs"]] == [3]
    assert main(["report", str(tmp_path / "runs"), "--epochs", "4", "-o", str(output)]) == 1
    assert "there is no finished run of 4 epochs; there are runs of 3, 5" in capsys.readouterr().err
    for folder in (tmp_path / "runs").iterdir():
        (folder / "result.json").unlink()
    assert main(["report", str(tmp_path / "runs"), "--epochs", "4", "-o", str(output)]) == 1
    assert "there is no finished run at all" in capsys.readouterr().err


def test_a_folder_that_there_is_not_is_an_error_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "nowhere"]) == 1
    assert "nowhere is not a folder" in capsys.readouterr().err
