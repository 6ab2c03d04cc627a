"""Parameters by patterns of names: `include`, `exclude` and `float_layers` mean the same by them."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from adaste._util.checks import near

_SHOWN = 8
"""Names in a message."""


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern of fnmatch is one of the parameter's name, or of a module's that the parameter is in."""
    return any(fnmatchcase(part, pattern) for part in _with_modules(name))


def no_match(role: str, pattern: object, names: Iterable[str]) -> ValueError:
    """Return the error for a pattern, or another test, that takes none of the parameters called `names`."""
    names = list(names)
    known = dict.fromkeys(part for name in names for part in (name, *_with_modules(name)))
    return ValueError(
        f"the {role} pattern {pattern!r} matches none of the {len(names)} parameters, nor a module that holds some"
        f"{near(pattern, known) if isinstance(pattern, str) else ''}; there are {listed(names)}"
    )


def listed(names: Iterable[str]) -> str:
    """Return names as a message shows them: the first few, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _with_modules(name: str) -> Iterator[str]:
    """The name of a parameter after those of all modules around it: a, a.b, a.b.weight."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))
