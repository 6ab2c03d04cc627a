"""`adaste reproduce` and `adaste report --figures`, as a user calls them."""

import shutil

import pytest

from adaste.cli import main
from adaste.runs.study.study import folder_of
from support.paper_runs import a_recipe, a_run, write_run

pytestmark = pytest.mark.slow


def test_a_dry_run_lists_what_is_done_and_what_is_to_do(tmp_path, capsys) -> None:
    recipe = a_recipe("released", "adaste", "cifar10-resnet18", epochs=60)
    folder = folder_of("released-cifar10-resnet18-adaste", recipe, tmp_path)
    write_run(a_run(recipe, 93.0), folder)
    arguments = ["--only", "cifar10-resnet18", "--methods", "adaste,pmf", "--family", "released", "--epochs", "60"]
    assert main(["reproduce", "table1", *arguments, "--dry-run", "--runs", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["released-cifar10-resnet18-pmf", "60", "epochs", "seed", "0", "51.2", "s"]
    assert lines[1].split()[-1] == "done"
    assert lines[2].startswith("1 of 2 runs left, about 51.2 s with 1 at a time")
    assert not list(tmp_path.glob("*pmf*"))


@pytest.mark.parametrize(
    ("length", "said"),
    [("60", "0 of 1 runs left"), ("9000", "1 of 1 runs left, about 1:30:42 h with 1 at a time")],
)
def test_a_dry_run_ends_with_what_is_left_to_do(length, said, tmp_path, capsys) -> None:
    recipe = a_recipe("released", "adaste", "cifar10-resnet18", epochs=60)
    write_run(a_run(recipe, 93.0), folder_of("released-cifar10-resnet18-adaste", recipe, tmp_path))
    arguments = ["--only", "cifar10-resnet18", "--methods", "adaste", "--family", "released", "--epochs", length]
    assert main(["reproduce", "table1", *arguments, "--dry-run", "--runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(said)


def test_an_equal_recipe_that_another_family_has_finished_is_done(tmp_path, capsys) -> None:
    recipe = a_recipe("ours", "adaste", "cifar10-resnet18", epochs=60)
    write_run(a_run(recipe, 93.0), folder_of("ours-cifar10-resnet18-adaste", recipe, tmp_path))
    assert main(["reproduce", "ablation", "--methods", "released", "--dry-run", "--runs", str(tmp_path)]) == 0
    assert "0 of 1 runs left" in capsys.readouterr().out


def test_missing_data_are_found_once_before_anything_is_begun(tmp_path, capsys) -> None:
    places = ["--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "nothing"), "--device", "cpu"]
    assert main(["reproduce", "table1", "--only", "cifar10,cifar100", "--family", "ours", *places]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: cifar10 was not found in ") and told.err.count("\n") == 1
    assert told.err.count("cifar100 was not found in ") == 1
    assert not (tmp_path / "runs").exists()


def test_a_device_that_is_not_there_is_refused_before_the_data_are_looked_for(tmp_path, capsys) -> None:
    places = ["--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "nothing"), "--device", "abacus"]
    assert main(["reproduce", "table1", "--only", "cifar10", "--family", "ours", *places]) == 1
    assert "abacus" in capsys.readouterr().err


def test_where_all_is_finished_no_data_are_needed(tmp_path, capsys) -> None:
    recipe = a_recipe("ours", "adaste", "cifar10-vgg16", epochs=1)
    write_run(a_run(recipe, 93.0), folder_of("ours-cifar10-vgg16-adaste", recipe, tmp_path / "runs"))
    arguments = ["--only", "cifar10-vgg16", "--methods", "adaste", "--family", "ours", "--epochs", "1"]
    places = ["--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "nothing"), "--device", "cpu"]
    assert main(["reproduce", "table1", *arguments, *places]) == 0
    output = capsys.readouterr().out
    assert "93.00 % after 1 epochs" in output and "`adaste report" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table7"], "nothing named 'table7' to reproduce; near it: table2"),
        (["table1", "--family", "realesed"], "no family 'realesed'; near it: released"),
        (["table1", "--ray", "localhost:1", "--processes", "2"], "--processes is for one machine"),
    ],
)
def test_mistakes_get_one_clear_line(arguments, message, capsys) -> None:
    assert main(["reproduce", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_an_empty_name_is_refused_before_anything_is_done(capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "table1", "--only", "cifar10,,"])
    assert stop.value.code == 2
    assert "must be names with commas between them" in capsys.readouterr().err


def test_a_report_draws_the_figures_there_are_runs_for(tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib")
    for method, accuracy in (("adaste", 93.0), ("bayesbinn", 92.0)):
        recipe = a_recipe("released", method, "cifar10-resnet18", epochs=5)
        write_run(a_run(recipe, accuracy), tmp_path / "runs" / method)
    shutil.copytree(tmp_path / "runs" / "adaste", tmp_path / "runs" / "again")
    output, figures = tmp_path / "report.html", tmp_path / "figures"
    assert main(["report", str(tmp_path / "runs"), "-o", str(output), "--figures", str(figures)]) == 0
    assert "2 runs, 1 folder left out" in capsys.readouterr().out
    assert {"figure3-released.svg", "figure3-released.pdf", "overview-cifar10-resnet18.svg"} <= {
        path.name for path in figures.iterdir()
    }


@pytest.mark.parametrize("form", ["html", "csv"])
def test_the_report_says_which_folders_it_leaves_out_and_why(tmp_path, capsys, form) -> None:
    for seed, name in ((0, "one"), (0, "two"), (1, "three")):
        recipe = a_recipe("ours", "adaste", "cifar10-resnet18", seed=seed)
        write_run(a_run(recipe, 90.0, adaste="0.0.9"), tmp_path / "runs" / name)
    (tmp_path / "runs" / "three" / "result.json").unlink()
    assert main(["report", str(tmp_path / "runs"), "--format", form, "-o", str(tmp_path / "report")]) == 0
    told = capsys.readouterr()
    assert "report: 1 run, 2 folders left out" in told.out
    assert told.err.splitlines() == [
        "Made by another version: one (adaste 0.0.9).",
        "Left out: three (not finished: 3 of 3 epochs).",
        "Left out: two (the same recipe as in one, which is shown).",
    ]
