"""Random numbers that are a pure function of (seed, step, parameter, element).

A counter-based generator has no state: the numbers are the same on every rank, on every device, after a resume, for
a shard of a parameter as for the whole, and inside a compiled or captured step.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from adaste._util.checks import require_count
from adaste.estimators.schedules import Timed

_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Noise(Timed):
    """Independent uniform numbers for every element of a tensor, drawn anew at every step.

    They are a pure function of (seed, step, parameter, element): the same on every rank, on every device, after a
    resume, for a shard of a parameter as for the whole, and inside a compiled or captured step. Give the seed; the
    optimizer sets the other fields.

    Args:
        seed: A whole number of at least 0.
        step: The step of the optimizer, an integer or a tensor.
        parameter: The place of the parameter among those of the optimizer.
        first_element: The index of the first element, if the tensor is a shard of a parameter.

    Raises:
        ValueError: If `seed` is no whole number or negative.
    """

    seed: int = 0
    step: int | Tensor = 0
    parameter: int = 0
    first_element: int = 0

    def __post_init__(self) -> None:
        require_count("seed", self.seed, least=0)

    def at(self, step: int | Tensor) -> "Noise":
        """Return the numbers of another step.

        Args:
            step: The step, 0-based; an integer or a tensor.

        Returns:
            The same noise at this step.
        """
        return replace(self, step=step)

    def on(self, parameter: int, first_element: int) -> "Noise":
        """Return the numbers of another parameter.

        Args:
            parameter: The place of the parameter among those of the optimizer.
            first_element: The index, inside the whole parameter, at which a shard begins.

        Returns:
            The same noise for this parameter.
        """
        return replace(self, parameter=parameter, first_element=first_element)

    def uniform(self, like: Tensor) -> Tensor:
        """Return numbers in the open interval (0, 1), one for each element of `like`.

        They are (k + 1/2) / 2^n for whole k: n = 23, or as many bits as the fraction of a smaller type has (float16 10,
        bfloat16 7), so that none is rounded to 0, 1 or infinity.

        Args:
            like: A tensor that gives shape, type and device.

        Returns:
            A tensor of the same shape, type and device.
        """
        key: Any = 0x9E3779B9
        for word in (self.seed & _MASK, self.seed >> 32 & _MASK, self.parameter, self.step):
            key = _scramble(key ^ word)
        element = torch.arange(like.numel(), device=like.device).view(like.shape) + self.first_element
        bits = _scramble(_scramble(element ^ key) + key & _MASK)
        kept = min(23, -math.frexp(torch.finfo(like.dtype).eps)[1] + 1)
        uniform: Tensor = ((bits >> (32 - kept)).to(like.dtype) + 0.5) * 2.0**-kept
        return uniform


def _scramble(x: Any) -> Any:
    """Return a bijection of 32-bit words that mixes them well; its factors are too small to overflow 63 bits."""
    x = (x ^ (x >> 15)) * 0x2C1B3C6D & _MASK
    x = (x ^ (x >> 12)) * 0x297A2D39 & _MASK
    return x ^ (x >> 15)
