"""Changes of a recipe written as text: `base.weight_decay=0.01`, `estimator=StraightThrough`, `augmentation=[]`."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from adaste.admitted import ADMITTED
from adaste.checks import near
from adaste.recipe import Recipe
from adaste.serial import admits, field_types, fits, from_plain, in_words, parsed


def override(recipe: Recipe, assignments: Iterable[str]) -> Recipe:
    """The recipe after assignments of the form `key=value`, in their order; each must leave a valid recipe.

    Keys are names of fields, with dots to reach inside. Values are JSON, else text; the name of a class makes one
    with its defaults.
    """
    for assignment in assignments:
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not key or not equals:
            raise ValueError(f"an override is written key=value (as in base.weight_decay=0.01), got {assignment!r}")
        try:
            recipe = _assigned(recipe, key.split("."), text, within="")
        except ValueError as error:
            raise ValueError(f"{assignment}: {error}") from error
    return recipe


def _assigned(owner: Any, keys: list[str], text: str, within: str) -> Any:
    """`owner` with the field that `keys` lead to replaced; `within` is the path that led to `owner`."""
    name, *others = keys
    path = f"{within}.{name}" if within else name
    if not dataclasses.is_dataclass(owner) or isinstance(owner, type):
        raise ValueError(f"there is nothing inside {within}, which is {owner!r}; give {within} as a whole")
    hints = field_types(type(owner))
    if name not in hints:
        kind = type(owner).__name__
        raise ValueError(f"{path} is no field of {kind}{near(name, hints)} (fields: {', '.join(hints)})")
    value = _assigned(getattr(owner, name), others, text, path) if others else _value(text, hints[name], path)
    return dataclasses.replace(owner, **{name: value})


def _value(text: str, hint: Any, path: str) -> Any:
    try:
        plain = parsed(text)
    except json.JSONDecodeError:
        plain = text
    if isinstance(plain, str) and not fits(plain, hint):
        plain = {"kind": _class_name(plain, hint, path)}
    return from_plain(plain, ADMITTED, expected=hint, where=path)


def _class_name(name: str, hint: Any, path: str) -> str:
    if name not in ADMITTED:
        suitable = near(name, (known for known, kind in ADMITTED.items() if admits(hint, kind)))
        raise ValueError(f"{path} must be {in_words(hint)}, got {name!r}{suitable}")
    return name
