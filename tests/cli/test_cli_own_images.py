"""Images of one's own by the name of a recipe, and what runs are called."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adaste.recipes.recipe import Recipe
from adaste.runs.folder import RunFolder

SMALL = ["--epochs", "1", "--set", "batch=16", "--set", "precision=float32", "--threads", "1"]


def write_images(root: Path, *, train: int = 30, side: int = 40, seed: int = 0) -> Path:
    """Two classes of noise, `train` images in all, and a few to test with."""
    random = np.random.default_rng(seed)
    for part, count in (("train", train), ("val", 6)):
        for index in range(count):
            folder = root / part / ("cats", "dogs")[index % 2]
            folder.mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 256, (side, side + 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{index}.png")
    return root


def shown(call, *arguments: str) -> Recipe:
    code, out, err = call("show", *arguments)
    assert code == 0, err
    return Recipe.from_json(out)


def test_images_of_ones_own_are_trained_on_by_the_name_of_a_recipe_and_name_the_run(call, tmp_path: Path) -> None:
    flowers = write_images(tmp_path / "flowers")
    code, out, err = call("train", "folder:32-mlp-adaste", "--data", str(flowers), *SMALL)
    assert code == 0, err
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("flowers-32-mlp-adaste-")
    assert RunFolder(folder).read_result() is not None
    assert "flowers-32-mlp-adaste" in out.splitlines()[-1]


@pytest.mark.slow
def test_equal_recipes_for_other_images_are_other_runs(call, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        folder = write_images(tmp_path / name, seed=seed)
        code, out, err = call("train", "folder:32-mlp-bop", "--data", str(folder), *SMALL)
        assert code == 0 and "is finished" not in out, err
    assert len(list((tmp_path / "runs").iterdir())) == 2
    code, out, _ = call("report", "runs", "-o", "runs.csv")
    assert code == 0 and out == "runs.csv: 2 runs\n"
    assert all(f"{name}-32-mlp-bop" in (tmp_path / "runs.csv").read_text() for name in ("one", "two"))
    write_images(tmp_path / "one", seed=3)
    code, _, err = call("train", "folder:32-mlp-bop", "--data", str(tmp_path / "one"), *SMALL)
    assert code == 1 and "other images" in err


def test_the_number_and_the_size_of_the_images_decide_on_the_recipe(call, tmp_path: Path) -> None:
    few, many = (write_images(tmp_path / str(count), train=count) for count in (10, 40))
    recipes = [shown(call, "folder:128-resnet18-bayesbinn", "--data", str(folder)) for folder in (few, many)]
    assert [recipe.estimator.train_size for recipe in recipes] == [100, 400]
    networks = {
        side: shown(call, f"folder:{side}-resnet18-adaste", "--data", str(few)).network.stem for side in (32, 64, 224)
    }
    assert networks == {32: "small", 64: "strided", 224: "large"}
    assert shown(call, "folder-resnet18-adaste", "--data", str(few)).augmentation[0].size == 64


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder-resnet18-adste", ["near it: folder-resnet18-adaste"]),
        ("folder:4-resnet18-adaste", ["folder:4", "8 to 1024"]),
        ("folder:x-mlp-adaste", ["folder:x", "8 to 1024"]),
        ("folder:32", ["there is no recipe", "Names are <data>-<network>-<method>"]),
    ],
)
def test_a_wrong_name_or_a_wrong_place_is_refused_in_one_line(call, tmp_path: Path, name: str, words) -> None:
    folder = write_images(tmp_path / "flowers", train=4)
    code, out, err = call("train", name, "--data", str(folder))
    assert (code, out) == (1, "") and len(err.splitlines()) == 1
    assert all(word in err for word in words), err
    (tmp_path / "empty").mkdir()
    code, _, err = call("train", "folder-mlp-adaste", "--data", str(tmp_path / "empty"))
    assert code == 1 and "train/<class>/" in err


@pytest.mark.parametrize(
    ("recipe", "changes", "name"),
    [
        ("digits-mlp-adaste", [], "digits-mlp-adaste"),
        ("digits-mlp-adaste", ["estimator.mu=50", "batch=64"], "digits-mlp-adaste"),
        ("digits-mlp-adaste", ["estimator=StraightThrough"], "digits-mlp-straightthrough"),
        ("digits-mlp-adaste", ["estimator=AdaSTE"], "digits-mlp-adaste-printedslope"),
        ("digits-mlp-adaste", ["estimator.slope=ExactSlope"], "digits-mlp-adaste-exactslope"),
        ("digits-mlp-adaste", ["base=Adam", "base.lr=0.1"], "digits-mlp-adaste-adam"),
        ("digits-vgg-small-md-tanh-s", ["network=MLP", "network.widths=[9]"], "digits-mlp-md-tanh-s"),
        ("my.json", ["estimator=Bop"], "my-bop"),
        ("my.json", ["estimator.mu=50"], "my"),
    ],
)
def test_a_run_is_called_after_what_it_is(call, tmp_path: Path, recipe: str, changes: list[str], name: str) -> None:
    from adaste.cli.recipe_args import find_recipe

    (tmp_path / "my.json").write_text(call("show", "digits-mlp-adaste")[1])
    assert find_recipe(recipe, changes)[0] == name


@pytest.mark.slow
def test_a_list_of_recipes_may_hold_images_of_ones_own(call, tmp_path: Path) -> None:
    flowers = write_images(tmp_path / "flowers")
    made = shown(call, "folder:32-mlp-bop", "--data", str(flowers), "--epochs", "1", "--set", "batch=16")
    listed = [{**json.loads(made.to_json()), "precision": "float32"}]
    (tmp_path / "study.json").write_text(json.dumps(listed))
    code, out, err = call("study", "study.json", "--data", str(flowers), "--threads", "1", "--device", "cpu")
    assert code == 0 and "flowers-32-mlp-bop" in out, err
