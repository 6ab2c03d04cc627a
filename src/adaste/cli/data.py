"""`adaste data`: which data there are, and how to get them."""

import argparse
import sys

from adaste.cli import options

EXAMPLES = options.examples("adaste data list", "adaste data get cifar10 --data ~/data")


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "data", "list the data sets, or download one", EXAMPLES)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = options.command(actions, "list", "list the data sets and where they were found", EXAMPLES)
    options.add_data(listing)
    listing.set_defaults(act=list_all)
    getting = options.command(actions, "get", "download a data set from its publisher", EXAMPLES)
    getting.add_argument("name", metavar="NAME", help="of the data set")
    options.add_data(getting)
    getting.set_defaults(act=get_one)


def list_all(arguments: argparse.Namespace) -> int:
    """Print a line per data set."""
    from adaste.cli.columns import columns
    from adaste.data import available

    rows = []
    for source, path in available(arguments.data):
        counts = f"{source.train:,} + {source.test:,} images" if source.train and source.test else ""
        classes = f"{source.classes} classes" if source.classes else ""
        missing = "not found; `adaste data get` downloads it" if source.downloads else "not found"
        rows.append((source.name, source.title, counts, classes, str(path) if path else missing))
    columns(rows)
    return 0


def get_one(arguments: argparse.Namespace) -> int:
    """Download, and print where it is."""
    from adaste.data import get

    print(get(arguments.name, arguments.data, progress=sys.stderr.isatty()))
    return 0
