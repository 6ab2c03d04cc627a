"""What mini-batch noise does to the printed rule, in closed form for mu alpha >= 1.

The rule moves a latent by d = k g where theta g > 0 and by nothing elsewhere, k = 2 / max(2, |theta|): always towards
zero. For g ~ N(m, sigma^2) and z = sign(theta) m / sigma, the mean of a truncated Gaussian gives

    E[d] = k sign(theta) sigma (phi(z) + z Phi(z)).

phi(z) + z Phi(z) > 0 for every z: on average every latent shrinks, also one whose sign is right (z < 0). For
|m| << sigma it is k (0.4 sigma sign(theta) + m / 2). An exponential average of g has the same mean and less noise.

Legend: theta latent, g gradient of one mini-batch, m its mean, sigma its noise, phi and Phi the standard normal density
and distribution, d what the optimizer sees.
"""

import math

import torch
from torch import Tensor

from adaste._util.checks import require
from adaste.estimators.maps import sign


def density(z: Tensor) -> Tensor:
    """phi(z)."""
    return torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def unit_drift(z: Tensor) -> Tensor:
    """phi(z) + z Phi(z) = E[max(0, x + z)] for a standard normal x: the drift towards zero in units of k sigma."""
    below: Tensor = torch.special.ndtr(z)
    return density(z) + z * below


def reach_factor(latent: Tensor) -> Tensor:
    """The factor k = 2 / max(2, |theta|) of eq. beta_choice."""
    return 2 / latent.abs().clamp(min=2)


def expected_update(latent: Tensor, mean: Tensor, noise: float) -> Tensor:
    """E[d] of the printed rule for g ~ N(m, sigma^2)."""
    require("noise", noise, above=0, why="it is a standard deviation")
    return reach_factor(latent) * sign(latent) * noise * unit_drift(sign(latent) * mean / noise)


def expected_update_in_noise(latent: Tensor, mean: Tensor, noise: float) -> Tensor:
    """The same to first order in m / sigma: k (sigma sign(theta) / sqrt(2 pi) + m / 2); 1 / sqrt(2 pi) is about 0.4."""
    return reach_factor(latent) * (noise / math.sqrt(2 * math.pi) * sign(latent) + mean / 2)


def averaged_noise(noise: float, averaging: float) -> float:
    """Noise of a long exponential average of rate rho of independent gradients: sigma sqrt((1 - rho) / (1 + rho))."""
    require("averaging", averaging, least=0, below=1)
    return noise * math.sqrt((1 - averaging) / (1 + averaging))


def steps_to_zero(latent: Tensor, mean: Tensor, noise: float, lr: float) -> Tensor:
    """How many steps of size `lr` the drift needs to bring a latent to zero.

    |theta| falls by lr k sigma (phi(z) + z Phi(z)) a step, with k = 1 inside 2 and 2 / |theta| beyond it.
    """
    require("lr", lr, above=0)
    size = latent.abs()
    length = size.clamp(max=2) + (size**2 - 4).clamp(min=0) / 4
    return length / (lr * noise * unit_drift(sign(latent) * mean / noise))
