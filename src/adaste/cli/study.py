"""`adaste study`: many runs."""

import argparse
from typing import TYPE_CHECKING

from adaste.cli import options, running

if TYPE_CHECKING:
    from adaste.runs.study.study import Job

EXAMPLES = options.examples(
    "adaste study digits-mlp-adaste digits-mlp-binaryconnect --seeds 0,1,2 --processes 2",
    "adaste study study.json --processes 8 --device cuda     (a JSON list of names and recipes)",
    "adaste study study.json --ray head:6379 --gpu-share 0.25",
    "",
    "What is finished is skipped, what was interrupted goes on. Ctrl-C lets all runs save, a second one kills them.",
)


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "study", "make many runs, several at a time", EXAMPLES)
    parser.add_argument("recipes", nargs="+", metavar="FILE|NAME", help="recipes, or JSON files of them or of lists")
    parser.add_argument("--seeds", type=seeds, default=[], metavar="N,N,...", help="every recipe once with each seed")
    options.add_changes(parser)
    running.add_machines(parser)
    parser.set_defaults(act=act)


def seeds(text: str) -> list[int]:
    """Whole numbers with commas between them."""
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between them, as in 0,1,2; got {text!r}")
    return [int(part) for part in parts]


def act(arguments: argparse.Namespace) -> int:
    """Make the runs, and show how they are doing."""
    return running.perform(arguments, lambda: _jobs(arguments))


def _jobs(arguments: argparse.Namespace) -> list["Job"]:
    from adaste.cli.recipe_args import chosen
    from adaste.runs.study.study import Job, folder_of

    changes = options.changes(arguments)
    variants = [[*changes, f"seed={seed}"] for seed in arguments.seeds] or [changes]
    return [
        Job(name, recipe, folder_of(name, recipe, arguments.runs))
        for text in arguments.recipes
        for variant in variants
        for name, recipe in chosen(text, variant, arguments.data)
    ]
