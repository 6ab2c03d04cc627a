"""Mirror descent (Ajanthan et al. 2021): straight-through gradients, justified by a mirror map that sharpens.

The dual point is theta, the primal point w = primal(theta). Kept in the dual it is stable ("-s"); kept in the primal,
only w survives a step, and its saturation with it. For two levels the tanh and the softmax map give the same training
from the same start, theta = (u_plus - u_minus) / 2; they differ in how many numbers they keep.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from adaste.checks import require, require_kind
from adaste.estimators.base import Estimator, from_two_levels, to_two_levels
from adaste.schedules import Scheduled, now

REACH = math.atanh(1 - 2.0**-23)
"""The dual point of the largest float32 below 1: a weight that is all a step remembers cannot have gone further. Unlike
in the published code, which lets it round to +-1 itself, both ends can be left again."""


@dataclass(frozen=True)
class Mirror(ABC):
    """A mirror map between the dual space of latents and the primal space of weights."""

    @abstractmethod
    def latent(self, weight: Tensor) -> Tensor:
        """A latent whose position is `weight`."""

    @abstractmethod
    def position(self, latent: Tensor) -> Tensor:
        """The latent as one number per weight."""

    @abstractmethod
    def remembered(self, latent: Tensor) -> Tensor:
        """The dual point of the latent's weight: what is left of it if the weight alone survives."""

    @abstractmethod
    def pull(self, grad: Tensor) -> Tensor:
        """dl/dw as the gradient of the latent's coordinates."""


@dataclass(frozen=True)
class TanhMirror(Mirror):
    """w = tanh(theta), one number per weight."""

    def latent(self, weight: Tensor) -> Tensor:
        return weight.clone()

    def position(self, latent: Tensor) -> Tensor:
        return latent

    def remembered(self, latent: Tensor) -> Tensor:
        return latent.clamp(-REACH, REACH)

    def pull(self, grad: Tensor) -> Tensor:
        return grad


@dataclass(frozen=True)
class SoftmaxMirror(Mirror):
    """p = softmax(u), w = p_plus - p_minus, two numbers per weight."""

    def latent(self, weight: Tensor) -> Tensor:
        return to_two_levels(weight)

    def position(self, latent: Tensor) -> Tensor:
        return from_two_levels(latent)

    def remembered(self, latent: Tensor) -> Tensor:
        return torch.log_softmax(to_two_levels(self.position(latent).clamp(-REACH, REACH)), dim=-1)

    def pull(self, grad: Tensor) -> Tensor:
        return to_two_levels(grad)


@dataclass(frozen=True)
class MirrorDescent(Estimator):
    """d = g. Stable: w = primal(beta theta). Unstable: w <- primal(dual(w) - beta (what the base subtracts)).

    beta grows in training, multiplied by a factor at every tick (a Geometric schedule). Unstable, the weight is the
    only memory; it is kept as its dual point in float32, so that a network may compute in bfloat16.
    """

    mirror: Mirror = TanhMirror()
    stable: bool = True
    beta: Scheduled = 1.0

    def __post_init__(self) -> None:
        require("beta", self.beta, above=0)
        require_kind("mirror", self.mirror, Mirror)

    def latent(self, weight: Tensor) -> Tensor:
        return self.mirror.latent(weight)

    def position(self, latent: Tensor) -> Tensor:
        return self.mirror.position(latent)

    def carry(self, latent: Tensor, weight: Tensor) -> Tensor:
        # Unstable: beta multiplies the step and not the map. Dividing before and multiplying after the base's step
        # does that for every base, also for one that is blind to the scale of its gradient.
        return latent if self.stable else self.mirror.remembered(latent) / now(self.beta)

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        return self.mirror.pull(grad)

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        return latent if self.stable else latent * now(self.beta)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        position = self.position(latent)
        return torch.tanh(now(self.beta) * position if self.stable else position)
