"""Straight-through estimators: BinaryConnect (Courbariaux et al. 2015), which clips latents, and the plain one."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require, require_kind
from adaste.estimators.base import Estimator, start_latents
from adaste.estimators.maps import sign
from adaste.estimators.noise import Noise


def round_at_random(latent: Tensor, noise: Noise) -> Tensor:
    """Return +1 with probability clip((theta + 1) / 2, 0, 1), else -1."""
    return torch.where(noise.uniform(latent) < (latent + 1) / 2, 1.0, -1.0).to(latent.dtype)


@dataclass(frozen=True)
class BinaryConnect(Estimator):
    """BinaryConnect (Courbariaux et al. 2015): `w = sign(theta)`, `d = g`, theta clipped to [-1, 1].

    Args:
        noise: If given, w is drawn at random in training, +1 with probability (theta + 1) / 2.

    Raises:
        ValueError: If `noise` is no noise.
    """

    elementwise: ClassVar[bool] = True

    noise: Noise | None = None

    def __post_init__(self) -> None:
        require_kind("noise", self.noise, Noise, optional=True)

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        return latent.clamp(-1, 1)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return sign(latent) if self.noise is None else round_at_random(latent, self.noise)


@dataclass(frozen=True)
class StraightThrough(Estimator):
    """The straight-through estimator: `w = sign(theta)`, `d = g + decay theta`.

    Args:
        decay: 1 with SGD makes theta an exponential average of -g with rate lr: the dynamics that give released AdaSTE
            and BayesBiNN code their accuracy, and the strongest simple baseline.
        window: If given, the gradient passes only where |theta| <= window.
        noise: If given, w is drawn at random in training, +1 with probability clip((theta + 1) / 2, 0, 1).
        start: If given, latents start at +-start with the signs of the network's weights. With decay they live at the
            size of gradients, and forget larger initial values only slowly.

    Raises:
        ValueError: If a number is out of range or `noise` is no noise.
    """

    elementwise: ClassVar[bool] = True

    decay: float = 0.0
    window: float | None = None
    noise: Noise | None = None
    start: float | None = None

    def __post_init__(self) -> None:
        require("decay", self.decay, least=0)
        require("window", self.window, above=0, optional=True)
        require_kind("noise", self.noise, Noise, optional=True)
        require("start", self.start, above=0, optional=True)

    def latent(self, weight: Tensor) -> Tensor:
        return start_latents(weight, self.start)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return sign(latent) if self.noise is None else round_at_random(latent, self.noise)

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        if self.window is not None:
            grad = torch.where(latent.abs() <= self.window, grad, 0.0)
        return grad + self.decay * latent if self.decay else grad
