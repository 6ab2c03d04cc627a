"""Packages that only some uses need: they come with an extra, and their absence says with which."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingPackageError(ImportError):
    """A package that this use needs is not there."""


@contextmanager
def needs(package: str, *, extra: str, purpose: str) -> Iterator[None]:
    """Inside, what cannot be imported is said to be missing for a purpose, and how it is installed."""
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(
            f"{purpose} needs the package {package}: {how_to_install(extra)} ({error})"
        ) from error


def how_to_install(extra: str) -> str:
    """An extra by its name, and the command: from a checkout, since a package index may have another `adaste`."""
    return f"it comes with the extra {extra!r}, in a checkout of adaste: pip install '.[{extra}]'"
