"""Runs that nobody made, in the form of real ones: true recipes with numbers of our own."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adaste.paper.families import SETUPS
from adaste.paper.index import Run
from adaste.paper.tables import FAMILIES, cell_ids_of
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import Result
from adaste.training.records import Histogram, Record

HARDWARE = {"gpu": "NVIDIA H200", "processor": "some CPU", "torch": "2.11"}


def a_recipe(family: str, method: str, setup: str, *, epochs: int = 3, seed: int = 0) -> Recipe:
    made = FAMILIES[family].recipe(method, SETUPS[setup], epochs, seed)
    assert made is not None, f"{family} has no {method} at {setup}"
    return made


def curve(epochs: int, last: float, start: float = 20.0) -> list[float]:
    """Accuracies that rise and end at `last` exactly."""
    rise = [last - (last - start) * math.exp(-6 * (epoch + 1) / epochs) for epoch in range(epochs - 1)]
    return [*rise, last]


def a_run(recipe: Recipe, accuracies: Sequence[float | None] | float, *, seconds: float = 60.0, **here: Any) -> Run:
    """A run with these test accuracies, epoch by epoch, or with a curve to the one given."""
    tested = curve(recipe.epochs, accuracies) if isinstance(accuracies, float) else list(accuracies)
    records = tuple(_record(epoch, accuracy, recipe) for epoch, accuracy in enumerate(tested))
    best = max((accuracy, -epoch) for epoch, accuracy in enumerate(tested) if accuracy is not None)
    last = tested[-1]
    return Run(
        folder=Path("runs") / recipe.digest,
        recipe=recipe,
        records=records,
        result=Result(last, best[0], -best[1], len(records), seconds),  # type: ignore[arg-type]
        environments=({**HARDWARE, **here},),
        histogram=Histogram(4.0, tuple(range(81))),
        cell_ids=cell_ids_of(recipe),
    )


def write_run(run: Run, folder: Path) -> Path:
    """Write the files a real run leaves behind."""
    folder.mkdir(parents=True)
    (folder / "recipe.json").write_text(run.recipe.to_json())
    (folder / "metrics.jsonl").write_text("".join(json.dumps(asdict(record)) + "\n" for record in run.records))
    (folder / "environment.json").write_text(json.dumps(list(run.environments)))
    (folder / "latents.json").write_text(json.dumps(run.histogram and asdict(run.histogram)))
    (folder / "result.json").write_text(json.dumps(asdict(run.result)))
    return folder


def _record(epoch: int, accuracy: float | None, recipe: Recipe) -> Record:
    known = 50.0 if accuracy is None else accuracy
    return Record(
        epoch=epoch,
        loss=2.3 * (1 - known / 100) + 0.3,
        train_accuracy=min(100.0, known + 3),
        test_loss=None if accuracy is None else 2.5 * (1 - accuracy / 100) + 0.3,
        test_accuracy=accuracy,
        holdout_accuracy=known if recipe.holdout else None,
        lr=0.1 * (1 - epoch / recipe.epochs),
        method={},
        flipped=0.5 / (epoch + 1),
        latent=1e-4,
        seconds=1.0,
        images_per_second=5e4,
        evaluation_seconds=0.1,
    )
