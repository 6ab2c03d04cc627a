"""Full precision: the identity in every function, so the base optimizer works as if it were alone."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from adaste.estimators.base import Estimator


@dataclass(frozen=True)
class FullPrecision(Estimator):
    """w = theta. For reference runs, and for the parameters that stay real."""

    binary: ClassVar[bool] = False

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return latent

    def binarize(self, latent: Tensor, weight: Tensor) -> Tensor:
        return latent
