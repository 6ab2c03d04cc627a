"""`adaste study`: many runs."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from adaste.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from adaste.studies import Job

EXAMPLES = options.examples(
    "adaste study digits-mlp-adaste digits-mlp-binaryconnect --seeds 0,1,2 --processes 2",
    "adaste study study.json --processes 8 --device cuda     (a JSON list of names and recipes)",
    "",
    "What is finished is skipped, what was interrupted goes on. Ctrl-C lets all runs save, a second one kills them.",
)

COMPILERS = "TORCHINDUCTOR_COMPILE_THREADS"
"""Every process that compiles starts as many compilers as there are cores, unless it is told otherwise."""


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "study", "make many runs, several at a time", EXAMPLES)
    parser.add_argument("recipes", nargs="+", metavar="FILE|NAME", help="recipes, or JSON files of them or of lists")
    parser.add_argument(
        "--processes", type=options.at_least_one, default=1, metavar="N", help="runs at a time (default: 1)"
    )
    parser.add_argument("--seeds", type=seeds, default=[], metavar="N,N,...", help="every recipe once with each seed")
    options.add_changes(parser)
    options.add_data(parser)
    options.add_runs(parser)
    options.add_running(parser)
    parser.add_argument("--no-mps", action="store_true", help="do not start NVIDIA's Multi-Process Service")
    parser.set_defaults(act=act)


def seeds(text: str) -> list[int]:
    """Whole numbers with commas between them."""
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between them, as in 0,1,2; got {text!r}")
    return [int(part) for part in parts]


def act(arguments: argparse.Namespace) -> int:
    """Make the runs, and show how they are doing."""
    from rich.console import Console

    from adaste.console import Lines, LiveTable
    from adaste.studies import Processes, State, Study

    console = Console()
    jobs = _jobs(arguments)
    device = options.device_named(arguments.device)
    _prepare_data(jobs, arguments.data)
    share = max(1, (os.cpu_count() or 1) // arguments.processes)
    sharing = device.type == "cuda" and arguments.processes > 1 and not arguments.no_mps
    with _variables(sharing, console) as variables:
        place = Processes(
            arguments.processes,
            options=_passed_on(arguments, threads=share if device.type == "cpu" else None),
            variables={COMPILERS: os.environ.get(COMPILERS, str(share)), **variables},
        )
        study = Study(jobs, place)
        with LiveTable(console) if sys.stdout.isatty() else Lines(console) as display:
            statuses = study.run(display)
    if any(status.state is State.FAILED for status in statuses):
        return 1
    return 0 if study.stopped_by is None else 128 + study.stopped_by


def _jobs(arguments: argparse.Namespace) -> list["Job"]:
    from adaste.choosing import chosen
    from adaste.studies import Job, folder_of

    changes = options.changes(arguments)
    variants = [[*changes, f"seed={seed}"] for seed in arguments.seeds] or [changes]
    return [
        Job(name, recipe, folder_of(name, recipe, arguments.runs))
        for text in arguments.recipes
        for variant in variants
        for name, recipe in chosen(text, variant)
    ]


def _prepare_data(jobs: Sequence["Job"], folder: Path | None) -> None:
    """Decode images once, before several runs want them at the same time. Of what is missing the runs will tell."""
    from adaste.data import DataError, load

    for name in {job.recipe.data: None for job in jobs}:
        try:
            load(name, folder, progress=sys.stderr.isatty())
        except DataError:
            continue


def _variables(sharing: bool, console: "Console") -> AbstractContextManager[dict[str, str]]:
    from adaste.console import Quiet
    from adaste.mps import shared_gpu

    return shared_gpu(Quiet(console).says) if sharing else nullcontext({})


def _passed_on(arguments: argparse.Namespace, threads: int | None) -> list[str]:
    """The options of `adaste train` that each run gets."""
    values = {
        "--data": arguments.data,
        "--device": arguments.device,
        "--engine": arguments.engine,
        "--save-every": arguments.save_every,
        "--keep": arguments.keep,
        "--threads": arguments.threads or threads,
    }
    flags = {"--deterministic": arguments.deterministic, "--tensorboard": arguments.tensorboard}
    named = [part for name, value in values.items() if value is not None for part in (name, str(value))]
    return [*named, *(name for name, given in flags.items() if given)]
