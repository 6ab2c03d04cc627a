"""What a run leaves behind, and how to read it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adaste.records import Record


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


def read_result(folder: Path) -> Result | None:
    """The outcome of the run in `folder`; None if it is not finished."""
    path = folder / "result.json"
    return Result(**json.loads(path.read_text())) if path.exists() else None


def read_records(folder: Path) -> list[Record]:
    """The records of the run in `folder` so far; a line that is being written is left out."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [Record(**json.loads(line)) for line in lines if line.endswith("\n")]


def best_of(records: Sequence[Record]) -> Record | None:
    """The first of the records with the highest deciding accuracy; None where nothing was tested."""
    tested = [record for record in records if record.deciding is not None]
    return max(tested, key=lambda record: record.deciding or 0.0, default=None)
