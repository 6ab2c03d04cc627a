"""Nested frozen dataclasses as JSON and back: {"kind": "AdaSTE", "mu": 100.0, ...}.

Reading makes objects of admitted classes only, by a table; every value is checked against the type of its field.
Tuples are lists in JSON. Numbers keep their type, and infinite ones and NaN are refused.
"""

import dataclasses
import hashlib
import json
import math
import types
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from adaste._util.checks import add_article, shorten, suggest

T = TypeVar("T")

_NAMES: Mapping[Any, str] = types.MappingProxyType(
    {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "null"}
)
_ADDED = "added"
"""In the metadata of a field, by `later_field`."""
_LARGEST = 2**63

DEEPEST = 50
"""Levels of nesting in JSON; recipes have about five."""


class UnknownKindError(ValueError):
    """JSON names a class that is not admitted, `kind`: it may be that of a package that is not installed."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def later_field(default: T) -> T:
    """Return a field that a class gained later: `describe` contains it only if it differs from its default.

    So what was described before the class had it is described alike, and can be read where the class lacks it.
    """
    return dataclasses.field(default=default, metadata={_ADDED: True})


def describe(value: Any) -> Any:
    """Return nested frozen dataclasses as plain data, which JSON and weights-only checkpoints can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        told = {
            field.name: describe(part)
            for field, part in parts
            if not (_ADDED in field.metadata and part == field.default)
        }
        return {"kind": type(value).__name__, **told}
    if isinstance(value, tuple):
        return [describe(part) for part in value]
    return value


def to_plain(value: Any) -> Any:
    """Return `value` as dictionaries, lists, numbers, text and None. Raise ValueError if it cannot be read back."""
    plain = describe(value)
    _check_plain(plain, type(value).__name__)
    return plain


def from_plain(plain: Any, admitted: Mapping[str, type], *, expected: Any = Any, where: str = "") -> Any:
    """Return the value that `to_plain` was given; fields with a default may be missing.

    Args:
        plain: Dictionaries, lists, numbers, text and None.
        admitted: The classes that may be made, by name.
        expected: The type the value must have, written as in an annotation.
        where: A name of the value for errors.

    Raises:
        UnknownKindError: If a class is not admitted.
        ValueError: If something else is wrong, with its place.
    """
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if isinstance(kind, str) and kind in admitted and not admits(expected, admitted[kind]):
        raise ValueError(f"{_name_place(where)} must be {describe_type(expected)}, got {add_article(kind)}")
    if isinstance(kind, str) and kind not in admitted:
        known = suggest_classes(kind, expected, admitted)
        raise UnknownKindError(kind, f"{_name_place(where)} is of an unknown kind {kind!r}{known}")
    return _check_type(_make(plain, admitted, where), expected, where)


def to_json(value: Any) -> str:
    """Return `to_plain` as indented JSON."""
    return json.dumps(to_plain(value), indent=2, allow_nan=False)


def from_json(text: str, admitted: Mapping[str, type], *, expected: Any = Any) -> Any:
    """Return the value that `to_json` was given."""
    return from_plain(parse_json(text), admitted, expected=expected)


def parse_json(text: str) -> Any:
    """Return the content of JSON. Raise ValueError if a key is given twice or it is nested too deeply."""
    try:
        plain = json.loads(text, object_pairs_hook=refuse_twice)
    except RecursionError:
        raise ValueError("this JSON is nested too deeply") from None
    _require_shallow(plain)
    return plain


def _require_shallow(plain: Any) -> None:
    """Raise ValueError beyond DEEPEST levels, whatever limit on recursion other code has set."""
    level = [plain]
    for _ in range(DEEPEST):
        level = [part for value in level if isinstance(value, dict | list) for part in _parts(value)]
        if not level:
            return
    raise ValueError(f"this JSON is nested too deeply: more than {DEEPEST} levels")


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON (sorted keys, no spaces), in hexadecimal; equal values have the same.

    Fields that have their default value are left out: a class may gain fields, and what it described before keeps its
    digest.
    """
    to_plain(value)  # an error where it is not plain
    text = json.dumps(_canonicalise(_drop_defaults(value)), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _drop_defaults(value: Any) -> Any:
    """Return `value` as plain data, without fields that have their default value."""
    if dataclasses.is_dataclass(value):
        parts = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        told = {field.name: _drop_defaults(part) for field, part in parts if part != field.default}
        return {"kind": type(value).__name__, **told}
    return [_drop_defaults(part) for part in value] if isinstance(value, tuple | list) else value


def brief(value: Any) -> str:
    """Return a value in few words: an object with the fields that differ from their defaults."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        parts = [f"{field.name}={brief(part)}" for field, part in told if part != field.default]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, tuple):
        return f"[{', '.join(map(brief, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def require_types(value: Any) -> None:
    """Check the fields of a dataclass against their annotations."""
    for name, hint in field_types(type(value)).items():
        _check_type(getattr(value, name), hint, name)


def field_types(kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass with the types their annotations stand for."""
    hints = _hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the annotations of a class, resolved once: that takes longer than all checks."""
    return get_type_hints(kind)


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has an annotation's type; a whole number is a float, too, but never a bool."""
    if hint is Any:
        return True
    if get_origin(hint) in (Union, types.UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and _elements_fit(value, get_args(hint))
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint)


def admits(hint: Any, kind: type) -> bool:
    """Return whether an annotation admits instances of a dataclass."""
    if hint is Any:
        return True
    if get_origin(hint) in (Union, types.UnionType):
        return any(admits(part, kind) for part in get_args(hint))
    return isinstance(hint, type) and issubclass(kind, hint)


def suggest_classes(name: str, hint: Any, admitted: Mapping[str, type]) -> str:
    """Return the classes that an annotation admits as the end of an error message, those like `name` first."""
    known = [other for other, kind in admitted.items() if hint is not Any and admits(hint, kind)]
    return f"{suggest(name, known)} (there are: {', '.join(known)})" if known else suggest(name, admitted)


def describe_type(hint: Any) -> str:
    """Return a type in words, without types that JSON cannot hold (the tensor a schedule becomes)."""
    if get_origin(hint) in (Union, types.UnionType):
        parts = [
            part for part in get_args(hint) if _NAMES.get(part) or get_origin(part) or dataclasses.is_dataclass(part)
        ]
        return " or ".join(describe_type(part) for part in parts)
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        if others == [Ellipsis]:
            return f"a list, each of it {describe_type(first)}"
        return f"a list of {1 + len(others)}: {', '.join(describe_type(part) for part in (first, *others))}"
    return _NAMES.get(hint) or add_article(hint.__name__)


def _elements_fit(value: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 2 and hints[1] is Ellipsis:
        return all(fits(part, hints[0]) for part in value)
    return len(value) == len(hints) and all(fits(part, hint) for part, hint in zip(value, hints, strict=True))


def _make(plain: Any, admitted: Mapping[str, type], where: str) -> Any:
    if isinstance(plain, dict):
        return _make_object(plain, admitted, where)
    if isinstance(plain, list):
        return tuple(_make(part, admitted, _join_path(where, str(index))) for index, part in enumerate(plain))
    _check_scalar(plain, where)
    return plain


def _make_object(plain: dict[str, Any], admitted: Mapping[str, type], where: str) -> Any:
    kind = plain.get("kind")
    if not isinstance(kind, str):
        raise ValueError(f'{_name_place(where)} must name its class, {{"kind": ...}}, got {shorten(plain)}')
    if kind not in admitted:
        raise UnknownKindError(kind, f"{_name_place(where)} is of an unknown kind {kind!r}{suggest(kind, admitted)}")
    hints = field_types(admitted[kind])
    given = {name: part for name, part in plain.items() if name != "kind"}
    for name in given:
        if name not in hints:
            place = _join_path(where, name)
            raise ValueError(f"{place} is no field of {kind}{suggest(name, hints)} (fields: {', '.join(hints)})")
    for field in dataclasses.fields(admitted[kind]):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in given:
            raise ValueError(
                f"{_join_path(where, field.name)} is missing: {add_article(kind)} needs it{suggest(field.name, given)}"
            )
    parts = {
        name: from_plain(part, admitted, expected=hints[name], where=_join_path(where, name))
        for name, part in given.items()
    }
    try:
        return admitted[kind](**parts)
    except ValueError as error:
        raise ValueError(f"{_name_place(where)} of kind {kind}: {error}") from error


def _check_type(value: Any, hint: Any, where: str) -> Any:
    if not fits(value, hint):
        raise ValueError(f"{_name_place(where)} must be {describe_type(hint)}, got {shorten(value)}")
    return value


def _check_plain(plain: Any, where: str) -> None:
    if isinstance(plain, dict) and isinstance(plain.get("kind"), str):
        for name, part in plain.items():
            _check_plain(part, _join_path(where, name))
    elif isinstance(plain, list):
        for index, part in enumerate(plain):
            _check_plain(part, _join_path(where, str(index)))
    else:
        _check_scalar(plain, where)


def _check_scalar(value: Any, where: str) -> None:
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(f"{_name_place(where)} has no form in JSON: {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{_name_place(where)} must be a finite number, got {value}")
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise ValueError(
            f"{_name_place(where)} must be smaller than 2^63, got a whole number of {value.bit_length()} bits"
        )


def _canonicalise(plain: Any) -> Any:
    """Write 1.0 as 1, for the two are equal: a run's name must not depend on the way its numbers are typed."""
    if isinstance(plain, dict):
        return {name: _canonicalise(part) for name, part in plain.items()}
    if isinstance(plain, list):
        return [_canonicalise(part) for part in plain]
    return int(plain) if isinstance(plain, float) and plain.is_integer() and abs(plain) < _LARGEST else plain


def refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of JSON with these keys. Raise ValueError if one is given twice (a hook of `json.loads`)."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((name, count),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{shorten(name)} is given {count} times in one JSON object")
    return found


def _join_path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _name_place(where: str) -> str:
    return where or "the value"
