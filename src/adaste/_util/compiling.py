"""Functions and methods compiled for one object each.

torch's compiler remembers by code object, and runs a function uncompiled after a few different uses: each object needs
a copy of its own.
"""

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar, cast

import torch

P = ParamSpec("P")
T = TypeVar("T")


def own_copy(function: Callable[P, T]) -> Callable[P, T]:
    """Return the same function with a code object of its own."""
    known = cast("Any", function)
    return cast("Callable[P, T]", FunctionType(known.__code__.replace(), known.__globals__, known.__name__))


def compiled_method(method: Callable[P, T]) -> Callable[P, T]:
    """Return a bound method compiled for its object alone."""
    assert isinstance(method, MethodType)
    return torch.compile(MethodType(own_copy(method.__func__), method.__self__), dynamic=False)
