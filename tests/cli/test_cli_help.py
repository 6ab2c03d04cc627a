"""What the command line says of itself and of what there is, and what it does not understand."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

import adaste
from adaste.cli import main, options, parser
from adaste.recipes.bases import Base
from adaste.recipes.presets import RECIPES
from adaste.recipes.recipe import Recipe
from adaste.recipes.registry import ADMITTED
from adaste.runs.run import Options
from adaste.training.execution import ExecutionMode


def test_help_and_version_do_not_wait_for_torch() -> None:
    program = (
        "import sys\nfrom adaste.cli import main\n"
        "for option in ('--help', '--version'):\n"
        "    try:\n        main([option])\n    except SystemExit as end:\n        assert end.code == 0\n"
        "assert not {'torch', 'numpy', 'rich'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"adaste {adaste.__version__}" in done.stdout


@pytest.mark.slow
def test_importing_the_package_does_not_load_the_compiler() -> None:
    program = "import sys, adaste; adaste.LatentOptimizer; print('torch._dynamo' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(
    "command",
    [
        *(["train"], ["evaluate"], ["export"], ["study"], ["reproduce"], ["report"], ["list"], ["show"]),
        *(["data"], ["data", "list"], ["data", "get"]),
    ],
)
def test_every_command_explains_itself_with_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0
    assert "examples:" in out and f"adaste {command[0]}" in out


def test_choices_that_are_written_out_to_start_soon_are_those_of_the_library() -> None:
    assert ("auto", *(mode.value for mode in ExecutionMode)) == options.ENGINES


@pytest.mark.parametrize("command", ["train", "study", "reproduce"])
def test_defaults_that_are_written_out_to_start_soon_are_those_of_the_library(command: str) -> None:
    found = vars(parser().parse_args([command, "x"]))
    usual = vars(Options())
    assert {name: found[name] for name in usual} == usual


@pytest.mark.parametrize("arguments", [[], ["trian"], ["train"], ["train", "x", "--keep", "0"], ["study"]])
def test_what_is_not_understood_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "option"), [(["train", "x"], "--set"), (["data", "get", "x"], "--data")])
def test_an_unknown_option_is_refused_with_those_of_its_command(
    command: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command, "--lr", "0.1"])
    told = capsys.readouterr().err
    assert end.value.code == 2 and "unrecognized arguments: --lr 0.1" in told and f"[{option} " in told


def test_lists_name_what_there_is(call) -> None:
    assert "md-softmax-s" in call("list", "methods")[1]
    assert "binaryconnect-vgg" in call("list", "networks")[1]
    assert "fashion-mnist" in call("list", "data")[1]
    everything = call("list")[1]
    assert all(title in everything.splitlines() for title in ("methods", "networks", "data", "recipes"))


def test_lists_name_what_a_recipe_is_made_of(call) -> None:
    def names(what: str) -> list[str]:
        return [line.split()[0] for line in call("list", what)[1].splitlines()]

    assert names("bases") == [name for name, kind in ADMITTED.items() if issubclass(kind, Base)]
    assert names("estimators") == [name for name, kind in ADMITTED.items() if issubclass(kind, adaste.Estimator)]
    assert names("fields") == [field.name for field in dataclasses.fields(Recipe)]
    for line, field in zip(call("list", "fields")[1].splitlines(), dataclasses.fields(Recipe), strict=True):
        name, _, *default, description = re.split(r"  +", line)
        assert len(default) == (field.default is not dataclasses.MISSING), f"what is {name}? {description}"


def test_recipes_are_listed_compactly_or_all_or_by_a_part_of_their_name(call) -> None:
    assert len(call("list", "recipes")[1].splitlines()) < 15
    names = [line.split()[0] for line in call("list", "recipes", "--all")[1].splitlines()]
    assert names == list(RECIPES)
    some = [line.split()[0] for line in call("list", "recipes", "digits-mlp")[1].splitlines()]
    assert some == [name for name in RECIPES if "digits-mlp" in name]
    code, out, err = call("list", "recipes", "nosuch")
    assert (code, out) == (1, "") and "'nosuch'" in err


def test_data_are_listed_with_the_place_they_were_found_in(call, tmp_path: Path) -> None:
    code, out, _ = call("data", "list", "--data", str(tmp_path))
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert "not found" in lines["cifar10"]
    assert "sklearn" in lines["digits"]


def test_data_that_cannot_be_downloaded_are_refused(call) -> None:
    code, _, err = call("data", "get", "digits")
    assert code == 1 and "scikit-learn" in err
    code, _, err = call("data", "get", "cifar11")
    assert code == 1 and "cifar10" in err
