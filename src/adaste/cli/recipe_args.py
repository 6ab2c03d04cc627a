"""Recipes as the command line and study files name them."""

import dataclasses
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, cast

from adaste._util.checks import require_count, suggest
from adaste._util.serial import from_plain, parse_json, require_types
from adaste.cli.options import require_agreement
from adaste.data import data_folder, is_own, survey
from adaste.estimators.noise import Noise
from adaste.estimators.schedules import Schedule
from adaste.paper.families import Family, Setup, setup
from adaste.paper.run_list import Task
from adaste.paper.tables import CellId, family
from adaste.recipes.overrides import override
from adaste.recipes.presets import RECIPES, Preset, find_preset, own_setting
from adaste.recipes.recipe import RECIPE_CLASSES, Recipe
from adaste.runs.study.schedule import Estimate


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """Changes of recipes, and how long they take.

    Args:
        set: Changes, as in `--set`.
        epochs: The length, as in `--epochs`; None for the usual one.
        seeds: One run each; None for the usual seed.
        estimate: How long an epoch takes.
    """

    set: tuple[str, ...] = ()
    epochs: int | None = None
    seeds: tuple[int, ...] | None = None
    estimate: Estimate | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if self.epochs is not None:
            require_count("epochs", self.epochs, least=1)
            require_agreement(self.set, "epochs", self.epochs, f"epochs {self.epochs} and set")
        if self.seeds is not None:
            if not self.seeds or len(set(self.seeds)) < len(self.seeds):
                raise ValueError(
                    f"seeds must be one or more different numbers, one for each run, got {list(self.seeds)}; leave "
                    "them out for the usual seed"
                )
            seeds = ", ".join(map(str, self.seeds))
            require_agreement(self.set, "seed", seeds, f"seeds {seeds} and set")

    def variants(self) -> Iterator[list[str]]:
        """Yield the assignments of each seed."""
        length = [] if self.epochs is None else [f"epochs={self.epochs}"]
        for seed in [[]] if self.seeds is None else [[f"seed={seed}"] for seed in self.seeds]:
            yield [*length, *seed, *self.set]


@dataclass(frozen=True, kw_only=True)
class Runs(_Entry):
    """Runs of one recipe: its name, the path of its file from the folder of the study file, or the recipe itself."""

    recipe: str | Recipe


@dataclass(frozen=True, kw_only=True)
class Cells(_Entry):
    """Cells of the paper's tables, as `adaste reproduce` makes them: every method in every setup.

    Args:
        family: The family of the recipes: paper, released, ours or ablation.
        setups: Data and network, as in cifar10-resnet18.
        methods: Rows, as in adaste-annealed.

    Without an estimate, that of `adaste reproduce` counts.
    """

    family: str
    setups: tuple[str, ...]
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        source = family(self.family)
        for name in ("setups", "methods"):
            if not getattr(self, name):
                raise ValueError(f"{name} must name at least one, got an empty list")
        for method in self.methods:
            if method not in source.makers:
                raise ValueError(
                    f"methods: family {self.family} has no {method!r}{suggest(method, source.makers)}; "
                    f"it has {', '.join(source.makers)}"
                )
        for where, method in product(map(setup, self.setups), self.methods):
            if not source.has(method, where):
                raise ValueError(
                    f"family {self.family} has no recipe for {method} at {where.name}: give the setups that "
                    "have one an entry of their own"
                )

    def cells(self) -> Iterator[tuple[Family, Setup, str]]:
        """Yield family, setup and method of each cell."""
        for name, method in product(self.setups, self.methods):
            yield family(self.family), setup(name), method


_ENTRIES = {"Runs": Runs, "Cells": Cells}
_KINDS: Mapping[str, type] = ChainMap(
    {**_ENTRIES, "Estimate": Estimate}, cast("MutableMapping[str, type]", RECIPE_CLASSES)
)
"""All classes in a study file."""


class Planned(NamedTuple):
    """A run that a user asks for; without an estimate, nobody knows how long its epochs take."""

    name: str
    recipe: Recipe
    estimate: Estimate | None = None


def find_recipes(text: str, settings: Sequence[str] = (), data: Path | None = None) -> list[Planned]:
    """Return the recipes that `text` names, each with the name of its run, after assignments `key=value`.

    A named recipe and a cell are functions of their length: `epochs=` makes them anew, schedules and all. In a recipe
    from a file it changes that field alone. `seed=` also reaches the noise of an estimator.

    Args:
        text: The name of a recipe or the path of a JSON file: a recipe, or a study file, which is a list. Its entries
            are names of recipes, paths of recipe files from the folder of the list, recipes, `Runs` and `Cells`.
        settings: Assignments `key=value`, as in `--set`.
        data: The data folder: recipes for images of one's own (`folder-...`) depend on how many there are, and their
            runs are called after it.
    """
    if not _is_file(text, Path()):
        return [Planned(*_from_name(text, settings, data))]
    path = Path(text)
    plain = _read(path)
    if isinstance(plain, dict) and plain.get("kind") in _ENTRIES:
        plain = [plain]
    if not isinstance(plain, list):
        return [Planned(*_from_file(path, plain, settings))]
    try:
        if not plain:
            raise ValueError("the list is empty: it should have names of recipes, recipes, Runs or Cells")
        return [
            run for number, part in enumerate(plain, 1) for run in _entry(part, number, path.parent, settings, data)
        ]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def find_recipe(text: str, settings: Sequence[str] = (), data: Path | None = None) -> tuple[str, Recipe]:
    """Return the one recipe that `text` names (see `find_recipes`)."""
    found = find_recipes(text, settings, data)
    if len(found) != 1:
        raise ValueError(f"{text} holds {len(found)} recipes where one is wanted; `adaste study` runs a list of them")
    return found[0].name, found[0].recipe


def _is_file(text: str, folder: Path) -> bool:
    return text not in RECIPES and (text.endswith(".json") or (folder / text).is_file())


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_text())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no JSON file: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _entry(plain: Any, number: int, folder: Path, settings: Sequence[str], data: Path | None) -> list[Planned]:
    """Return the runs of an entry of a list; its own assignments come before the settings, which therefore count."""
    try:
        entry = plain if isinstance(plain, str) else from_plain(plain, _KINDS, expected=Recipe | Runs | Cells)
        if isinstance(entry, Cells):
            each = product(entry.variants(), entry.cells())
            return [_from_cell(*cell, [*own, *settings], entry.estimate) for own, cell in each]
        if isinstance(entry, Runs):
            made = [_from_part(entry.recipe, folder, [*own, *settings], data) for own in entry.variants()]
            return [Planned(name, recipe, entry.estimate) for name, recipe in made]
        return [Planned(*_from_part(entry, folder, settings, data))]
    except ValueError as error:
        raise ValueError(f"entry {number}: {error}") from error


def _from_part(part: str | Recipe, folder: Path, settings: Sequence[str], data: Path | None) -> tuple[str, Recipe]:
    if isinstance(part, Recipe):
        made = _apply(part, settings)
        parts = _in_a_name(made.data, data), type(made.network).__name__, type(made.estimator).__name__
        return "-".join(parts).lower(), made
    if not _is_file(part, folder):
        return _from_name(part, settings, data)
    path = folder / part
    return _from_file(path, _read(path), settings)


def _from_cell(
    source: Family, where: Setup, method: str, settings: Sequence[str], estimate: Estimate | None
) -> Planned:
    def make(epochs: int | None) -> Recipe:
        recipe = source.recipe(method, where, epochs)
        assert recipe is not None  # the entry has checked that
        return recipe

    usual, made = _of_length(make, settings)
    estimator, base = _new_parts(usual, made)
    name = "-".join([CellId(source.name, method, where.name).name, *estimator, *base])
    return Planned(name, made, estimate or Task(name, made, where).estimate)


def _from_name(name: str, settings: Sequence[str], data: Path | None) -> tuple[str, Recipe]:
    preset = _preset(name, data)
    usual, made = _of_length(preset.make, settings)
    networks = {network: known for known, network in preset.setting.networks.items()}
    of_data = _in_a_name(made.data, data)
    of_network = networks.get(made.network, type(made.network).__name__.lower())
    # All of the name but what stood for its data and network; methods may have hyphens of their own.
    of_method = name.removeprefix(f"{preset.setting.data}-{networks[preset.network]}-")
    estimator, base = _new_parts(usual, made)
    return "-".join([of_data, of_network, *(estimator or [of_method]), *base]), made


def _of_length(make: Callable[[int | None], Recipe], settings: Sequence[str]) -> tuple[Recipe, Recipe]:
    """Return the recipe of the usual length, and that of the length in the settings with all other settings applied."""
    lengths, others = _split(settings, "epochs")
    usual = make(None)
    return usual, _apply(make(override(usual, lengths).epochs) if lengths else usual, others)


def _from_file(path: Path, plain: Any, settings: Sequence[str]) -> tuple[str, Recipe]:
    try:
        usual = from_plain(plain, RECIPE_CLASSES, expected=Recipe)
        made = _apply(usual, settings)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    estimator, base = _new_parts(usual, made)
    return "-".join([path.stem, *estimator, *base]), made


def _preset(name: str, data: Path | None) -> Preset:
    own = name.partition("-")[0]
    if not is_own(own):
        return find_preset(name)
    return find_preset(name, {own: own_setting(own, *survey(own, data))})


def _in_a_name(data: str, folder: Path | None) -> str:
    """Return the name of the data in the name of a run; for images of your own, that of their folder."""
    kind, _, side = data.partition(":")
    where = data_folder(folder).resolve().name if is_own(data) else kind
    return "-".join(part.replace("/", "-") for part in (where, side) if part)


def _new_parts(usual: Recipe, made: Recipe) -> tuple[list[str], list[str]]:
    """Return names for a replaced estimator and a replaced base; empty lists where they were not replaced."""
    estimator, base = list(_classes(made.estimator)), [type(made.base).__name__.lower()]
    return (
        estimator if estimator != list(_classes(usual.estimator)) else [],
        base if type(made.base) is not type(usual.base) else [],
    )


def _classes(part: Any) -> Iterator[str]:
    """Yield the names of the classes that a method is made of; schedules and noise are settings."""
    yield type(part).__name__.lower()
    for field in dataclasses.fields(part):
        inside = getattr(part, field.name)
        if dataclasses.is_dataclass(inside) and not isinstance(inside, Schedule | Noise):
            yield from _classes(inside)


def _apply(made: Recipe, settings: Sequence[str]) -> Recipe:
    seeds, others = _split(settings, "seed")
    return override(made.with_seed(override(made, seeds).seed) if seeds else made, others)


def _split(settings: Sequence[str], key: str) -> tuple[list[str], list[str]]:
    """Return the assignments to `key`, and the others."""
    mine = [setting for setting in settings if setting.partition("=")[0].strip() == key]
    return mine, [setting for setting in settings if setting not in mine]
