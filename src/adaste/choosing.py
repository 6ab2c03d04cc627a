"""From what a user names (a recipe, a file of one, a file of a list of them) to recipes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adaste.overrides import override
from adaste.recipe import Recipe
from adaste.recipes import RECIPES, recipe
from adaste.serial import parsed


def chosen(text: str, settings: Sequence[str] = ()) -> list[tuple[str, Recipe]]:
    """The recipes that `text` names, each with the name of its run, after assignments of the form `key=value`.

    `text` is the name of a recipe or the path of a JSON file: a recipe, or a list of names and recipes. A named recipe
    is a function of its length: `epochs=` makes it anew, schedules and all. In a recipe from a file it changes that
    field alone. `seed=` also reaches the noise of an estimator.
    """
    if text in RECIPES or not (text.endswith(".json") or Path(text).is_file()):
        return [(text, _from_name(text, settings))]
    path = Path(text)
    try:
        content = path.read_text()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no JSON file: {error}") from error
    try:
        plain = parsed(content)
        if not isinstance(plain, list):
            return [(path.stem, _changed(Recipe.from_json(content), settings))]
        if not plain:
            raise ValueError("the list is empty: it should have names of recipes, or recipes")
        return [_entry(part, number, settings) for number, part in enumerate(plain, 1)]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def chosen_one(text: str, settings: Sequence[str] = ()) -> tuple[str, Recipe]:
    """The one recipe that `text` names (see `chosen`)."""
    found = chosen(text, settings)
    if len(found) != 1:
        raise ValueError(f"{text} holds {len(found)} recipes where one is wanted; `adaste study` runs a list of them")
    return found[0]


def _entry(plain: Any, number: int, settings: Sequence[str]) -> tuple[str, Recipe]:
    try:
        if isinstance(plain, str):
            return plain, _from_name(plain, settings)
        made = _changed(Recipe.from_json(json.dumps(plain)), settings)
    except ValueError as error:
        raise ValueError(f"entry {number}: {error}") from error
    parts = made.data.replace(":", "-").replace("/", "-"), type(made.network).__name__, type(made.estimator).__name__
    return "-".join(parts).lower(), made


def _from_name(name: str, settings: Sequence[str]) -> Recipe:
    usual = recipe(name)
    lengths, others = _divided(settings, "epochs")
    return _changed(recipe(name, epochs=override(usual, lengths).epochs) if lengths else usual, others)


def _changed(made: Recipe, settings: Sequence[str]) -> Recipe:
    seeds, others = _divided(settings, "seed")
    return override(made.with_seed(override(made, seeds).seed) if seeds else made, others)


def _divided(settings: Sequence[str], key: str) -> tuple[list[str], list[str]]:
    """The assignments to `key`, and the others."""
    mine = [setting for setting in settings if setting.partition("=")[0].strip() == key]
    return mine, [setting for setting in settings if setting not in mine]
