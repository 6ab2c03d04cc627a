"""One weight under a noisy gradient of constant mean, many times over: which rules find its sign and keep it.

The loss is m w, so the right weight is -sign(m); a mini-batch sees g = m + sigma x with x standard normal. All rules
see the same gradients. The steps are those of `LatentOptimizer` with SGD: the same estimators and the same average.

Legend: m mean gradient, sigma noise, theta latent, w weight.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from adaste._util.checks import require, require_count
from adaste.estimators import AdaSTE, Estimator, StraightThrough
from adaste.estimators.maps import sign
from adaste.optim.step import averaged


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
        average, mass = averaged(grad, average, mass, rule.averaging)
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
