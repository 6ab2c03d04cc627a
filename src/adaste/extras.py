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
        hint = f"pip install 'adaste[{extra}]'"
        raise MissingPackageError(f"{purpose} needs the package {package}: {hint} ({error})") from error
