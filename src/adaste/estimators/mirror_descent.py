"""Mirror descent (Ajanthan et al. 2021): straight-through gradients, justified by a mirror map that sharpens.

The dual point is theta, the primal point w = primal(theta). Kept in the dual it is stable ("-s"); kept in the primal,
only w survives a step, and its saturation with it. For two levels the tanh and the softmax map give the same training
from the same start, theta = (u_plus - u_minus) / 2; they differ in how many numbers they keep.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require, require_kind
from adaste.estimators.base import Estimator, from_two_levels, to_two_levels
from adaste.estimators.maps import Elementwise
from adaste.estimators.schedules import Scheduled, now

ABSORBED = 1000.0
"""The dual point of a weight that does not move any more: no step brings it back."""

STUCK = 2.0**-23
"""A weight of a tanh that is nearer to +-1 than this: in float32 the published update takes it to +-1 by itself."""


@dataclass(frozen=True)
class Mirror(Elementwise, ABC):
    """A mirror map between the dual space of latents and the primal space of weights."""

    @abstractmethod
    def latent(self, weight: Tensor) -> Tensor:
        """Return a latent whose position is `weight`.

        Args:
            weight: One number per weight.

        Returns:
            A new tensor, perhaps with one more dimension.
        """

    @abstractmethod
    def position(self, latent: Tensor) -> Tensor:
        """Return the latent as one number per weight.

        Args:
            latent: theta.

        Returns:
            A tensor in the shape of the weights.
        """

    reach: ClassVar[float]
    """The largest |position| whose weight float32 tells from +-1: all that is left if the weight alone survives."""

    def rounded(self, position: Tensor) -> Tensor:
        """Return the position of the weight as float32 holds it; infinite where that is +-1.

        Args:
            position: One number per weight.

        Returns:
            A tensor in the same shape.
        """
        return position

    @abstractmethod
    def remembered(self, position: Tensor) -> Tensor:
        """Return the latent of a position, made from nothing but its weight.

        Args:
            position: One number per weight.

        Returns:
            A latent.
        """

    @abstractmethod
    def pull(self, grad: Tensor) -> Tensor:
        """Return dl/dw as the gradient of the latent's coordinates.

        Args:
            grad: dl/dw.

        Returns:
            A tensor in the shape of a latent.
        """


@dataclass(frozen=True)
class TanhMirror(Mirror):
    """The mirror map `w = tanh(theta)`, with one number per weight."""

    elementwise: ClassVar[bool] = True

    # Above, tanh is nearer to 1 than to the largest float32 below it, 1 - 2^-24.
    reach: ClassVar[float] = math.atanh(1 - 2.0**-25)

    def latent(self, weight: Tensor) -> Tensor:
        return weight.clone()

    def position(self, latent: Tensor) -> Tensor:
        return latent

    def rounded(self, position: Tensor) -> Tensor:
        # Steps much smaller than 1 are lost in the last digits of a weight long before it is +-1.
        weight = torch.tanh(position).to(torch.float32)
        end = torch.copysign(torch.full_like(position, math.inf), position)
        return torch.where(1 - weight.abs() < STUCK, end, torch.atanh(weight).to(position.dtype))

    def remembered(self, position: Tensor) -> Tensor:
        return position

    def pull(self, grad: Tensor) -> Tensor:
        return grad


@dataclass(frozen=True)
class SoftmaxMirror(Mirror):
    """The mirror map `p = softmax(u), w = p_plus - p_minus`, with two numbers per weight.

    The smaller of its probabilities keeps all its digits until nothing is left of it: `rounded` changes nothing.
    """

    elementwise: ClassVar[bool] = True

    # Above, the smaller probability exp(-2 position) is below the smallest normal float32, 2^-126.
    reach: ClassVar[float] = 63 * math.log(2)

    def latent(self, weight: Tensor) -> Tensor:
        return to_two_levels(weight)

    def position(self, latent: Tensor) -> Tensor:
        return from_two_levels(latent)

    def remembered(self, position: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(2 * to_two_levels(position))

    def pull(self, grad: Tensor) -> Tensor:
        return to_two_levels(grad)


@dataclass(frozen=True)
class MirrorDescent(Estimator):
    """Mirror descent (Ajanthan et al. 2021), with `d = g`.

        stable:    w = primal(beta theta)
        unstable:  w <- primal(dual(w) - beta (what the base subtracts))

    beta grows in training, multiplied by a factor at every tick (a `Geometric` schedule). Unstable, the weight is the
    only memory; it is kept as its dual point in float32, so that a network may compute in bfloat16. With a beta that
    grows by a factor r per step, dual(w) / beta is an exponential average of the base's steps at the rate log r.

    Args:
        mirror: `TanhMirror()` or `SoftmaxMirror()`. From the same start both give the same training.
        stable: Whether the dual point is kept.
        beta: A positive number, or a schedule.
        absorbing: Unstable only: a weight that float32 cannot tell from +-1 never moves again, as in the published
            code, where its dual point is lost. Without it weights go on jumping between the ends as beta grows (17.9 %
            on CIFAR-10 where the published accuracy is 92.3; docs/reproducing.md).
        single_precision: Unstable only: the weight that survives a step is one of float32, as in the published code.
            Near +-1 that of a tanh has few digits, in which steps much smaller than 1 are lost.

    Raises:
        ValueError: If `beta` is not positive, `mirror` is no mirror, or `absorbing` or `single_precision` is given with
            the stable form.
    """

    elementwise: ClassVar[bool] = True

    mirror: Mirror = TanhMirror()
    stable: bool = True
    beta: Scheduled = 1.0
    absorbing: bool = False
    single_precision: bool = False

    def __post_init__(self) -> None:
        require("beta", self.beta, above=0)
        require_kind("mirror", self.mirror, Mirror)
        for name in ("absorbing", "single_precision"):
            if getattr(self, name) and self.stable:
                raise ValueError(
                    f"{name} is of the unstable form: the stable one keeps its dual points, got stable=True"
                )

    @cached_property
    def takes_blocks(self) -> bool:
        # On CPUs torch rounds the atanh of a tensor's last elements otherwise than that of the others.
        return super().takes_blocks and not self.single_precision

    def latent(self, weight: Tensor) -> Tensor:
        return self.mirror.latent(weight)

    def position(self, latent: Tensor) -> Tensor:
        return self.mirror.position(latent)

    def extent(self, latent: Tensor, *, carried: bool = False) -> Tensor:
        position = self.position(latent)
        if self.stable:
            return position
        # A step divides by beta, and only what is inside of the reach survives it: ABSORBED is no size of a weight.
        dual = position * now(self.beta) if carried else position
        return dual.clamp(-self.mirror.reach, self.mirror.reach)

    def carry(self, latent: Tensor, weight: Tensor) -> Tensor:
        # Unstable: beta multiplies the step and not the map. Dividing before and multiplying after the base's step
        # does that for every base, also for one that is blind to the scale of its gradient.
        return latent if self.stable else self.mirror.remembered(self._surviving(latent)) / now(self.beta)

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        return self.mirror.pull(grad)

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        return latent if self.stable else latent * now(self.beta)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        position = self.position(latent)
        return torch.tanh(now(self.beta) * position if self.stable else position)

    def _surviving(self, latent: Tensor) -> Tensor:
        """Return the position of the weight that is left after a step."""
        position, reach = self.position(latent), self.mirror.reach
        if self.single_precision:
            position = self.mirror.rounded(position)
        if not self.absorbing:
            return position.clamp(-reach, reach)
        return torch.where(
            position.abs() < reach, position, torch.copysign(torch.full_like(position, ABSORBED), position)
        )
