"""BayesBiNN (Meng et al. 2020): the Bayesian learning rule for Bernoulli weights, with the concrete relaxation."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adaste._util.checks import require, require_kind
from adaste.estimators.base import Estimator, start_latents
from adaste.estimators.maps import choose
from adaste.estimators.noise import Noise
from adaste.estimators.schedules import Scheduled, now

SHARP = 2.0**-23
"""Below this temperature float32, whose numbers near 1 are that far apart, knows no sample between -1 and +1."""


@dataclass(frozen=True)
class BayesBiNN(Estimator):
    """BayesBiNN (Meng et al. 2020), where theta is the natural parameter of a Bernoulli weight.

    With eps ~ U(0, 1) and delta = log(eps / (1 - eps)) / 2:

        w = tanh((theta + delta) / temperature)
        s = train_size (1 - w^2 + 1e-10) / temperature / (1 - tanh(theta)^2 + 1e-10)
        d = s g + theta - prior

    SGD with momentum m and, at its t-th step, the rate (1 - m) lr / (1 - m^t) is the published update; without momentum
    that is lr. At its published temperatures of 1e-10 and 1e-8 every w is +-1 in float32, s is one constant and
    |theta| >> |delta|: a sign of an average of gradients.

    Below a temperature of 2^-23, s is evaluated as printed and as the published code does: in float32 both brackets are
    the 1e-10 alone beyond |theta| = 9. At higher temperatures what float32 loses there would decide on s (at
    temperature 1 it is wrong by factors up to 1000), and both are evaluated as 4 exp(-2 |x|) / (1 + exp(-2 |x|))^2,
    which loses nothing.

    Args:
        train_size: The number of training examples times its published scale of 10.
        temperature: A positive number, or a schedule.
        noise: The random numbers of the sample; None takes delta = 0.
        prior: The natural parameter of the prior.
        start: Latents start at +-start with the signs of the network's weights; None takes the weights themselves.

    Raises:
        ValueError: If a number is out of range or `noise` is no noise.
    """

    elementwise: ClassVar[bool] = True

    train_size: float
    temperature: Scheduled = 1e-10
    noise: Noise | None = Noise()
    prior: float = 0.0
    start: float | None = 10.0

    def __post_init__(self) -> None:
        require("train_size", self.train_size, above=0)
        require("temperature", self.temperature, above=0)
        require("prior", self.prior)
        require_kind("noise", self.noise, Noise, optional=True)
        require("start", self.start, above=0, optional=True)

    def latent(self, weight: Tensor) -> Tensor:
        return start_latents(weight, self.start)

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return torch.tanh(self._draw(latent) / now(self.temperature))

    def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
        temperature = now(self.temperature)
        sharp = temperature < SHARP
        of_sample = choose(sharp, lambda: 1 - weight**2, lambda: _variance(self._draw(latent) / temperature))
        of_mean = choose(sharp, lambda: 1 - torch.tanh(latent) ** 2, lambda: _variance(latent))
        spread = (of_sample + 1e-10) / temperature
        scale = self.train_size * spread / (of_mean + 1e-10)
        return scale * grad + latent - self.prior

    def _draw(self, latent: Tensor) -> Tensor:
        """Return the latent with its noise, theta + delta: the same at every call within a step."""
        return latent if self.noise is None else latent + torch.logit(self.noise.uniform(latent)) / 2


def _variance(x: Tensor) -> Tensor:
    """Return 1 - tanh(x)^2."""
    decay = torch.exp(-2 * x.abs())
    return 4 * decay / (1 + decay) ** 2
