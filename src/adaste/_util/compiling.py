"""Functions and methods compiled for one object each, and those that are not to be compiled.

torch's compiler remembers by code object, and runs a function uncompiled after a few different uses: each object needs
a copy of its own.
"""

import functools
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


def untraced(function: Callable[P, T]) -> Callable[P, T]:
    """Return `function` in a form that compiled code calls without tracing it.

    For methods of an optimizer: what they write into its attributes, such as a count of steps, the compiler would drop.
    """
    made: list[Callable[P, T]] = []

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not made:  # not before the first call: to load the compiler takes seconds
            made.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call]
        return made[0](*args, **kwargs)

    return call
