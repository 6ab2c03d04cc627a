"""Latents that are exactly zero, and numbers whose product underflows: the methods that ask whether theta g > 0."""

from functools import partial

import pytest
import torch
from torch import nn

import adaste
from adaste import AdaSTE, ExactSlope, FiniteDifference, LatentOptimizer, PrintedSlope, ReleasedSlope

TINY = 1e-30
"""Its square underflows in float32."""

METHODS = {
    "printed": AdaSTE(),
    "printed, soft": AdaSTE(mu=1.0),
    "exact": AdaSTE(slope=ExactSlope()),
    "exact, soft": AdaSTE(mu=1.0, slope=ExactSlope()),
    "steepest": AdaSTE(slope=ExactSlope(steepest=True)),
    "general form": FiniteDifference(),
    "general form, tanh": FiniteDifference(adaste.Tanh(0.5)),
    "general form, fixed spacing": FiniteDifference(spacing=adaste.FixedSpacing(2.0)),
}
every_method = pytest.mark.parametrize("estimator", list(METHODS.values()), ids=list(METHODS))


def slope_of(estimator: adaste.Estimator, latent: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    return estimator.gradient(grad, latent, estimator.weight(latent, latent))


@every_method
def test_a_latent_of_zero_is_pulled_below_zero_by_a_positive_gradient(estimator: adaste.Estimator) -> None:
    assert (slope_of(estimator, torch.tensor([0.0, -0.0]), torch.tensor([0.3, 0.3])) > 0).all()


@pytest.mark.parametrize("slope", [PrintedSlope(), ExactSlope(), ExactSlope(steepest=True)], ids=repr)
@pytest.mark.parametrize("mu", [1.0, 100.0, torch.tensor(1.0), torch.tensor(100.0)])
def test_slopes_at_zero_are_the_limits_from_above(slope: adaste.estimators.adaste.Slope, mu: float) -> None:
    estimator, grad = AdaSTE(mu=mu, slope=slope), torch.tensor([0.3, -0.3])
    zero, above = (slope_of(estimator, torch.full((2,), theta), grad) for theta in (0.0, TINY))
    torch.testing.assert_close(zero, above, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize(
    "slope", [PrintedSlope(), ExactSlope(), ExactSlope(steepest=True), ReleasedSlope(threshold=0.0)], ids=repr
)
@pytest.mark.parametrize("unit", [1.0, TINY])
def test_a_gradient_counts_however_small_its_product_with_the_latent_is(
    slope: adaste.estimators.adaste.Slope, unit: float
) -> None:
    theta = torch.tensor([0.5, -0.5, 0.5, -0.5])
    small, large = (
        slope_of(AdaSTE(unit=unit, slope=slope), unit * theta, size * torch.tensor([1.0, -1.0, -1.0, 1.0]))
        for size in (1e-40, 1.0)
    )
    assert torch.equal(small != 0, large != 0)
    tiny = torch.tensor([TINY, -TINY])
    assert (slope_of(AdaSTE(slope=slope), tiny, tiny) == slope_of(AdaSTE(slope=slope), tiny, tiny.sign()) * TINY).all()


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_network_that_starts_at_zero_trains(estimator: adaste.Estimator, compiled: bool) -> None:
    parameter = nn.Parameter(torch.zeros(2, 8))
    base = partial(torch.optim.SGD, lr=0.1)
    optimizer = LatentOptimizer([parameter], base=base, estimator=estimator, compile=compiled)
    for _ in range(4):  # the first step is made by the base optimizer, compiled ones follow
        optimizer.state[parameter]["latent"].detach()[0].zero_()
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        assert (optimizer.state[parameter]["latent"][0] < 0).all()
    with optimizer.binarized():
        assert (parameter < 0).all()
