"""Relaxations that end as the sign: PARQ (Jin et al. 2025), a piecewise-affine map that steepens, and BinaryRelax
(Yin et al. 2018), a blend of the real and the binary weight that moves to the binary one.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require, require_kind
from adaste.estimators.base import Estimator
from adaste.estimators.maps import sign
from adaste.estimators.scaled import ChannelMean, Scale
from adaste.estimators.schedules import Scalar, Scheduled, now


@dataclass(frozen=True)
class PARQ(Estimator):
    """PARQ (Jin et al. 2025), a piecewise-affine map that steepens into the sign function.

        w = clip(theta / rho, -v, v), or v sign(theta) at rho = 0
        d = g

    Args:
        rho: The inverse slope, from 1 to 0 along a `Sigmoid` schedule in the published method.
        scale: The scale v.

    Raises:
        ValueError: If `rho` is outside of [0, 1] or `scale` is no scale.
    """

    elementwise: ClassVar[bool] = True

    rho: Scheduled = 1.0
    scale: Scale = ChannelMean()

    def __post_init__(self) -> None:
        require("rho", self.rho, least=0, most=1)
        require_kind("scale", self.scale, Scale)

    def magnitude(self, latent: Tensor) -> Scalar:
        return self.scale.of(latent)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        level, rho = self.magnitude(latent), now(self.rho)
        return torch.where(latent.abs() >= rho * level, sign(latent) * level, latent / rho)


@dataclass(frozen=True)
class BinaryRelax(Estimator):
    """BinaryRelax (Yin et al. 2018), a blend of the real and the binary weight.

        w = (1 - share) theta + share v sign(theta)
        d = g

    Args:
        share: A number in [0, 1], or a schedule; it goes linearly from 0 to 1.
        scale: The scale v.

    Raises:
        ValueError: If `share` is out of range or `scale` is no scale.
    """

    elementwise: ClassVar[bool] = True

    share: Scheduled = 1.0
    scale: Scale = ChannelMean()

    def __post_init__(self) -> None:
        require("share", self.share, least=0, most=1)
        require_kind("scale", self.scale, Scale)

    def magnitude(self, latent: Tensor) -> Scalar:
        return self.scale.of(latent)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        share = now(self.share)
        return (1 - share) * latent + share * self.magnitude(latent) * sign(latent)
