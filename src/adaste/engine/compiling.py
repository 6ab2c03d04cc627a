"""Methods compiled for one object."""

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def compiled(method: Callable[P, T]) -> Callable[P, T]:
    """A bound method, compiled for its object alone."""
    # The compiler remembers by code object, and runs one uncompiled after a few different uses: each object its own.
    assert isinstance(method, MethodType)
    function = method.__func__
    own = FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
    return torch.compile(MethodType(own, method.__self__), dynamic=False)
