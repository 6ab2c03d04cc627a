"""`adaste train`: one run."""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from adaste.cli import options

if TYPE_CHECKING:
    import torch

    from adaste.recipes.recipe import Recipe
    from adaste.runs.folder import Result
    from adaste.training.distributed import World

EXAMPLES = options.examples(
    "adaste train digits-mlp-adaste",
    "adaste train cifar10-resnet18-adaste --epochs 30 --set base.momentum=0.8",
    "adaste train folder:96-resnet18-adaste --data DIR   (your images: DIR/train/<class>/*, DIR/val/<class>/*)",
    "adaste train my.json --folder runs/mine         (`adaste show NAME > my.json` is a start)",
    "torchrun --nproc-per-node 4 -m adaste train cifar10-resnet18-adaste",
    "",
    "The same command resumes an interrupted run.",
)


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "train", "train a network by a recipe", EXAMPLES)
    parser.add_argument("recipe", metavar="NAME|RECIPE.json", help="a recipe's name (see `adaste list`) or file")
    options.add_changes(parser)
    options.add_seed(parser)
    options.add_data(parser)
    options.add_runs(parser)
    parser.add_argument("--folder", metavar="DIR", type=Path, help="folder of this run (default: RUNS/<name>-<digest>)")
    options.add_running(parser)
    options.add_quiet(parser)
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
    """Train and print the result."""
    import torch

    from adaste._util.signals import StoppedError
    from adaste.cli.console import outcome
    from adaste.cli.recipe_args import find_recipe
    from adaste.runs.study.study import folder_of
    from adaste.training.distributed import announced_world, join_world, leave_world, local_device

    name, recipe = find_recipe(arguments.recipe, options.changes(arguments), arguments.data)
    announced = announced_world()
    if announced.leads:  # one refusal is enough: torchrun then ends the others, which wait for this process
        announced.share(recipe.batch)
    folder = arguments.folder or folder_of(name, recipe, arguments.runs)
    options.use_threads(arguments.threads)
    device = local_device(options.device_named(arguments.device))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    world = join_world(device)
    # Not in a finally: a process that fails must not wait for the others before it says so.
    try:
        result = _run(recipe, folder, device, world, arguments)
    except StoppedError as stop:
        leave_world()
        if world.leads:
            print(f"{folder}: {stop}", file=sys.stderr)
        return 128 + stop.signal_number
    leave_world()
    if world.leads and not arguments.quiet:
        print(f"{folder}: {outcome(result)}")
    return 0


def _run(
    recipe: "Recipe", folder: Path, device: "torch.device", world: "World", arguments: argparse.Namespace
) -> "Result":
    from rich.console import Console

    from adaste.cli.console import Plain, Several
    from adaste.cli.terminal import Bar
    from adaste.data import load
    from adaste.runs.folder import RunFolder
    from adaste.runs.run import SILENT, Options, TensorBoard, run

    shown = world.leads and sys.stdout.isatty() and not arguments.quiet
    settings = Options(
        engine=arguments.engine,
        save_every=arguments.save_every,
        keep=arguments.keep,
        deterministic=arguments.deterministic,
        teachers=arguments.teachers,
    )
    board = TensorBoard(RunFolder(folder).tensorboard) if arguments.tensorboard else nullcontext(SILENT)
    if world.leads:  # the others wait, and then find decoded images
        dataset = load(recipe.data, arguments.data, progress=shown)
    world.from_leader(None)
    if not world.leads:
        dataset = load(recipe.data, arguments.data)
        return run(recipe, folder, dataset, device=device, world=world, options=settings)
    with Bar(Console()) if shown else Plain(Console(quiet=arguments.quiet)) as display, board as observer:
        shows = Several(display, observer)
        return run(recipe, folder, dataset, device=device, world=world, options=settings, observer=shows)
