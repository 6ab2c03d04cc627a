"""What torch's compiler asks of functions that are compiled for many objects."""

from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def own_copy(function: Callable[P, T]) -> Callable[P, T]:
    """The same function with a code object of its own.

    The compiler remembers by code object, and runs one uncompiled after a few different uses: each object its own.
    """
    known = cast("Any", function)
    return cast("Callable[P, T]", FunctionType(known.__code__.replace(), known.__globals__, known.__name__))
