"""Methods compiled for one object."""

from collections.abc import Callable
from types import MethodType
from typing import ParamSpec, TypeVar

import torch

from adaste.compiling import own_copy

P = ParamSpec("P")
T = TypeVar("T")


def compiled(method: Callable[P, T]) -> Callable[P, T]:
    """A bound method, compiled for its object alone."""
    assert isinstance(method, MethodType)
    return torch.compile(MethodType(own_copy(method.__func__), method.__self__), dynamic=False)
