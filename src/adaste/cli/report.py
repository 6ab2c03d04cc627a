"""`adaste report`: what runs say, as a page or as tables."""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from adaste.cli import options

if TYPE_CHECKING:
    from adaste.paper.index import Collection

EXAMPLES = options.examples(
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
    """Add the command."""
    parser = options.command(commands, "report", "write a report about the runs in a folder", EXAMPLES)
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
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
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
