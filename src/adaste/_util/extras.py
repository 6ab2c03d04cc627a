"""Packages that only some uses need: they come with an extra, and their absence says with which."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingPackageError(ImportError):
    """An optional package is not installed."""


@contextmanager
def needs(package: str, *, extra: str, purpose: str) -> Iterator[None]:
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
