"""Checks of what a user gives: numbers, and names of parameters.

Each raises an error that says what is wrong, why, what was given and what is allowed.
"""

import difflib
import math
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Bounded(Protocol):
    """A value that changes, as a schedule does."""

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest of its values."""


def require(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    optional: bool = False,
    why: str = "",
) -> None:
    """Check that a number, or all values of a schedule, lie inside open (above, below) or closed (least, most) ends.

    None passes where the number is `optional`. So does a tensor: it is what a schedule has become at some step, and the
    schedule was checked when it was made.
    """
    if isinstance(value, Tensor) or (optional and value is None):
        return
    if isinstance(value, Bounded):
        lowest, highest = value.bounds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):  # torch 2.6 cannot compile int | float
        lowest = highest = value
    else:
        raise ValueError(f"{name} must be a number or a schedule{' or None' if optional else ''}, got {value!r}")
    if not (above < lowest and highest < below and least <= lowest and highest <= most):
        ends = [
            (above, f"above {above:g}"),
            (least, f"at least {least:g}"),
            (below, f"below {below:g}"),
            (most, f"at most {most:g}"),
        ]
        finite = [] if math.isfinite(lowest) and math.isfinite(highest) else ["finite"]
        allowed = " and ".join([*finite, *(text for end, text in ends if math.isfinite(end))])
        raise ValueError(f"{name} must be {allowed}{f' ({why})' if why else ''}, got {value}")


def require_count(name: str, value: int, least: int) -> None:
    """Check that `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def require_finite(name: str, value: float) -> None:
    """Check that `value` is a plain number, and finite."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")


def require_kind(name: str, value: Any, kind: type, *, optional: bool = False) -> None:
    """Check that `value` is an instance of `kind`, or None where that is allowed."""
    if not (isinstance(value, kind) or (optional and value is None)):
        raise ValueError(f"{name} must be {add_article(kind.__name__)}{' or None' if optional else ''}, got {value!r}")


def add_article(name: str) -> str:
    """Return a class's name with "a" or "an" before it; one that begins with two capitals is spelt: an SGD, a VGG."""
    vowels = "AEFHILMNORSX" if name[:2].isupper() else "AEIO"
    return f"{'an' if name[0] in vowels else 'a'} {name}"


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the known names that look like `name`, as the end of an error message; empty if none does."""
    originals = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), originals, n=3, cutoff=0.4)
    return f"; near it: {', '.join(originals[other] for other in close)}" if close else ""


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern of fnmatch is one of the parameter's name, or of a module's that the parameter is in."""
    return any(fnmatchcase(part, pattern) for part in _with_modules(name))


def no_match(role: str, pattern: object, names: Iterable[str]) -> ValueError:
    """Return the error for a pattern, or another test, that takes none of the parameters called `names`."""
    names = list(names)
    known = dict.fromkeys(part for name in names for part in (name, *_with_modules(name)))
    return ValueError(
        f"the {role} pattern {pattern!r} matches none of the {len(names)} parameters, nor a module that holds some"
        f"{suggest(pattern, known) if isinstance(pattern, str) else ''}; there are {list_names(names)}"
    )


def list_names(names: Iterable[str], most: int = 8) -> str:
    """Return names as a message shows them: the first few, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shorten(value: Any, most: int = 100) -> str:
    """Return a value as a message shows it, in so many characters at most."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _with_modules(name: str) -> Iterator[str]:
    """Return the names of all modules around a parameter, and its own: a, a.b, a.b.weight."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))
