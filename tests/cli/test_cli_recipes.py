"""The recipe that a command line asks for: by name or from a file, with changes, or refused in one line."""

from pathlib import Path

import pytest

from adaste.recipes.recipe import Recipe


def shown(call, *arguments: str) -> Recipe:
    code, out, _ = call("show", *arguments)
    assert code == 0
    return Recipe.from_json(out)


def test_a_named_recipe_is_made_for_its_length_however_that_is_given(call) -> None:
    short = shown(call, "digits-mlp-adaste", "--epochs", "7")
    assert short == shown(call, "digits-mlp-adaste", "--set", "epochs=7")
    assert short.epochs == short.base.lr.length == 7


def test_in_a_recipe_from_a_file_epochs_are_a_field_like_any_other(call, tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text(call("show", "digits-mlp-adaste")[1])
    changed = shown(call, "my.json", "--epochs", "7")
    assert (changed.epochs, changed.base.lr.length) == (7, 20)


@pytest.mark.parametrize("change", [["--seed", "3"], ["--set", "seed=3"]])
def test_a_seed_reaches_the_noise_of_an_estimator(call, change: list[str], tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text(call("show", "digits-mlp-bayesbinn")[1])
    for source in ("digits-mlp-bayesbinn", "my.json"):
        recipe = shown(call, source, *change)
        assert recipe.seed == recipe.estimator.noise.seed == 3


def test_later_changes_win(call) -> None:
    assert shown(call, "digits-mlp-adaste", "--set", "epochs=3", "--set", "epochs=5", "--set", "batch=64").epochs == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["digits-mlp-adste"], ["digits-mlp-adste", "near it: digits-mlp-adaste"]),
        (["digits-mlp-adaste", "--set", "base.momentun=1"], ["base.momentun", "near it: momentum"]),
        (["digits-mlp-adaste", "--set", "batch"], ["key=value", "'batch'"]),
        (["digits-mlp-adaste", "--epochs", "many"], ["epochs", "many"]),
        (["digits-mlp-adaste", "--epochs", "0"], ["epochs", "0"]),
        (["missing.json"], ["missing.json", "No such file"]),
        (["broken.json"], ["broken.json"]),
        (["two.json"], ["two.json", "2 recipes", "adaste study"]),
        (["wrong.json"], ["wrong.json", "entry 2", "near it"]),
        (["twice.json"], ["twice.json", "'kind' is given 2 times"]),
        (["deep.json"], ["deep.json", "nested too deeply"]),
        (["empty.json"], ["empty.json", "the list is empty"]),
    ],
)
def test_a_recipe_that_is_none_is_refused_in_one_line(call, tmp_path: Path, arguments, words) -> None:
    (tmp_path / "broken.json").write_text('{"kind": "Recipe"')
    (tmp_path / "two.json").write_text('["digits-mlp-bop", "digits-mlp-pmf"]')
    (tmp_path / "twice.json").write_text('[{"kind": "Recipe", "kind": "Recipe"}]')
    (tmp_path / "deep.json").write_text("[" * 900 + "]" * 900)
    (tmp_path / "empty.json").write_text("[]")
    (tmp_path / "wrong.json").write_text('["digits-mlp-bop", "digits-mlp-bopp"]')
    for command in ("train", "show"):
        code, out, err = call(command, *arguments)
        assert (code, out) == (1, "")
        assert len(err.splitlines()) == 1 and err.startswith("error: ")
        assert all(word in err for word in words), err
    assert not (tmp_path / "runs").exists()


def test_debug_shows_where_an_error_comes_from(call) -> None:
    with pytest.raises(ValueError, match="no recipe"):
        call("show", "nosuch", "--debug")
