"""What a method of binary training is: a handful of pure, element-wise functions, each with an identity default.

The network owns the weights w it computes with, the optimizer owns the latent weights theta. One step, for every
method (t counts steps; all parameters that follow a schedule are taken at t unless said otherwise):

    theta      <- carry(theta, w)              where the step starts
    theta.grad <- gradient(dl/dw, theta, w)    what the chain rule is replaced by
    base.step()                                any torch optimizer, over theta
    theta      <- settle(theta, w)             where the step ends (a clip, a proximal map)
    w          <- weight(theta, w)             what the network sees next, with the parameters of t + 1

So the forward pass and the gradient of one step always see the same parameters.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from adaste._util.checks import require_count
from adaste.estimators.maps import sign
from adaste.estimators.noise import Noise
from adaste.estimators.schedules import Scalar, parts_of, transform


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


class Piece(NamedTuple):
    """One of several parameters that lie one after the other in a vector, or a part of one."""

    shape: tuple[int, ...]
    """That of the whole parameter."""
    axis: OutputAxis
    numel: int
    """How many elements of the vector it takes."""


class Oriented(ABC):
    """A part of an estimator that depends on the shape of a weight."""

    @abstractmethod
    def along(self, axis: OutputAxis) -> Any:
        """Return the same for weights whose output channels lie along `axis`."""

    @property
    @abstractmethod
    def is_constant(self) -> bool:
        """Whether it depends on the shape alone, not on the latents."""

    @abstractmethod
    def on_pieces(self, pieces: Sequence[Piece]) -> Any:
        """Return the same for a vector of these pieces, if it is constant."""


@dataclass(frozen=True)
class Estimator(ABC):
    """A method of training binary weights. Frozen: its fields are its configuration, checked when it is made."""

    binary: ClassVar[bool] = True
    """Whether `binarize` gives weights of one bit."""

    elementwise: ClassVar[bool] = False
    """Whether each element of all results depends on the same element of the arguments alone, in every bit. Every class
    says so itself: the step then calls its functions for parts of weights, or for several weights at once.
    """

    def __init_subclass__(cls) -> None:
        # Not inherited: a function that a class adds may look at a whole weight, as a mean over a layer does.
        cls.elementwise = vars(cls).get("elementwise", False)

    def latent(self, weight: Tensor) -> Tensor:
        """The theta of the start, from the network's own initial weights."""
        return weight.clone()

    def carry(self, latent: Tensor, weight: Tensor) -> Tensor:
        """The latent the step starts from."""
        return latent

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        """What the base optimizer sees as the gradient of theta; `grad` is dl/dw at w."""
        return grad

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        """The latent the step ends with; `weight` is still the one the gradient was taken at."""
        return latent

    @abstractmethod
    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        """w, what the network computes with in training; `previous` is the w it replaces."""

    def position(self, latent: Tensor) -> Tensor:
        """The latent as one number per weight, positive for +1 (differs only where a latent has two coordinates)."""
        return latent

    def extent(self, latent: Tensor, *, carried: bool = False) -> Tensor:
        """What a scale measures: `position` in the units of latents between steps, without markers.

        `carried` says that the latent is inside of a step, after `carry` and before `settle`.
        """
        return self.position(latent)

    def magnitude(self, latent: Tensor) -> Scalar:
        """The size of the binarized weights: 1, or a scale."""
        return 1.0

    def binarize(self, latent: Tensor, weight: Tensor) -> Tensor:
        """The weights for evaluation and export."""
        return sign(self.position(latent)) * self.magnitude(latent)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return self.on_parameter(0, 0) is not self

    @property
    def takes_blocks(self) -> bool:
        """Whether it and all its parts are element-wise, also in that they draw no numbers and measure no weights."""
        return all(
            part.elementwise
            if isinstance(part, Estimator)
            else not (isinstance(part, Noise) or (isinstance(part, Oriented) and not part.is_constant))
            for part in parts_of(self)
        )

    def on_pieces(self, pieces: Sequence[Piece]) -> Self:
        """Return the same method for a vector of these pieces; only for one that `takes_blocks`."""
        return transform(self, lambda part: part.on_pieces(pieces) if isinstance(part, Oriented) else part)

    def on_parameter(self, index: int, first_element: int, axis: OutputAxis = FIRST) -> Self:
        """The same method with the random numbers of one parameter, or of a shard that begins at `first_element`.

        `axis` is where the parameter has its output channels, for scales.
        """
        drawing = transform(self, lambda part: part.on(index, first_element) if isinstance(part, Noise) else part)
        if axis == FIRST:
            return drawing
        return transform(drawing, lambda part: part.along(axis) if isinstance(part, Oriented) else part)


def signed(weight: Tensor, size: float | None) -> Tensor:
    """Latents of one size with the signs of the weights; the weights themselves if no size is asked for."""
    return weight.clone() if size is None else sign(weight) * size


def from_two_levels(latent: Tensor) -> Tensor:
    """(u_plus - u_minus) / 2 of latents with a trailing dimension for the levels (-1, +1)."""
    return (latent[..., 1] - latent[..., 0]) / 2


def to_two_levels(value: Tensor) -> Tensor:
    """(-x, +x) in a new trailing dimension: the inverse of `from_two_levels`, and how dl/dw falls on two levels."""
    return torch.stack((-value, value), dim=-1)


@dataclass(frozen=True)
class FullPrecision(Estimator):
    """w = theta. For reference runs, and for the parameters that stay real."""

    binary: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return latent

    def binarize(self, latent: Tensor, weight: Tensor) -> Tensor:
        return latent
