"""What a run leaves behind and how to read it, and how a recipe claims a folder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adaste._util.files import write_atomically
from adaste.recipes.recipe import Recipe
from adaste.runs.histogram import Histogram
from adaste.training.records import Record

RECENT = 5
"""Epochs whose mean says how long the next ones will take."""


@dataclass(frozen=True)
class Result:
    """The outcome of a run. Accuracies in percent, on the test images, of the weights as exported."""

    last_accuracy: float
    best_accuracy: float
    """On the test images in the best epoch, which is chosen on the images held out if there are some."""
    best_epoch: int
    epochs: int
    seconds: float
    """Of training and evaluation, over all starts."""


def claim(recipe: Recipe, folder: Path) -> None:
    """Write the recipe into an empty folder; a folder of another recipe is refused."""
    path = folder / "recipe.json"
    if not path.exists():
        write_atomically(path, _readable(recipe).encode())
        return
    there = read_recipe(path)
    if there.digest != recipe.digest:
        raise ValueError(
            f"{folder} holds a run of another recipe (digest {there.digest}, this one is {recipe.digest}): "
            "use another folder"
        )


def _readable(recipe: Recipe) -> str:
    """The recipe's JSON; an error if it could never be read: the run could not go on, be tested or be told of."""
    text = recipe.to_json()
    try:
        Recipe.from_json(text)
    except ValueError as error:
        raise ValueError(
            f"no run can be written of this recipe, whose file nobody could read ({error}): runs are made of classes "
            "of this package alone; adaste.training.trainer.Training trains by any recipe and writes nothing"
        ) from error
    return text


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file that a run wrote."""
    try:
        return Recipe.from_json(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} holds no recipe: {error}") from error


def read_result(folder: Path) -> Result | None:
    """The outcome of the run in `folder`; None if it is not finished."""
    path = folder / "result.json"
    try:
        return Result(**json.loads(path.read_text())) if path.exists() else None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): remove it, and the run writes it again") from error


def read_records(folder: Path) -> list[Record]:
    """The records of the run in `folder` so far; a line that is being written is left out."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    try:
        return [Record(**json.loads(line)) for line in lines if line.endswith("\n")]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): the run writes it again when it goes on") from error


def read_histogram(folder: Path) -> Histogram | None:
    """The latents at the end of the run in `folder`; None where it wrote none or no weight is binary."""
    path = folder / "latents.json"
    try:
        plain = json.loads(path.read_text()) if path.exists() else None
        return Histogram(float(plain["reach"]), tuple(map(int, plain["counts"]))) if plain else None
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error


def best_of(records: Sequence[Record]) -> Record | None:
    """The first of the records with the highest deciding accuracy; None where nothing was tested."""
    tested = [record for record in records if record.deciding is not None]
    return max(tested, key=lambda record: record.deciding or 0.0, default=None)


def best_tested(records: Sequence[Record]) -> Record | None:
    """The first of the records with the highest test accuracy: chosen on the test images, as in the paper."""
    return max(_tested(records), key=lambda record: record.test_accuracy or 0.0, default=None)


def last_tested(records: Sequence[Record]) -> Record | None:
    """The latest record of an epoch that was tested."""
    return next(reversed(_tested(records)), None)


def seconds_left(records: Sequence[Record], epochs: int) -> float:
    """How long the epochs without a record will take if they are as the last ones with one; there must be one."""
    recent = records[-RECENT:]
    return (epochs - len(records)) * sum(record.seconds + record.evaluation_seconds for record in recent) / len(recent)


def _tested(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.test_accuracy is not None]
