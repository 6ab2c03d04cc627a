"""Other packages: optional ones that may be missing, and the names that plug-ins bring by entry points."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from adaste._util.warnings import warn_user


class MissingPackageError(ImportError):
    """An optional package is not installed."""


@contextmanager
def require_package(package: str, *, extra: str, purpose: str) -> Iterator[None]:
    """Turn an ImportError of the block into an error that names the purpose, the package and how to install it."""
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(
            f"{purpose} needs the package {package}: {how_to_install(extra)} ({error})"
        ) from error


def how_to_install(extra: str) -> str:
    """Return how to install an extra: from a checkout, since a package index may have another `adaste`."""
    return f"it comes with the extra {extra!r}, in a checkout of adaste: pip install '.[{extra}]'"


T = TypeVar("T")

Check = Callable[[str, Any], str]
"""Return what is wrong with an object that a package brings under a name; an empty text where nothing is."""


class PluginError(ValueError):
    """A name cannot be used because of the package that brings it."""


class Registry(Mapping[str, T], Generic[T]):
    """A read-only mapping from names to objects: our own, and those of entry points.

    No entry point takes a name of ours. Looking up a name imports the package that brings it and no other; a package
    that fails, or a name that two packages bring, is an error that names them. Iteration imports all packages, and
    leaves out what cannot be used with a warning.
    """

    def __init__(self, own: Mapping[str, T], groups: Mapping[str, Check]) -> None:
        """Make a registry.

        Args:
            own: Our own objects by name.
            groups: The groups of entry points, each with the check of an object that is loaded from it.
        """
        self._own, self._groups = own, groups
        self._loaded: dict[str, T] = {}
        self._warned: set[str] = set()

    def __getitem__(self, name: str) -> T:
        entries = self._entries.get(name, [])
        if name in self._own:
            return self._own[name]
        if not entries:
            raise KeyError(name)
        if name not in self._loaded:
            self._loaded[name] = self._load(name, entries)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        for name in self._entries:
            if name not in self._own:
                try:
                    self[name]
                except PluginError as error:
                    self._warn(str(error))
                else:
                    yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _entries(self) -> dict[str, list[EntryPoint]]:
        """The entry points by name. The first lookup finds them; that reads metadata and imports nothing."""
        found: dict[str, list[EntryPoint]] = {}
        for group in self._groups:
            for entry in entry_points(group=group):
                found.setdefault(entry.name, []).append(entry)
        for name in self._own.keys() & found.keys():
            bringing = _list_packages(found[name])
            self._warn(f"{name!r} of {bringing} is refused: adaste has that name; rename it there")
        return found

    def _load(self, name: str, entries: list[EntryPoint]) -> T:
        if len(entries) > 1:
            raise PluginError(f"{name!r} is refused: {_list_packages(entries)} bring that name; uninstall all but one")
        (entry,) = entries
        try:
            found = entry.load()
        except Exception as error:  # whatever the code of another package does
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(f"{name!r} of {_list_packages(entries)} cannot be imported ({reason})") from error
        wrong = self._groups[entry.group](name, found)
        if wrong:
            raise PluginError(f"{name!r} of {_list_packages(entries)} is refused: {wrong}")
        loaded: T = found
        return loaded

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warn_user(message)


def _list_packages(entries: list[EntryPoint]) -> str:
    """Return the packages of entry points with their versions, and where in them the objects are."""
    names = [f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package" for entry in entries]
    return " and ".join(f"the package {name} ({entry.value})" for name, entry in zip(names, entries, strict=True))
