"""Warnings that name a line of the user's, however many frames of ours and of torch's lie in between."""

import sys
import warnings
from types import FrameType

_BETWEEN = {"adaste", "torch", "contextlib", "functools", "collections"}


def warn_user(message: str) -> None:
    """Warn of the innermost line that is neither ours nor torch's.

    How many frames torch puts around a step is its own business: a learning rate scheduler adds one.
    """
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
