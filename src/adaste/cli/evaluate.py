"""`adaste evaluate`: what a trained network reaches on the test images."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from adaste.cli import options

if TYPE_CHECKING:
    import torch

EXAMPLES = options.examples(
    "adaste evaluate runs/digits-mlp-adaste-0123456789abcdef",
    "adaste evaluate runs/digits-mlp-adaste-0123456789abcdef --network best --device cpu",
    "adaste evaluate runs/digits-mlp-*           one after the other",
)


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "evaluate", "test the networks of runs on the test images", EXAMPLES)
    options.add_network(parser)
    options.add_data(parser)
    options.add_machine(parser)
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
    """Evaluate one run after the other."""
    options.use_threads(arguments.threads)
    device = options.device_named(arguments.device)
    for run in arguments.runs:
        _evaluate(run, device, arguments)
    return 0


def _evaluate(run: Path, device: "torch.device", arguments: argparse.Namespace) -> None:
    """Evaluate a run, and print the outcome beside what it had recorded."""
    from adaste.data import load
    from adaste.runs.evaluate import evaluate, network_of_run

    exported = network_of_run(run, arguments.network)
    dataset = load(exported.recipe.data, arguments.data)
    score = evaluate(exported, dataset, device=device, engine=arguments.engine)
    record, recipe = exported.record, exported.recipe
    epoch = f"epoch {record.epoch + 1} of {recipe.epochs}"
    print(f"{exported.path}: seed {recipe.seed}, {epoch}, {score.count:,} test images")
    print(f"now       accuracy {score.accuracy:.2f} %  loss {score.loss:.4f}  on {device}")
    if record.test_accuracy is not None and record.test_loss is not None:
        print(f"recorded  accuracy {record.test_accuracy:.2f} %  loss {record.test_loss:.4f}")
