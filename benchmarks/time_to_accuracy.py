"""How long training takes to end with an accuracy: seconds and accuracy of each seed of a recipe, one run at a time.

    python benchmarks/time_to_accuracy.py cifar10-resnet18-fast --set holdout=5000 --seeds 2     # to choose by
    python benchmarks/time_to_accuracy.py cifar10-resnet18-fast --seeds 10 --target 94.11 --output FILE.json

Recipes are named as for `adaste study`, files included. The clock starts with the first step after compilation and
stops when BatchNorm's statistics have been estimated for the network as it would be exported. Nothing is tested before
that. A recipe that holds images out is measured on these, and its test images are not looked at; another one is
measured on the test images, once per seed and after the clock. All seeds of a recipe use one captured step.
"""

import argparse
import gc
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from adaste._util.files import write_json
from adaste.cli.recipe_args import find_recipes
from adaste.data import load
from adaste.recipes.recipe import Recipe
from adaste.runs.environment import environment
from adaste.training.execution import algorithms
from adaste.training.trainer import Training


def measure(training: Training, seed: int) -> dict[str, Any]:
    """Train from the beginning; seconds of all of it, of each epoch, and the accuracy afterwards."""
    split = "holdout" if training.recipe.holdout else "test"
    training.restart(seed)
    _wait_for(training.device)
    began = time.perf_counter()
    records = list(training.run(tests=False))
    with training.exported() as network:
        _wait_for(training.device)
        seconds = time.perf_counter() - began
        weights = [weight for weight in network.parameters() if weight.ndim > 1]
        binary = all(bool((weight.abs() == 1).all()) for weight in weights)
    score = training.evaluate(split)
    return {
        "seed": seed,
        "split": split,
        "images": score.count,
        "seconds": seconds,
        "epoch_seconds": [record.seconds for record in records],
        "train_accuracy": records[-1].train_accuracy,
        "accuracy": score.accuracy,
        "all_weights_binary": binary,
    }


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def row_of(name: str, recipe: Recipe, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure all seeds of a recipe, and print a line for each."""
    began = time.perf_counter()
    training = Training(recipe, load(recipe.data, arguments.data), device=arguments.device, engine=arguments.engine)
    training.warm_up()
    _wait_for(arguments.device)
    print(f"{name}, {recipe.epochs} epochs: ready after {time.perf_counter() - began:.1f} s", flush=True)
    runs = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        runs.append(measure(training, seed))
        last = runs[-1]
        binary = "" if last["all_weights_binary"] else ", not all weights are binary"
        print(
            f"  seed {seed}: {last['accuracy']:.2f} % ({last['split']}) in {last['seconds']:.2f} s{binary}", flush=True
        )
    accuracies, seconds = [run["accuracy"] for run in runs], [run["seconds"] for run in runs]
    print(f"  mean {statistics.fmean(accuracies):.3f} %, median {statistics.median(seconds):.2f} s, n = {len(runs)}")
    if arguments.target is not None:
        reached = "reached" if statistics.fmean(accuracies) >= arguments.target else "not reached"
        print(f"  {arguments.target} % on average: {reached}")
    return {
        "name": name,
        "digest": recipe.unseeded.digest,
        "recipe": json.loads(recipe.to_json()),
        "engine": training.execution.mode.value,
        "memory_bytes": torch.cuda.max_memory_reserved() if arguments.device.type == "cuda" else None,
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+", metavar="NAME|FILE", help="recipes or study files")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of `adaste train`")
    parser.add_argument("--epochs", type=int, help="as of `adaste train`")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="number of seeds (default 10)")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N", help="the first of them (default 0)")
    parser.add_argument("--target", type=float, help="say whether the mean accuracy reaches this one")
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--engine", default="auto", help="auto, eager, compiled or graph")
    parser.add_argument("--output", type=Path, help="write a record, as JSON, after every recipe")
    arguments = parser.parse_args()
    gc.set_threshold(200_000, 20, 100)  # as the command `adaste` does
    settings = [*([] if arguments.epochs is None else [f"epochs={arguments.epochs}"]), *arguments.set]
    rows = []
    for text in arguments.recipes:
        for planned in find_recipes(text, settings, arguments.data):
            with algorithms(deterministic=False, device=arguments.device):
                rows.append(row_of(planned.name, planned.recipe, arguments))
            gc.collect()  # the training, and with it the memory of its graphs
            if arguments.device.type == "cuda":
                torch.cuda.empty_cache()
            if arguments.output:
                record = {"environment": environment(arguments.device), "target": arguments.target, "rows": rows}
                write_json(arguments.output, record)


if __name__ == "__main__":
    main()
