"""`adaste list`, `adaste show` and `adaste data`: what there is to choose from."""

import argparse
import dataclasses
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from adaste.cli import options

LIST_EXAMPLES = options.examples(
    "adaste list",
    "adaste list methods",
    "adaste list fields                       fields of a recipe, which --set changes",
    "adaste list bases                        classes for --set base=..., as `estimators` for --set estimator=...",
    "adaste list recipes cifar10-resnet18     names that contain this text",
    "adaste list recipes --all",
)
SHOW_EXAMPLES = options.examples(
    "adaste show cifar10-resnet18-adaste",
    "adaste show cifar10-resnet18-adaste --epochs 30 --set batch=256 > my.json",
)
DATA_EXAMPLES = options.examples("adaste data list", "adaste data get cifar10 --data ~/data")


def add_to(commands: options.Commands) -> None:
    """Add the commands."""
    listing = options.command(
        commands, "list", "list methods, networks, data, recipes and what they are made of", LIST_EXAMPLES
    )
    listing.add_argument("what", nargs="?", choices=tuple(LISTS), help="default: all of them", metavar="|".join(LISTS))
    listing.add_argument("filter", nargs="?", default="", metavar="TEXT", help="only entries that contain this text")
    listing.add_argument("--all", action="store_true", help="list every recipe by its name")
    listing.set_defaults(act=list_some)
    showing = options.command(
        commands, "show", "print a recipe as JSON, the start of a file of your own", SHOW_EXAMPLES
    )
    showing.add_argument("recipe", metavar="NAME|RECIPE.json", help="a recipe's name or file")
    options.add_changes(showing)
    options.add_seed(showing)
    options.add_data(showing)
    showing.set_defaults(act=show)
    data_sets = options.command(commands, "data", "list the data sets, or download one", DATA_EXAMPLES)
    actions = data_sets.add_subparsers(title="actions", metavar="ACTION", required=True)
    available = options.command(actions, "list", "list the data sets and where they were found", DATA_EXAMPLES)
    options.add_data(available)
    available.set_defaults(act=list_data)
    getting = options.command(actions, "get", "download a data set from its publisher", DATA_EXAMPLES)
    getting.add_argument("name", metavar="NAME", help="name of the data set")
    options.add_data(getting)
    getting.set_defaults(act=get_data)


def list_some(arguments: argparse.Namespace) -> int:
    """Print one of the lists, or all."""
    for name in [arguments.what] if arguments.what else LISTS:
        if not arguments.what:
            print(f"\n{name}" if name != next(iter(LISTS)) else name)
        LISTS[name](arguments.filter, arguments.all)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print a recipe."""
    from adaste.cli.recipe_args import find_recipe

    _, recipe = find_recipe(arguments.recipe, options.changes(arguments), arguments.data)
    print(recipe.to_json())
    return 0


def list_data(arguments: argparse.Namespace) -> int:
    """Print a line per data set."""
    from adaste.data import available

    rows, downloads = [], False
    for source, path in available(arguments.data):
        counts = f"{source.train:,} + {source.test:,} images" if source.train and source.test else ""
        classes = f"{source.classes} classes" if source.classes else ""
        downloads |= path is None and bool(source.downloads)
        rows.append((source.name, source.title, counts, classes, str(path or "not found")))
    columns(rows)
    if downloads:
        print("`adaste data get NAME` downloads a data set.")
    return 0


def get_data(arguments: argparse.Namespace) -> int:
    """Download, and print where it is."""
    from adaste.data import get

    print(get(arguments.name, arguments.data, progress=sys.stderr.isatty()))
    return 0


def columns(rows: Sequence[tuple[str, ...]], text: str = "") -> None:
    """Print the rows that contain `text` as aligned columns: wrapped for a terminal, else a line each."""
    rows = [row for row in rows if any(text in cell for cell in row)]
    if not rows and text:
        raise ValueError(f"no entry of this list contains {text!r}")
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2, 0, 0))
        for number, _ in enumerate(rows[0]):
            table.add_column(no_wrap=number == 0, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def methods(text: str, every: bool) -> None:
    """Print the methods, the last part of the names of recipes."""
    from adaste.recipes.methods import METHODS

    columns([(name, method.title) for name, method in METHODS.items()], text)


def networks(text: str, every: bool) -> None:
    """Print the networks, the middle part of the names of recipes, and those of plug-ins."""
    from adaste._util.serial import brief
    from adaste.models import Network
    from adaste.recipes.presets import SETTINGS
    from adaste.recipes.registry import ADMITTED

    where: dict[tuple[str, str], list[str]] = {}
    for data, setting in SETTINGS.items():
        for name, network in setting.networks.items():
            where.setdefault((name, brief(network)), []).append(data)
    rows = [(name, ", ".join(data), made) for (name, made), data in where.items()]
    ours = {type(network) for setting in SETTINGS.values() for network in setting.networks.values()}
    for name, known in ADMITTED.items():
        if issubclass(known, Network) and known not in ours:  # of a plug-in
            settings = ", ".join(_setting(field) for field in dataclasses.fields(known))
            rows.append((name, f"--set network={name}", settings))
    columns(rows, text)


def data(text: str, every: bool) -> None:
    """Print the data sets, the first part of the names of recipes."""
    from adaste.data import SOURCES

    columns([(source.name, source.title, source.licence) for source in SOURCES.values()], text)


def recipes(text: str, every: bool) -> None:
    """Print the parts that make up recipes; every recipe by name with `--all` or a text to look for."""
    from adaste.recipes.methods import METHODS
    from adaste.recipes.presets import FAST, RECIPES, SETTINGS

    if every or text:
        columns([(preset.name, preset.description) for preset in RECIPES.values()], text)
        return
    print(f"{len(RECIPES)} recipes are named <data>-<network>-<method>:")
    columns(
        [(f"  {name}", f"{setting.epochs} epochs", " | ".join(setting.networks)) for name, setting in SETTINGS.items()]
    )
    each = f"  each with {' | '.join(METHODS)}"
    print(textwrap.fill(each, 80, subsequent_indent="    ", break_on_hyphens=False))
    print("  folder, folder:SIDE: your own images, as in folder:96-resnet18-adaste --data DIR")
    print(f"  beyond methods: {FAST.name}, and <data>-<network>-best with its -teacher (`adaste list recipes best`)")


def bases(text: str, every: bool) -> None:
    """Print the classes that `--set base=` accepts."""
    from adaste.recipes.bases import Base

    _classes(Base, text)


def estimators(text: str, every: bool) -> None:
    """Print the classes that `--set estimator=` accepts."""
    from adaste.estimators import Estimator

    _classes(Estimator, text)


def fields(text: str, every: bool) -> None:
    """Print the fields of a recipe, which `--set` changes, with their types and defaults."""
    from adaste._util.serial import describe_type, field_types
    from adaste.recipes.recipe import Recipe

    hints, told = field_types(Recipe), _descriptions(Recipe)
    columns(
        [
            (field.name, describe_type(hints[field.name]), _default(field), told.get(field.name, ""))
            for field in dataclasses.fields(Recipe)
        ],
        text,
    )


def _classes(kind: Any, text: str) -> None:
    """Print the registered classes of a kind with their settings."""
    from adaste.recipes.registry import ADMITTED

    columns(
        [
            (name, ", ".join(_setting(field) for field in dataclasses.fields(known)))
            for name, known in ADMITTED.items()
            if issubclass(known, kind)
        ],
        text,
    )


def _setting(field: "dataclasses.Field[object]") -> str:
    return f"{field.name}={default}" if (default := _default(field)) else field.name


def _default(field: "dataclasses.Field[object]") -> str:
    """Return the default of a field as JSON; an empty text if it has none."""
    from adaste._util.serial import brief

    if field.default is dataclasses.MISSING:
        return ""
    plain = field.default is None or isinstance(field.default, bool)
    return json.dumps(field.default) if plain else brief(field.default)


def _descriptions(kind: type) -> dict[str, str]:
    """Return the first sentence that a class's docstring has about each field, in the section Args."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:\n")
    section, _, _ = section.partition("\n\n")
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", section, re.MULTILINE)
    return {name: re.split(r"[;.:](?:\s|$)", " ".join(text.split()))[0] for name, text in entries}


LISTS = MappingProxyType(
    {
        "methods": methods,
        "networks": networks,
        "data": data,
        "recipes": recipes,
        "bases": bases,
        "estimators": estimators,
        "fields": fields,
    }
)
"""The lists by name: functions of a text to look for, and whether all is to be shown."""
