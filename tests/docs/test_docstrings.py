"""Every public name has a docstring with the Args, Returns and Raises that the reference renders."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adaste

griffe = pytest.importorskip("griffe", reason="griffe, a part of mkdocstrings, is not installed")


def sections(documented: Any) -> dict[str, Any]:
    """The sections of a docstring by kind."""
    parsed = griffe.Docstring(inspect.cleandoc(documented.__doc__ or ""), parser="google").parsed
    return {section.kind.value: section.value for section in parsed}


def raises(function: Callable[..., Any]) -> bool:
    """Whether the body raises, or calls one of the checks that do."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    called = {getattr(node.func, "id", "") for node in ast.walk(tree) if isinstance(node, ast.Call)}
    checks = {name for name in called if name.partition("_")[0] in ("require", "check")}
    return bool(checks) or any(isinstance(node, ast.Raise) for node in ast.walk(tree))


def lacking(function: Callable[..., Any], *, documented: Any = None) -> Iterator[str]:
    """What the docstring of a function lacks; `documented` has it where it is that of its class."""
    signature, found = inspect.signature(function), sections(documented or function)
    described = {parameter.name.lstrip("*") for parameter in found.get("parameters", ())}
    if missing := [name for name in signature.parameters if name not in ("self", "cls", *described)]:
        yield f"Args: {', '.join(missing)}"
    returned = signature.return_annotation in (None, "None", inspect.Signature.empty)
    if not returned and not documented and not {"returns", "yields"} & set(found):
        yield "Returns"
    if raises(inspect.unwrap(function)) and "raises" not in found:
        yield "Raises"


def lacking_of_class(kind: type) -> Iterator[str]:
    """What the docstrings of a class and of the methods that it is the first to define lack."""
    if dataclasses.is_dataclass(kind):
        described = {parameter.name for parameter in sections(kind).get("parameters", ())}
        if missing := [field.name for field in dataclasses.fields(kind) if field.name not in described]:
            yield f"Args: {', '.join(missing)}"
        check = vars(kind).get("__post_init__")
        if check and raises(check) and "raises" not in sections(kind):
            yield "Raises"
    elif "__init__" in vars(kind):
        yield from lacking(kind.__init__, documented=kind)
    for name, value in vars(kind).items():
        inherited = any(name in vars(base) for base in kind.__mro__[1:])
        if name.startswith("_") or inherited or isinstance(value, property):
            continue
        method = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isfunction(method):
            yield from (f"{name}: {each}" for each in lacking(method))


@pytest.mark.parametrize("name", adaste.__all__)
def test_a_public_name_is_documented_with_args_returns_and_raises(name: str) -> None:
    public = getattr(adaste, name)
    assert public.__doc__
    found = lacking_of_class(public) if isinstance(public, type) else lacking(public)
    assert list(found) == []


def test_an_argument_a_result_and_an_error_that_are_not_documented_are_found() -> None:
    def halved(value: float, *, strict: bool = False) -> float:
        """Return a half.

        Args:
            value: A number.
        """
        if strict:
            raise ValueError("odd")
        return value / 2

    assert list(lacking(halved)) == ["Args: strict", "Returns", "Raises"]
