"""Which dimension of a weight counts its output channels, for all that treats them differently from its inputs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from adaste._util.checks import require_count


@dataclass(frozen=True)
class OutputAxis:
    """The place of the output channels in the shape of a weight.

    dim     the dimension that counts them: 0 in linear and convolution layers, 1 in transformers' Conv1D, whose weight
            is (inputs, outputs), and in transposed convolutions, whose weight is (inputs, outputs / groups, ...).
    groups  of a transposed convolution: dimension 0 holds the inputs of one group after those of the other, and
            dimension 1 counts the outputs of each.
    """

    dim: int = 0
    groups: int = 1

    def __post_init__(self) -> None:
        require_count("dim", self.dim, least=0)
        require_count("groups", self.groups, least=1)
        if self.dim == 0 and self.groups != 1:
            raise ValueError(
                f"groups must be 1 where dimension 0 counts the output channels, which are then those of all groups, "
                f"got {self.groups}"
            )

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether a weight of this shape can have its output channels there."""
        return self == FIRST or (self.dim < len(shape) and shape[0] % self.groups == 0)

    def outputs_first(self, weight: Tensor) -> Tensor:
        """Return the weight as a linear or convolution layer has it: (outputs, inputs of one, ...)."""
        if self == FIRST:
            return weight
        by_group = weight.reshape(self.groups, -1, *weight.shape[1:])
        return by_group.movedim(self.dim + 1, 1).flatten(0, 1)

    def as_in(self, weight: Tensor, per_output: Tensor) -> Tensor:
        """Return numbers (outputs, 1, ...), one per output channel, in a shape that multiplies the weight."""
        if self == FIRST:
            return per_output
        by_group = per_output.reshape(self.groups, -1, *per_output.shape[1:])
        rows = by_group.movedim(1, self.dim + 1)
        inputs = weight.shape[0] // self.groups if self.groups > 1 else 1
        return rows.expand(-1, inputs, *rows.shape[2:]).flatten(0, 1)


FIRST = OutputAxis()
"""Dimension 0 counts them, as in most layers."""


class Oriented(ABC):
    """Whatever depends on which dimension of a weight counts its output channels."""

    @abstractmethod
    def along(self, axis: OutputAxis) -> Any:
        """Return the same for weights whose output channels lie along `axis`."""
