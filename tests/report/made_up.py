"""Folders of runs with made-up numbers, in the format of real ones."""

import json
import math
import random
from dataclasses import asdict
from pathlib import Path

from adaste.recipe import Recipe
from adaste.records import Record
from adaste.results import Result

ENVIRONMENT = {
    "adaste": "0.1.0",
    "commit": "0123456789abcdef",
    "date": "2026-11-16T01:54:35+00:00",
    "python": "3.12.3",
    "torch": "2.11.0",
    "system": "Linux",
    "processor": "A processor",
    "cores": 16,
    "gpu": "NVIDIA H200",
    "engine": "graph",
}


def write_run(recipe: Recipe, folder: Path, *, reach: float = 93.0, noise: float = 0.4) -> Path:
    """A finished run that climbs towards the accuracy `reach`; the same numbers for the same recipe."""
    chance = random.Random(recipe.digest)
    goal = reach + chance.gauss(0, noise / 2)
    records = [_record(recipe, epoch, goal, noise, chance) for epoch in range(recipe.epochs)]
    folder.mkdir(parents=True)
    (folder / "recipe.json").write_text(recipe.to_json())
    (folder / "metrics.jsonl").write_text("".join(json.dumps(asdict(record)) + "\n" for record in records))
    (folder / "result.json").write_text(json.dumps(asdict(_result(records))))
    (folder / "environment.json").write_text(json.dumps([ENVIRONMENT]))
    counts = [round(2000 * math.exp(-(((place - 40) / 14) ** 2)) * chance.uniform(0.9, 1.1)) for place in range(81)]
    (folder / "latents.json").write_text(json.dumps({"reach": 2e-4, "counts": counts}))
    return folder


def _record(recipe: Recipe, epoch: int, goal: float, noise: float, chance: random.Random) -> Record:
    progress = (epoch + 1) / recipe.epochs
    lr = 0.05 * (1 + math.cos(math.pi * progress))
    distance = 0.7 * math.exp(-7 * progress) + 0.06 * (1 - progress)
    test = goal * (1 - distance) + chance.gauss(0, noise * (0.15 + 4 * (1 - progress)))
    return Record(
        epoch=epoch,
        loss=2.2 * distance + 0.05 + chance.uniform(0, 0.01),
        train_accuracy=min(100.0, goal * (1 - distance) + 6 * progress),
        test_loss=2.0 * distance + 0.25 + chance.uniform(0, 0.02),
        test_accuracy=round(min(test, 100.0), 2),
        holdout_accuracy=round(test - 0.3, 2) if recipe.holdout else None,
        lr=lr,
        method={"mu": 100.0},
        flipped=0.1 * lr + 0.0001,
        latent=5e-5 * (1 + progress),
        seconds=2.0,
        images_per_second=25_000.0,
        evaluation_seconds=0.05,
    )


def _result(records: list[Record]) -> Result:
    best = max(records, key=lambda record: record.deciding or 0.0)
    return Result(
        last_accuracy=records[-1].test_accuracy or 0.0,
        best_accuracy=best.test_accuracy or 0.0,
        best_epoch=best.epoch,
        epochs=len(records),
        seconds=2.05 * len(records),
    )
