"""Running and re-estimated BatchNorm statistics while a network trains, and the seconds that the latter cost.

    python benchmarks/norm_statistics_curve.py ours-cifar10-resnet18-adaste ours-cifar10-resnet18-binaryconnect \
        --epochs 60 --output FILE.json
    python benchmarks/norm_statistics_curve.py digits-vgg-small-adaste      # on any computer

Trains each recipe (a cell of the paper's tables, a named recipe or a file of one) and tests it after every epoch, or
every so many of them, with its weights rounded and with statistics of two kinds:

running        those of training: they remember batches before whose end signs have flipped
reestimated    the means over batches of training images, augmented as in training, for the weights as they are

Both tests are made of the same weights, outside of the training, which goes on as if there had been none.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from adaste._util.files import write_json
from adaste.cli.recipe_args import find_recipe
from adaste.data import load
from adaste.data.augment import Augmentation
from adaste.paper.tables import recipes_named
from adaste.recipes.recipe import Recipe
from adaste.runs.environment import environment
from adaste.training.batches import BatchCursor, choose_feed, draw_batches
from adaste.training.distributed import ALONE
from adaste.training.evaluation import Evaluation, NormEstimation, evaluation_batch
from adaste.training.execution import algorithms, dtype_of
from adaste.training.trainer import Training

BATCHES = 50
"""As many as recipes have."""


def recipe_of(name: str, epochs: int, seed: int) -> Recipe:
    """The recipe of a cell, else a named one or that of a file."""
    cells = recipes_named(name, epochs)
    made = cells[0] if cells else find_recipe(name, [f"epochs={epochs}"])[1]
    return made.with_seed(seed)


class BothTests:
    """Tests of a network in training with statistics of the two kinds, each run as the training's own steps are."""

    def __init__(self, training: Training, batches: int) -> None:
        recipe, dataset, device = training.recipe, training.dataset, training.device
        self._training = training
        augmentation = Augmentation(recipe.augmentation, dataset.mean, dataset.std)
        how = {"network": training.model, "dtype": dtype_of(recipe), "mode": training.execution.mode, "world": ALONE}
        order, draws = draw_batches(recipe, augmentation, training.feed, ALONE, seed=0, epoch=0, most=batches)
        self._test = Evaluation(
            cursor=BatchCursor(choose_feed(dataset.test, device, evaluation_batch(len(dataset.test), ALONE)), device),
            augmentation=augmentation,
            **how,
        )
        self._estimation = NormEstimation(
            cursor=BatchCursor(training.feed.fork(), device), augmentation=augmentation, order=order, draws=draws, **how
        )

    def __call__(self) -> dict[str, float]:
        """Accuracies in percent, and the seconds of one test and of re-estimating the statistics before it."""
        with ExitStack() as stack:
            stack.enter_context(self._training.optimizer.binarized())
            running, test_seconds = self._timed(lambda: self._test().accuracy)
            _, estimation_seconds = self._timed(lambda: stack.enter_context(self._estimation()))
            reestimated = self._test().accuracy
        return {
            "running": running,
            "reestimated": reestimated,
            "test_seconds": test_seconds,
            "estimation_seconds": estimation_seconds,
        }

    def _timed(self, function: Callable[[], Any]) -> tuple[Any, float]:
        """What the function returns, and the seconds until the device has done it."""
        self._wait()
        began = time.perf_counter()
        returned = function()
        self._wait()
        return returned, time.perf_counter() - began

    def _wait(self) -> None:
        if self._training.device.type == "cuda":
            torch.cuda.synchronize(self._training.device)


def curve(training: Training, batches: int, every: int) -> Iterator[dict[str, Any]]:
    """Train to the end; one row per epoch that is tested."""
    tests = BothTests(training, batches)
    for record in training.run():
        if (record.epoch + 1) % every and training.epoch < training.recipe.epochs:
            continue
        row = {
            "epoch": record.epoch,
            "loss": record.loss,
            "train_accuracy": record.train_accuracy,
            "lr": record.lr,
            "flipped": record.flipped,
            "soft": training.optimizer.is_soft(),
            "train_seconds": record.seconds,
            **tests(),
        }
        print(
            f"epoch {record.epoch + 1:3}: running {row['running']:6.2f}  reestimated {row['reestimated']:6.2f} %   "
            f"training {record.seconds:.3f}  test {row['test_seconds']:.3f}  "
            f"estimation {row['estimation_seconds']:.3f} s",
            flush=True,
        )
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", metavar="RECIPE", nargs="+", help="of a family, named, or in a file")
    parser.add_argument("--epochs", type=int, default=60, help="of every run (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of every run (%(default)s)")
    parser.add_argument("--every", type=int, default=1, help="epochs between tests (%(default)s)")
    parser.add_argument("--batches", type=int, default=BATCHES, help="to re-estimate with (%(default)s)")
    parser.add_argument("--device", help="cpu or cuda; what is there if not given")
    parser.add_argument("--engine", default="auto", help="auto, eager, compiled or graph (%(default)s)")
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    arguments = parser.parse_args()
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    runs: list[dict[str, Any]] = []
    for name in arguments.recipes:
        recipe = recipe_of(name, arguments.epochs, arguments.seed)
        with algorithms(deterministic=False, device=device):
            training = Training(recipe, load(recipe.data, arguments.data), device=device, engine=arguments.engine)
            print(f"{name}, engine {training.execution.mode.value}", flush=True)
            rows = list(curve(training, arguments.batches, arguments.every))
        runs.append(
            {
                "name": name,
                "engine": training.execution.mode.value,
                "batches": arguments.batches,
                "recipe": json.loads(recipe.to_json()),
                "epochs": rows,
            }
        )
        if arguments.output:  # after each run: what is measured is kept if a later one fails
            record = {"environment": environment(device), "runs": runs}
            write_json(arguments.output, record)


if __name__ == "__main__":
    main()
