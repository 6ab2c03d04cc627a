"""BinaryRelax (Yin et al. 2018): a blend of the real and the binary weight that moves to the binary one."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from adaste._util.checks import require, require_kind
from adaste.estimators.base import Estimator
from adaste.estimators.maps import sign
from adaste.estimators.scaled import ChannelMean, Scale
from adaste.estimators.schedules import Scalar, Scheduled, now


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
