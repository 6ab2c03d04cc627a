"""What the comparisons with literal references share: numbers to try, and ways to drive the code under test."""

from collections.abc import Callable, Iterable

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor, nn

import adaste

few = settings(deadline=None, derandomize=True, max_examples=30)
many = settings(deadline=None, derandomize=True, max_examples=60)


def real(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, allow_subnormal=False)


def sized(low_exponent: float, high_exponent: float) -> st.SearchStrategy[float]:
    """Positive numbers spread evenly over orders of magnitude."""
    return real(low_exponent, high_exponent).map(lambda exponent: 10.0**exponent)


def signed(size: st.SearchStrategy[float]) -> st.SearchStrategy[float]:
    return st.tuples(st.sampled_from((-1.0, 1.0)), size).map(lambda parts: parts[0] * parts[1])


latents = real(-50, 50) | signed(sized(-6, 2)) | st.sampled_from((0.0, 1.0, -1.0, 2.0, -2.0))
gradients = signed(sized(-6, 2)) | st.just(0.0)
pairs = st.lists(st.tuples(latents, gradients), min_size=1, max_size=12)
mus = sized(-2, 2.3)
alphas = st.floats(0, 1, exclude_min=True, exclude_max=True, allow_subnormal=False)
finite_reciprocals = real(1e-4, 0.999)
"""Values of alpha whose reciprocal is an ordinary mu."""


def toward_zero(theta: float, g: float) -> bool:
    """Whether theta g > 0 with sign(0) = +1 for theta."""
    return g > 0 if theta >= 0 else g < 0


def column(values: Iterable[float]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float64)


def slopes(estimator: adaste.Estimator, cases: list[tuple[float, float]]) -> list[float]:
    """d of the estimator for pairs (theta, g), with the weight the estimator itself gives for theta."""
    latent, grad = column(theta for theta, _ in cases), column(g for _, g in cases)
    return estimator.gradient(grad, latent, estimator.weight(latent, latent)).tolist()


def weights(estimator: adaste.Estimator, values: Iterable[float]) -> list[float]:
    latent = column(values)
    return estimator.weight(latent, latent).tolist()


class Training:
    """A LatentOptimizer over one parameter whose gradient is whatever the test says."""

    def __init__(
        self,
        start: Tensor,
        estimator: adaste.Estimator,
        base: Callable[..., torch.optim.Optimizer],
    ) -> None:
        self.parameter = nn.Parameter(start.clone())
        self.optimizer = adaste.LatentOptimizer([self.parameter], base=base, estimator=estimator)

    @property
    def weight(self) -> Tensor:
        return self.parameter.detach().clone()

    @property
    def latent(self) -> Tensor:
        return self.optimizer.state[self.parameter]["latent"].detach().clone()

    def step(self, grad: Tensor, lr: float | None = None) -> Tensor:
        if lr is not None:
            self.optimizer.param_groups[0]["lr"] = lr
        self.parameter.grad = grad.clone()
        self.optimizer.step()
        return self.weight


def refused(make: Callable[[], object], *, name: str, value: object) -> None:
    """The call raises a ValueError that names the parameter and shows what was given."""
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert name in str(caught.value)
    assert str(value) in str(caught.value)
