"""What BatchNorm statistics do to rounded weights: python benchmarks/norm_statistics.py RUN... --output FILE.json

Test accuracy of the last checkpoint of each run, with its weights rounded and statistics of three kinds:

training    those of training; where weights are soft, they belong to the soft ones
augmented   estimated for the rounded weights from training images, augmented as in training
plain       estimated from training images as they are
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from adaste._util.files import write_json
from adaste.data import load
from adaste.data.augment import Augmentation, Transform
from adaste.data.augment.spatial import Spatial
from adaste.runs.checkpoint import Checkpoints
from adaste.runs.environment import environment
from adaste.runs.folder import RunFolder
from adaste.training.batches import BatchCursor, choose_feed, draw_batches
from adaste.training.distributed import ALONE
from adaste.training.evaluation import Evaluation, NormEstimation, evaluation_batch
from adaste.training.execution import ExecutionMode, dtype_of
from adaste.training.trainer import Training

BATCHES = 50
"""As many as recipes have."""


def settled(transforms: tuple[Transform, ...]) -> tuple[Transform, ...]:
    """What is left of an augmentation in a test: the middle of images where training sees crops of a size."""
    left = (transform.at_evaluation for transform in transforms if isinstance(transform, Spatial))
    return tuple(transform for transform in left if transform is not None)


def accuracies(folder: Path, data: Path | None, device: torch.device) -> Iterator[tuple[str, float | bool]]:
    """Whether weights are soft, and the test accuracy with statistics of each kind."""
    recipe = RunFolder(folder).read_recipe()
    newest = Checkpoints(folder / "checkpoints").newest(print)
    if newest is None:
        raise SystemExit(f"{folder} has no checkpoint to test")
    dataset = load(recipe.data, data)
    training = Training(recipe, dataset, device=device, engine="eager")
    training.load_state_dict(newest[1]["training"])
    network, how = training.model, {"dtype": dtype_of(recipe), "mode": ExecutionMode.EAGER, "world": ALONE}
    augmented, plain = (
        Augmentation(transforms, dataset.mean, dataset.std)
        for transforms in (recipe.augmentation, settled(recipe.augmentation))
    )
    test = Evaluation(
        network=network,
        cursor=BatchCursor(choose_feed(dataset.test, device, evaluation_batch(len(dataset.test), ALONE)), device),
        augmentation=plain,
        **how,
    )
    yield "soft", training.optimizer.is_soft()
    with training.optimizer.binarized():
        yield "training", test().accuracy
        for name, augmentation in {"augmented": augmented, "plain": plain}.items():
            order, draws = draw_batches(recipe, augmentation, training.feed, ALONE, seed=0, epoch=0, most=BATCHES)
            cursor = BatchCursor(training.feed.fork(), device)
            with NormEstimation(
                network=network, cursor=cursor, augmentation=augmentation, order=order, draws=draws, **how
            )():
                yield name, test().accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="folders of runs with their checkpoints")
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows: list[dict[str, Any]] = []
    for folder in arguments.runs:
        found = dict(accuracies(folder, arguments.data, device))
        print(f"{folder.name}:", ", ".join(f"{name} {value}" for name, value in found.items()), flush=True)
        rows.append({"run": folder.name, **found, "recipe": json.loads((folder / "recipe.json").read_text())})
    if arguments.output:
        record = {"environment": environment(device), "rows": rows}
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
