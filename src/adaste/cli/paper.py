"""`adaste reproduce` and `adaste report`: the runs behind the paper, and what runs say, as a page or as tables."""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from adaste.cli import options, study

if TYPE_CHECKING:
    from adaste.paper.index import Collection
    from adaste.runs.study.study import Job

REPRODUCE_EXAMPLES = options.examples(
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
REPORT_EXAMPLES = options.examples(
    "adaste report results                           writes report.html",
    "adaste report runs -o tables.md                 as markdown, .tex as LaTeX, .csv as CSV",
    "adaste report results --epochs 60               only runs of 60 epochs",
    "adaste report results --figures figures         also the paper's figures and overviews, as SVG and PDF",
    "",
    "Runs that are unfinished or damaged are left out; the report and the command say which, and why.",
)

STDOUT = (Path("-"), Path("/dev/stdout"))


@dataclass(frozen=True)
class Format:
    """A format of the report: the ending of its file, and the function that makes it from runs and their folder."""

    ending: str
    make: "Callable[[Collection, Path], str]"


def add_to(commands: options.Commands) -> None:
    """Add the commands."""
    _add_reproduce(commands)
    _add_report(commands)


def _add_reproduce(commands: options.Commands) -> None:
    parser = options.command(
        commands, "reproduce", "make the runs behind a table or figure of the paper", REPRODUCE_EXAMPLES
    )
    parser.add_argument("target", metavar="TABLE|FIGURE|all", help="what to reproduce")
    parser.add_argument(
        "--only", metavar="NAME,...", type=names, default=[], help="only these setups, such as cifar10-resnet18"
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
    parser.set_defaults(act=reproduce)


def names(text: str) -> list[str]:
    """Return the names in a list with commas."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"must be names with commas between them, got {text!r}")
    return found


def reproduce(arguments: argparse.Namespace) -> int:
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


def _add_report(commands: options.Commands) -> None:
    parser = options.command(commands, "report", "write a report about the runs in a folder", REPORT_EXAMPLES)
    parser.add_argument("results", metavar="RESULTS", type=Path, help="folder of runs, also in its subfolders")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="file to write, - for stdout (default: report.html, .md, ...)"
    )
    parser.add_argument(
        "--format", choices=tuple(FORMATS), help="format of the report (default: the file's ending, else html)"
    )
    parser.add_argument(
        "--epochs", metavar="N", type=options.at_least_one, help="only runs of this length (default: all)"
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help="the paper's tables and figures even if no run belongs to them (default: only if one does)",
    )
    parser.add_argument("--figures", metavar="DIR", type=Path, help="draw the figures into this folder, too")
    parser.set_defaults(act=report)


def report(arguments: argparse.Namespace) -> int:
    """Write the report and print where it is."""
    from adaste.paper.index import collect
    from adaste.paper.report.texts import plural, remarks

    form = _form(arguments.format, arguments.output)
    output = arguments.output or Path(f"report.{form.ending}")
    collection = replace(collect(arguments.results), paper=arguments.paper)
    if not collection.runs and not collection.problems:
        raise ValueError(f"{arguments.results} contains no runs: `adaste train` and `adaste study` write them")
    if arguments.epochs is not None:
        collection = collection.of_length(arguments.epochs)
    _write(form.make(collection, arguments.results).encode(), output)
    told = sys.stderr if _is_our_output(output) else sys.stdout
    left_out = f", {plural(len(collection.problems), 'folder')} left out" if collection.problems else ""
    print(f"{output}: {plural(len(collection.runs), 'run')}{left_out}", file=told)
    for remark in remarks(collection):
        print(remark, file=sys.stderr)
    if arguments.figures is not None:
        from adaste.paper.report.page import draw_all

        drawn = draw_all(collection, arguments.figures)
        none = "" if drawn else ": no run belongs to a figure of the paper"
        print(f"{arguments.figures}: {plural(len(drawn), 'file')}{none}", file=told)
    return 0


def _form(name: str | None, output: Path | None) -> Format:
    """Return the format of that name, or else the one that the file's ending names."""
    ending = output.suffix.lower().removeprefix(".") if output else ""
    meant = next((known for known, form in FORMATS.items() if form.ending == ending), None)
    if name and meant and name != meant:
        raise ValueError(f"{output} has the ending of {meant}, but --format is {name}: leave out one of the two")
    if ending and not meant and not name:
        known = ", ".join(f".{form.ending} ({form_name})" for form_name, form in FORMATS.items())
        raise ValueError(f"{output}: there is no report format .{ending}; formats are {known}")
    return FORMATS[name or meant or "html"]


def _write(content: bytes, output: Path) -> None:
    from adaste._util.files import write_atomically

    if _is_our_output(output):
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, content)


def _is_our_output(output: Path) -> bool:
    """Return whether a path is our standard output: a file there is the shell's, and must not be replaced."""
    try:
        return output in STDOUT or os.path.samestat(output.stat(), os.fstat(sys.stdout.fileno()))
    except OSError:  # there is nothing of that name, or our output is no file at all
        return False


def _html(collection: "Collection", root: Path) -> str:
    from datetime import UTC, datetime

    from adaste.paper.report.page import page

    return page(collection, root, datetime.now(UTC))


def _text(name: str) -> "Callable[[Collection, Path], str]":
    def make(collection: "Collection", root: Path) -> str:
        from adaste.paper.report.texts import TEXTS

        return TEXTS[name](collection)

    return make


FORMATS = MappingProxyType(
    {
        "html": Format("html", _html),
        "markdown": Format("md", _text("markdown")),
        "latex": Format("tex", _text("latex")),
        "csv": Format("csv", _text("csv")),
    }
)
"""The forms of a report by name."""
