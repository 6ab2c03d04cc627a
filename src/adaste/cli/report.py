"""`adaste report`: what runs say, as a page or as tables."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from adaste.cli import options
from adaste.startup import collect_seldom

if TYPE_CHECKING:
    from adaste.paper.collection import Collection

EXAMPLES = options.examples(
    "adaste report results                           writes report.html",
    "adaste report runs --format markdown -o tables.md",
    "adaste report results --epochs 60               what all methods reach in the same time",
    "adaste report results --figures figures         also the paper's figures and overviews, as SVG and PDF",
    "",
    "Runs that are unfinished or damaged are left out; the report and the command say which, and why.",
)


@dataclass(frozen=True)
class Format:
    """A form of the report: the ending of its file, and what makes it of the runs in a folder."""

    ending: str
    make: "Callable[[Collection, Path], str]"


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "report", "write a report about the runs in a folder", EXAMPLES)
    parser.add_argument("results", metavar="RESULTS", type=Path, help="folder of runs; those further below count, too")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="the report (default: report.html, .md, .tex or .csv)"
    )
    parser.add_argument("--format", choices=tuple(FORMATS), default="html", help="of the report (default: html)")
    parser.add_argument("--epochs", metavar="N", type=int, help="of runs of this length alone (default: of any)")
    parser.add_argument("--figures", metavar="DIR", type=Path, help="draw the figures into this folder, too")
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
    """Write the report, and print where it is."""
    collect_seldom()
    from adaste.files import write_atomically
    from adaste.paper.collection import collect
    from adaste.report.texts import remarks
    from adaste.report.wording import counted

    form = FORMATS[arguments.format]
    output = arguments.output or Path(f"report.{form.ending}")
    collection = collect(arguments.results)
    if arguments.epochs is not None:
        collection = collection.of_length(arguments.epochs)
    write_atomically(output, form.make(collection, arguments.results).encode())
    left_out = f", {counted(len(collection.problems), 'folder')} left out" if collection.problems else ""
    print(f"{output}: {counted(len(collection.runs), 'run')}{left_out}")
    for remark in remarks(collection):
        print(remark, file=sys.stderr)
    if arguments.figures is not None:
        from adaste.report.drawings import draw_all

        print(f"{arguments.figures}: {counted(len(draw_all(collection, arguments.figures)), 'file')}")
    return 0


def _html(collection: "Collection", root: Path) -> str:
    from datetime import UTC, datetime

    from adaste.report.page import page

    return page(collection, root, datetime.now(UTC))


def _text(name: str) -> "Callable[[Collection, Path], str]":
    def make(collection: "Collection", root: Path) -> str:
        from adaste.report.texts import TEXTS

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
