"""From what a user names (a recipe, a file of one, a file of a list of them) to recipes and names of runs."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from adaste._util.serial import parse_json
from adaste.data import data_folder, is_own, survey
from adaste.estimators.noise import Noise
from adaste.estimators.schedules import Schedule
from adaste.recipes.overrides import override
from adaste.recipes.presets import RECIPES, Preset, own_setting, preset_named
from adaste.recipes.recipe import Recipe


def find_recipes(text: str, settings: Sequence[str] = (), data: Path | None = None) -> list[tuple[str, Recipe]]:
    """Return the recipes that `text` names, each with the name of its run, after assignments `key=value`.

    `text` is the name of a recipe or the path of a JSON file: a recipe, or a list of names and recipes. A named recipe
    is a function of its length: `epochs=` makes it anew, schedules and all. In a recipe from a file it changes that
    field alone. `seed=` also reaches the noise of an estimator.

    data  the data folder: recipes for images of one's own (`folder-...`) depend on how many there are, and their runs
          are called after it.
    """
    if text in RECIPES or not (text.endswith(".json") or Path(text).is_file()):
        return [_from_name(text, settings, data)]
    path = Path(text)
    try:
        content = path.read_text()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no JSON file: {error}") from error
    try:
        plain = parse_json(content)
        if not isinstance(plain, list):
            return [_from_recipe(path.stem, Recipe.from_json(content), settings)]
        if not plain:
            raise ValueError("the list is empty: it should have names of recipes, or recipes")
        return [_entry(part, number, settings, data) for number, part in enumerate(plain, 1)]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def find_recipe(text: str, settings: Sequence[str] = (), data: Path | None = None) -> tuple[str, Recipe]:
    """Return the one recipe that `text` names (see `find_recipes`)."""
    found = find_recipes(text, settings, data)
    if len(found) != 1:
        raise ValueError(f"{text} holds {len(found)} recipes where one is wanted; `adaste study` runs a list of them")
    return found[0]


def _entry(plain: Any, number: int, settings: Sequence[str], data: Path | None) -> tuple[str, Recipe]:
    try:
        if isinstance(plain, str):
            return _from_name(plain, settings, data)
        made = _apply(Recipe.from_json(json.dumps(plain)), settings)
    except ValueError as error:
        raise ValueError(f"entry {number}: {error}") from error
    parts = _in_a_name(made.data, data), type(made.network).__name__, type(made.estimator).__name__
    return "-".join(parts).lower(), made


def _from_name(name: str, settings: Sequence[str], data: Path | None) -> tuple[str, Recipe]:
    preset = _preset(name, data)
    lengths, others = _split(settings, "epochs")
    usual = preset.make()
    made = _apply(preset.make(override(usual, lengths).epochs) if lengths else usual, others)
    networks = {network: known for known, network in preset.setting.networks.items()}
    of_data = _in_a_name(made.data, data)
    of_network = networks.get(made.network, type(made.network).__name__.lower())
    # All of the name but what stood for its data and network; methods may have hyphens of their own.
    of_method = name.removeprefix(f"{preset.setting.data}-{networks[preset.network]}-")
    estimator, base = _new_parts(usual, made)
    return "-".join([of_data, of_network, *(estimator or [of_method]), *base]), made


def _from_recipe(name: str, usual: Recipe, settings: Sequence[str]) -> tuple[str, Recipe]:
    made = _apply(usual, settings)
    estimator, base = _new_parts(usual, made)
    return "-".join([name, *estimator, *base]), made


def _preset(name: str, data: Path | None) -> Preset:
    own = name.partition("-")[0]
    if not is_own(own):
        return preset_named(name)
    return preset_named(name, {own: own_setting(own, *survey(own, data))})


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
