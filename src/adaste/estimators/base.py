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
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from adaste.estimators.maps import sign
from adaste.estimators.noise import Noise
from adaste.estimators.output_axis import FIRST, Oriented, OutputAxis
from adaste.estimators.schedules import Scalar, transform


@dataclass(frozen=True)
class Estimator(ABC):
    """A method of training binary weights. Frozen: its fields are its configuration, checked when it is made."""

    binary: ClassVar[bool] = True
    """Whether `binarize` gives weights of one bit."""

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
