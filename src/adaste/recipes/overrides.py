"""Changes of a recipe written as text: `base.weight_decay=0.01`, `estimator=StraightThrough`, `augmentation=[]`."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from adaste._util.checks import suggest
from adaste._util.serial import describe_type, field_types, fits, from_plain, parse_json, suggest_classes, to_plain
from adaste.recipes.recipe import Recipe
from adaste.recipes.registry import ADMITTED


@dataclass(frozen=True)
class _Assignment:
    """`path` has been followed from the recipe, `keys` lead on from there, and `written` is the whole as given."""

    path: str
    keys: tuple[str, ...]
    text: str
    written: str

    @property
    def here(self) -> str:
        """The path of the next field."""
        return f"{self.path}.{self.keys[0]}" if self.path else self.keys[0]

    @property
    def ends(self) -> bool:
        """Whether the next field is the one it assigns."""
        return len(self.keys) == 1

    @property
    def inside(self) -> "_Assignment":
        """The same, one field further."""
        return _Assignment(self.here, self.keys[1:], self.text, self.written)


def override(recipe: Recipe, assignments: Iterable[str]) -> Recipe:
    """Return the recipe after assignments of the form `key=value`.

    Keys are names of fields, with dots to reach inside. Values are JSON, else text; the name of a class makes one
    with its defaults. All are collected before any is applied, a whole value before the fields inside of it: order
    matters only between two for the same key, where the later one counts.
    """
    changed: Recipe = _apply(recipe, [_read(assignment) for assignment in assignments])
    return changed


def _read(written: str) -> _Assignment:
    key, equals, text = (part.strip() for part in written.partition("="))
    if not key or not equals:
        raise ValueError(f"an override is written key=value (as in base.weight_decay=0.01), got {written!r}")
    return _Assignment("", tuple(key.split(".")), text, written)


def _apply(owner: Any, assignments: Sequence[_Assignment]) -> Any:
    """Return `owner` after all assignments to its fields, made at once: some values are valid only together."""
    if not assignments:
        return owner
    hints = _fields_of(owner, assignments)
    values: dict[str, Any] = {}
    for name in dict.fromkeys(assignment.keys[0] for assignment in assignments):
        mine = [assignment for assignment in assignments if assignment.keys[0] == name]
        whole = [assignment for assignment in mine if assignment.ends]
        inside = [assignment.inside for assignment in mine if not assignment.ends]
        values[name] = _make_value(whole[-1], inside, hints[name]) if whole else _apply(getattr(owner, name), inside)
    with _name_assignments(assignments):
        return dataclasses.replace(owner, **values)


def _fields_of(owner: Any, assignments: Sequence[_Assignment]) -> dict[str, Any]:
    """Return the fields of `owner` with their types. Raise ValueError if an assignment leads to none of them."""
    for assignment in assignments:
        with _name_assignments([assignment]):
            if not dataclasses.is_dataclass(owner) or isinstance(owner, type):
                path = assignment.path
                raise ValueError(f"there is nothing inside {path}, which is {owner!r}; give {path} as a whole")
            hints, name = field_types(type(owner)), assignment.keys[0]
            if name not in hints:
                raise ValueError(
                    f"{assignment.here} is no field of {type(owner).__name__}{_suggest_fields(owner, name)} "
                    f"(fields: {', '.join(hints)})"
                )
    return hints


def _suggest_fields(owner: Any, name: str) -> str:
    """Return the fields that may be meant, as the end of a message: those of this name further inside first."""
    inside = ", ".join(path for path in _paths(owner) if path.endswith(f".{name}"))
    alike = suggest(name, field_types(type(owner)))
    if not inside:
        return alike
    return f"; near it: {inside}{alike.replace('; near it: ', ', ')}"


def _paths(owner: Any, path: str = "") -> Iterator[str]:
    for field in dataclasses.fields(owner):
        yield f"{path}{field.name}"
        part = getattr(owner, field.name)
        if dataclasses.is_dataclass(part):
            yield from _paths(part, f"{path}{field.name}.")


def _make_value(whole: _Assignment, inside: Sequence[_Assignment], hint: Any) -> Any:
    """Return the value that an assignment stands for, with the fields inside of it that others assign."""
    with _name_assignments([whole]):
        plain = _to_plain(whole, hint)
    kind = ADMITTED.get(plain.get("kind", "")) if isinstance(plain, dict) else None
    # At once and not afterwards: a class may not be made without such a field, as an AdamW without base.lr.
    hints = field_types(kind) if kind else {}
    at_once = [assignment for assignment in inside if assignment.ends and assignment.keys[0] in hints]
    for assignment in at_once:
        name = assignment.keys[0]
        with _name_assignments([assignment]):
            plain[name] = to_plain(_make_value(assignment, [], hints[name]))
    with _name_assignments([whole, *inside]):
        made = from_plain(plain, ADMITTED, expected=hint, where=whole.here)
    return _apply(made, [assignment for assignment in inside if assignment not in at_once])


def _to_plain(assignment: _Assignment, hint: Any) -> Any:
    """Return the value as plain data; text for a field of another type is the name of a class."""
    try:
        plain = parse_json(assignment.text)
    except json.JSONDecodeError:
        plain = assignment.text
    if not isinstance(plain, str) or fits(plain, hint):
        return plain
    if plain not in ADMITTED:
        raise ValueError(
            f"{assignment.here} must be {describe_type(hint)}, got {plain!r}{suggest_classes(plain, hint, ADMITTED)}"
        )
    return {"kind": plain}


class _NamedError(ValueError):
    """An error that says which assignments it is about."""


@contextmanager
def _name_assignments(assignments: Sequence[_Assignment]) -> Iterator[None]:
    """Add the assignments to a ValueError of the block, unless it names some already."""
    try:
        yield
    except _NamedError:
        raise
    except ValueError as error:
        raise _NamedError(f"{', '.join(assignment.written for assignment in assignments)}: {error}") from error
