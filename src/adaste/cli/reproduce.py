"""`adaste reproduce`: the runs behind a table or figure of the paper."""

import argparse
from typing import TYPE_CHECKING

from adaste.cli import options, study

if TYPE_CHECKING:
    from adaste.runs.study.study import Job

EXAMPLES = options.examples(
    "adaste reproduce table1 --only cifar10-resnet18 --family released --seeds 3 --epochs 160",
    "adaste reproduce figure3 --processes 4",
    "adaste reproduce ablation --epochs 60 --ray head:6379 --gpu-share 0.25",
    "adaste reproduce all --dry-run",
    "adaste report runs -o report.html           a report of the runs",
    "",
    "Tables and figures: table1, table2 (the paper's appendix), ablation, figure3 to figure7, long-runs, all.",
    "Families: paper (as printed), released (as the published scripts behave), ours (one recipe for all methods).",
    "Finished runs are skipped, interrupted ones resume.",
)


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "reproduce", "make the runs behind a table or figure of the paper", EXAMPLES)
    parser.add_argument("target", metavar="TABLE|FIGURE|all", help="what to reproduce")
    parser.add_argument(
        "--only", metavar="NAME,...", type=names, default=[], help="only these settings, such as cifar10-resnet18"
    )
    parser.add_argument("--methods", metavar="NAME,...", type=names, default=[], help="only these rows")
    parser.add_argument(
        "--family",
        metavar="NAME,...",
        type=names,
        default=[],
        help="families of recipes (default: all for a table, released for a figure)",
    )
    parser.add_argument("--seeds", metavar="N", type=options.at_least_one, default=1, help="runs per cell (default: 1)")
    parser.add_argument(
        "--epochs",
        metavar="N",
        type=options.at_least_one,
        help="length of every run (default: the family's or figure's)",
    )
    study.add_machines(parser)
    parser.set_defaults(act=act)


def names(text: str) -> list[str]:
    """Return the names in a list with commas."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"must be names with commas between them, got {text!r}")
    return found


def act(arguments: argparse.Namespace) -> int:
    """Make the runs, or list them with `--dry-run`."""
    code = study.perform(arguments, lambda: _jobs(arguments))
    if not (arguments.quiet or arguments.dry_run):
        print(f"`adaste report {arguments.runs}` shows the runs beside the paper's numbers")
    return code


def _jobs(arguments: argparse.Namespace) -> list["Job"]:
    from adaste.paper.run_list import tasks
    from adaste.paper.tables import family
    from adaste.runs.study.study import Job, folder_of

    return [
        Job(task.name, task.recipe, folder_of(task.name, task.recipe, arguments.runs), task.estimate)
        for task in tasks(
            arguments.target,
            only=arguments.only,
            methods=arguments.methods,
            families=[family(name) for name in arguments.family],
            seeds=arguments.seeds,
            epochs=arguments.epochs,
        )
    ]
