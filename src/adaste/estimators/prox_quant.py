"""ProxQuant (Bai et al. 2019): gradient at the real weights, then a proximal step towards +-1."""

from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from adaste._util.checks import require
from adaste.estimators.base import Estimator
from adaste.estimators.maps import choose, sign
from adaste.estimators.schedules import Linear, Scheduled, Steps, now


@dataclass(frozen=True)
class ProxQuant(Estimator):
    """ProxQuant (Bai et al. 2019): the gradient at the real weights, then a proximal step towards +-1.

        theta <- clip(prox(theta)), the proximal map of strength * min(|theta - 1|, |theta + 1|)
        w = theta

    Args:
        strength: How far one step pulls towards the nearer of -1 and +1; grows linearly in training.
        frozen: From where it is 1 on, weights are +-1 and do not move any more.

    Raises:
        ValueError: If a number is out of range.
    """

    elementwise: ClassVar[bool] = True

    strength: Scheduled = 1e-4
    frozen: Scheduled = 0.0

    def __post_init__(self) -> None:
        require("strength", self.strength, least=0)
        require("frozen", self.frozen, least=0, most=1)

    @classmethod
    def linear(
        cls, *, learning_rate: float, rate: float = 1e-4, steps_per_epoch: int, epochs: int, freeze: int | None = None
    ) -> Self:
        """Return the published schedule: strength = learning_rate rate epoch.

        Args:
            learning_rate: The learning rate of the base optimizer.
            rate: The growth of the strength per epoch, for a learning rate of 1.
            steps_per_epoch: Optimizer steps in an epoch.
            epochs: Epochs of the whole run.
            freeze: The epoch from which on weights are frozen; None for never.

        Returns:
            A ProxQuant with these schedules.
        """
        strength = Linear(start=0.0, stop=learning_rate * rate * epochs, length=epochs, every=steps_per_epoch)
        frozen = 0.0 if freeze is None else Steps(values=(0.0, 1.0), ticks=(freeze,), every=steps_per_epoch)
        return cls(strength=strength, frozen=frozen)

    def settle(self, latent: Tensor, weight: Tensor) -> Tensor:
        return choose(now(self.frozen) >= 1, lambda: sign(weight), lambda: self._prox(latent))

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return choose(now(self.frozen) >= 1, lambda: sign(latent), lambda: latent)

    def _prox(self, latent: Tensor) -> Tensor:
        nearest = sign(latent)
        gap = latent - nearest
        return (nearest + gap.sign() * (gap.abs() - now(self.strength)).clamp(min=0)).clamp(-1, 1)
