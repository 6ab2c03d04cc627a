"""Mini-batch noise and the printed rule: its expected update for mu alpha >= 1, and one weight many times over.

The rule moves a latent by d = k g where theta g > 0 and by nothing elsewhere, k = 2 / max(2, |theta|): always towards
zero. For g ~ N(m, sigma^2) and z = sign(theta) m / sigma, the mean of a truncated Gaussian gives

    E[d] = k sign(theta) sigma (phi(z) + z Phi(z)).

phi(z) + z Phi(z) > 0 for every z: on average every latent shrinks, also one whose sign is right (z < 0). For
|m| << sigma it is k (0.4 sigma sign(theta) + m / 2). An exponential average of g has the same mean and less noise.

The simulation shows which rules find the sign of one weight and keep it. Its loss is m w, so the right weight is
-sign(m); a mini-batch sees g = m + sigma x with x standard normal. All rules see the same gradients. The steps are
those of `LatentOptimizer` with SGD: the same estimators and the same average.

Legend: theta latent, w weight, g gradient of one mini-batch, m its mean, sigma its noise, phi and Phi the standard
normal density and distribution, d what the optimizer sees.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adaste._util.checks import require, require_count
from adaste.estimators import AdaSTE, Estimator, StraightThrough
from adaste.estimators.maps import sign
from adaste.optim.step import average_gradient


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


@dataclass(frozen=True)
class Rule:
    """A method with its learning rate and the rate of the average of gradients it sees (0: the gradient itself)."""

    name: str
    estimator: Estimator
    lr: float
    averaging: float = 0.0

    def __post_init__(self) -> None:
        require("lr", self.lr, above=0)
        require("averaging", self.averaging, least=0, below=1)


RULES = (
    Rule("printed rule", AdaSTE(), lr=0.01),
    Rule("printed rule on averaged gradients", AdaSTE(), lr=0.01, averaging=0.995),
    Rule("straight-through with decay", StraightThrough(decay=1.0), lr=0.005),
)
"""The decayed latent is itself an exponential average of -g, of rate 1 - lr: it remembers as long as the one above."""


def noisy_gradients(mean: float, noise: float, *, steps: int, weights: int, seed: int) -> Tensor:
    """Independent draws of N(m, sigma^2) of shape (steps, weights)."""
    require("noise", noise, least=0, why="it is a standard deviation")
    require_count("steps", steps, least=1)
    require_count("weights", weights, least=1)
    generator = torch.Generator().manual_seed(seed)
    return mean + noise * torch.randn(steps, weights, generator=generator, dtype=torch.float64)


def follow(rule: Rule, gradients: Tensor, start: Tensor) -> Tensor:
    """The latents before the first and after every step, of shape (steps + 1, weights)."""
    latents = torch.empty(len(gradients) + 1, *start.shape, dtype=start.dtype)
    latents[0] = start
    average, mass = torch.zeros_like(start), torch.zeros((), dtype=start.dtype)
    for step, grad in enumerate(gradients):
        latent = latents[step]
        average, mass = average_gradient(grad, average, mass, rule.averaging)
        weight = rule.estimator.weight(latent, latent)
        latents[step + 1] = latent - rule.lr * rule.estimator.gradient(average, latent, weight)
    return latents


def share_right(latents: Tensor, mean: float) -> Tensor:
    """The share of weights with the sign that lowers the loss, at every step."""
    return (latents * mean < 0).double().mean(dim=-1)


def share_flipped(latents: Tensor) -> Tensor:
    """The share of weights that change their sign, in every step."""
    signs = sign(latents)
    return (signs[1:] != signs[:-1]).double().mean(dim=-1)


def compare(
    mean: float = -0.1, noise: float = 1.0, *, steps: int = 3000, weights: int = 2000, seed: int = 0
) -> dict[str, Tensor]:
    """The trajectories of `RULES` by name; the even weights start at +1 and the odd ones at -1."""
    gradients = noisy_gradients(mean, noise, steps=steps, weights=weights, seed=seed)
    start = torch.ones(weights, dtype=torch.float64)
    start[1::2] = -1
    return {rule.name: follow(rule, gradients, start) for rule in RULES}
