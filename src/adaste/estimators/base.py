"""A method of binary training: a handful of pure functions, most of them element-wise, each with an identity default.

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
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from adaste._util.checks import require_count
from adaste.estimators.maps import Elementwise, sign
from adaste.estimators.noise import Noise
from adaste.estimators.schedules import Scalar, parts_of, transform


@dataclass(frozen=True)
class OutputAxis:
    """The position of the output channels in the shape of a weight.

    Args:
        dim: The dimension that counts them: 0 in linear and convolution layers, 1 in transformers' Conv1D, whose weight
            is (inputs, outputs), and in transposed convolutions, whose weight is (inputs, outputs / groups, ...).
        groups: The groups of a transposed convolution: dimension 0 holds the inputs of one group after those of the
            other, and dimension 1 counts the outputs of each.

    Raises:
        ValueError: If a number is out of range, or if `dim` is 0 and `groups` is not 1.
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
        """Return whether a weight of this shape can have its output channels there.

        Args:
            shape: The shape of the weight.

        Returns:
            True if the shape has this dimension and can be divided into these groups.
        """
        return self == FIRST or (self.dim < len(shape) and shape[0] % self.groups == 0)

    def outputs_first(self, weight: Tensor) -> Tensor:
        """Return the weight in the layout of a linear or convolution layer: (outputs, inputs of one, ...).

        Args:
            weight: The weight, or a tensor of its shape.

        Returns:
            The same elements with the output channels along dimension 0.
        """
        if self == FIRST:
            return weight
        by_group = weight.reshape(self.groups, -1, *weight.shape[1:])
        return by_group.movedim(self.dim + 1, 1).flatten(0, 1)

    def as_in(self, weight: Tensor, per_output: Tensor) -> Tensor:
        """Return numbers (outputs, 1, ...) or (outputs, inputs of one, ...) in a shape that multiplies the weight.

        Args:
            weight: The weight.
            per_output: The numbers, one per output channel or per element, computed from `outputs_first(weight)`.

        Returns:
            The same numbers in a shape that broadcasts to that of the weight.
        """
        if self == FIRST:
            return per_output
        by_group = per_output.reshape(self.groups, -1, *per_output.shape[1:])
        rows = by_group.movedim(1, self.dim + 1)
        inputs = weight.shape[0] // self.groups if self.groups > 1 else -1
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
        """Return the same part for weights whose output channels lie along `axis`."""

    @property
    @abstractmethod
    def is_constant(self) -> bool:
        """Whether it depends on the shape alone, not on the latents."""

    @abstractmethod
    def on_pieces(self, pieces: Sequence[Piece]) -> Any:
        """Return the same part for a vector of these pieces; it must be constant."""


@dataclass(frozen=True)
class Estimator(Elementwise, ABC):
    """A method of training binary weights: the functions that one step calls, in this order.

        theta      <- carry(theta, w)
        theta.grad <- gradient(dl/dw, theta, w)
        base.step()
        theta      <- settle(theta, w)
        w          <- weight(theta, w)

    Derive a frozen dataclass from it: its fields are its configuration, checked when it is made. `weight` must be
    defined, the other functions of a step default to the identity. All functions are pure; their tensors have the type
    of the latents.
    """

    binary: ClassVar[bool] = True
    """Whether `binarize` gives weights of one bit."""

    def latent(self, weight: Tensor) -> Tensor:
        """Return the first theta.

        Args:
            weight: The network's own initial weights.

        Returns:
            A new tensor in the shape of the weights, or with one more dimension.
        """
        return weight.clone()

    def carry(self, latent: Tensor, weight: Tensor) -> Tensor:
        """Return the latent that the step starts from.

        Args:
            latent: The theta that the last step ended with.
            weight: The w that the network computed with.

        Returns:
            A tensor in the shape of `latent`.
        """
        return latent

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        """Return what the base optimizer sees as the gradient of theta.

        Args:
            grad: dl/dw at w.
            latent: The theta that the step starts from.
            weight: The w that the network computed with.

        Returns:
            A tensor in the shape of `latent`.
        """
        return grad

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        """Return the latent that the step ends with.

        Args:
            latent: The theta that the base optimizer's step ended with.
            weight: The w that the gradient was taken at.

        Returns:
            A tensor in the shape of `latent`.
        """
        return latent

    @abstractmethod
    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        """Return w, the weights that the network computes with in training.

        Args:
            latent: The theta that the step ended with.
            previous: The w that the result replaces.

        Returns:
            A tensor in the shape of `previous`.
        """

    def position(self, latent: Tensor) -> Tensor:
        """Return the latent as one number per weight, positive for +1.

        It differs from the latent only where a latent has two coordinates.

        Args:
            latent: The theta between steps.

        Returns:
            A tensor in the shape of the weights.
        """
        return latent

    def extent(self, latent: Tensor, *, carried: bool = False) -> Tensor:
        """Return the sizes that a scale measures: `position` in the units of latents between steps, without markers.

        Args:
            latent: The theta.
            carried: Whether the latent is inside of a step, after `carry` and before `settle`.

        Returns:
            A tensor in the shape of the weights.
        """
        return self.position(latent)

    def magnitude(self, latent: Tensor) -> Scalar:
        """Return the size of the binarized weights: 1, or a scale.

        Args:
            latent: The theta between steps.

        Returns:
            A number, or a tensor that broadcasts to the shape of the weights.
        """
        return 1.0

    def binarize(self, latent: Tensor, weight: Tensor) -> Tensor:
        """Return the weights for evaluation and export, `sign(position) * magnitude` by default.

        Args:
            latent: The theta between steps.
            weight: The w that the network computes with in training.

        Returns:
            A tensor in the shape of `weight`.
        """
        return sign(self.position(latent)) * self.magnitude(latent)

    @cached_property
    def draws(self) -> bool:
        """Whether the method draws random numbers."""
        return self.on_parameter(0, 0) is not self

    @cached_property
    def takes_blocks(self) -> bool:
        """Whether the method and all its parts are element-wise, draw no numbers and measure no weights."""
        return all(
            part.elementwise
            if isinstance(part, Elementwise)
            else not (isinstance(part, Noise) or (isinstance(part, Oriented) and not part.is_constant))
            for part in parts_of(self)
        )

    def on_pieces(self, pieces: Sequence[Piece]) -> Self:
        """Return the same method for a vector of these pieces; only for a method that `takes_blocks`.

        Args:
            pieces: The shapes and sizes of the pieces, in the order of the vector.

        Returns:
            The method, with scales that know the pieces.
        """
        return transform(self, lambda part: part.on_pieces(pieces) if isinstance(part, Oriented) else part)

    def on_parameter(self, index: int, first_element: int, axis: OutputAxis = FIRST) -> Self:
        """Return the same method with the random numbers and the output channels of one parameter.

        Args:
            index: The place of the parameter among those of the optimizer.
            first_element: The first element of the parameter that this rank holds, if it is sharded.
            axis: The position of the parameter's output channels, for scales.

        Returns:
            The method, with noise and scales that know the parameter.
        """
        drawing = transform(self, lambda part: part.on(index, first_element) if isinstance(part, Noise) else part)
        if axis == FIRST:
            return drawing
        return transform(drawing, lambda part: part.along(axis) if isinstance(part, Oriented) else part)


def start_latents(weight: Tensor, size: float | None) -> Tensor:
    """Return latents of one size with the signs of the weights, or a copy of the weights if no size is given."""
    return weight.clone() if size is None else sign(weight) * size


def from_two_levels(latent: Tensor) -> Tensor:
    """Return (u_plus - u_minus) / 2 of latents with a trailing dimension for the levels (-1, +1)."""
    return (latent[..., 1] - latent[..., 0]) / 2


def to_two_levels(value: Tensor) -> Tensor:
    """Return (-x, +x) in a new trailing dimension, as dl/dw falls on two levels; `from_two_levels` is the inverse."""
    return torch.stack((-value, value), dim=-1)


@dataclass(frozen=True)
class FullPrecision(Estimator):
    """Full-precision weights, for reference runs and for parameters that stay real: `w = theta`."""

    binary: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return latent

    def binarize(self, latent: Tensor, weight: Tensor) -> Tensor:
        return latent
