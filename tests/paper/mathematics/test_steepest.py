"""The steepest spacing of the double well for mu alpha < 1, against a dense search over beta."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import adaste
from adaste.paper.mathematics import relaxation

modest = settings(deadline=None, derandomize=True, max_examples=80)
SHAPES = [(0.3, 0.01), (1.0, 0.01), (10.0, 0.01), (50.0, 0.01), (0.5, 0.8), (4.0, 0.2)]
THETAS = (0.004, 0.03, 0.2, 0.5, 0.9, 0.999, 1.2, 2.5, 3.5, 22.0, 40.0, 130.0)
mus = st.floats(-2, 2).map(lambda exponent: 10**exponent)
alphas = st.floats(0.001, 0.99)
sizes = st.floats(-2, 3).map(lambda exponent: 10**exponent)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def dense(latent: float, grad: float, points: int = 200_001) -> torch.Tensor:
    """Spacings that move the latent by 1e-4 to 1e3 times its size, more finely just past the crossing."""
    size = abs(latent / grad)
    wide = size * torch.logspace(-4, 3, points, dtype=torch.float64)
    return torch.cat((wide, size * (1 + torch.logspace(-9, 0, 1001, dtype=torch.float64))))


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "alpha"), SHAPES)
@pytest.mark.parametrize("grad", [0.7, -0.7])
def test_no_spacing_is_steeper_and_the_supremum_is_approached(mu, alpha, grad):
    well = adaste.DoubleWell(mu, alpha)
    for theta in THETAS:
        betas = dense(theta, grad)
        slopes = relaxation.slope(well, scalar(theta), scalar(grad), betas) / grad
        found = float(relaxation.steepest_slope(well, scalar(theta), scalar(grad)) / grad)
        assert float(slopes.max()) <= found * (1 + 1e-7) + 1e-12
        assert float(slopes.max()) == pytest.approx(found, rel=1e-4, abs=1e-12)


@modest
@given(sizes, st.sampled_from((-1.0, 1.0)), st.sampled_from((-2.0, 0.3)), mus, alphas)
def test_steepest_beta_has_the_steepest_slope(size, side, grad, mu, alpha):
    assume(mu * alpha < 0.99)
    well, theta, g = adaste.DoubleWell(mu, alpha), scalar(side * size), scalar(grad)
    # Just above it: at beta_0 itself the perturbed latent is zero, and on the wrong side of the jump or not.
    beta = relaxation.steepest_beta(well, theta, g) * (1 + (1e-10 if theta * g > 0 else -1e-10))
    found = float(relaxation.slope(well, theta, g, beta))
    assert found == pytest.approx(float(relaxation.steepest_slope(well, theta, g)), rel=1e-7, abs=1e-12)


def test_where_no_beta_gives_any_slope_the_steepest_one_is_one():
    well = adaste.DoubleWell(1.0, 0.5)
    for size in (well.linear_reach, 2 * well.linear_reach):
        assert float(relaxation.steepest_beta(well, scalar(size), scalar(-0.3))) == 1


@modest
@given(sizes, mus, alphas)
def test_saturating_beta_wins_exactly_beyond_the_switching_latent(size, mu, alpha):
    assume(mu * alpha < 0.99)
    well, theta, g = adaste.DoubleWell(mu, alpha), scalar(size), scalar(0.4)
    assume(abs(size / relaxation.switching_latent(well) - 1) > 1e-9)
    wins = relaxation.saturating_slope(well, theta, g) > relaxation.crossing_slope(well, theta, g)
    assert bool(wins) == (size > relaxation.switching_latent(well))


@pytest.mark.parametrize(("mu", "alpha"), SHAPES)
def test_recommended_spacing_is_within_the_stated_factor_which_is_the_supremum(mu, alpha):
    well = adaste.DoubleWell(mu, alpha)
    theta = torch.logspace(-2, 9, 20_001, dtype=torch.float64)
    grad = torch.full_like(theta, 0.3)
    ratio = relaxation.steepest_slope(well, theta, grad) / relaxation.crossing_slope(well, theta, grad)
    worst = float(relaxation.worst_ratio(well))
    assert float(ratio.min()) == 1
    assert float(ratio.max()) < worst
    assert float(ratio.max()) == pytest.approx(worst, rel=1e-7)
    assert bool((ratio.diff() >= -1e-15).all()), "it grows with the latent"


@pytest.mark.parametrize(("mu", "alpha"), SHAPES)
def test_clipped_to_the_gradient_it_is_the_exact_slope_of_the_library(mu, alpha):
    well = adaste.DoubleWell(mu, alpha)
    theta = torch.tensor([sign * size for size in THETAS for sign in (1, -1)], dtype=torch.float64)
    for grad in (0.7, -0.7):
        g = torch.full_like(theta, grad)
        found = relaxation.steepest_slope(well, theta, g)
        clipped = found.clamp(-abs(grad), abs(grad))
        torch.testing.assert_close(clipped, adaste.ExactSlope(steepest=True).gradient(g, theta, well))


def test_methods_are_told_apart_from_binary_weights():
    well = adaste.DoubleWell(100.0, 0.01)
    with pytest.raises(ValueError, match=r"mu must be below 1/alpha = 100 .* got mu = 100"):
        relaxation.worst_ratio(well)
    for function in (relaxation.steepest_beta, relaxation.steepest_slope):
        with pytest.raises(ValueError, match=r"mu must be below 1/alpha"):
            function(well, torch.tensor([0.5]), torch.tensor([1.0]))


def test_crossing_slope_tends_to_that_of_binary_weights():
    near = adaste.DoubleWell(99.999999, 0.01)
    theta = scalar(3.0)
    assert float(relaxation.crossing_slope(near, theta, scalar(1.0))) == pytest.approx(2 / 3, rel=1e-6)
    assert math.isclose(float(relaxation.worst_ratio(near)), 1, rel_tol=1e-6)
