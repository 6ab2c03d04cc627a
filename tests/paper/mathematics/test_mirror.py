"""AdaSTE with s = tanh is mirror descent: maps against quadrature, steps against the finite-difference estimator."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import adaste
from adaste.paper.mathematics import mirror

pytestmark = pytest.mark.slow

modest = settings(deadline=None, derandomize=True, max_examples=80)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)
EPS = torch.finfo(torch.float64).eps
shifts = st.floats(-2.5, 2.5, allow_subnormal=False)
latents = st.floats(-4, 4, allow_subnormal=False)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def appendix_integrand(weight: np.ndarray, shift: float) -> np.ndarray:
    """1 / s'(s^-1(w) - h), as the appendix defines (s_2^-1)'."""
    return np.cosh(np.arctanh(weight) - shift) ** 2


def inverse_outer_slope(weight: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """(s_2^-1)'(w) in closed form: (cosh h - w sinh h)^2 / (1 - w^2)."""
    return (torch.cosh(shift) - weight * torch.sinh(shift)) ** 2 / (1 - weight**2)


@modest
@given(st.floats(-0.99, 0.99), shifts)
def test_inverse_of_the_outer_map_is_the_integral_that_defines_it(weight, shift):
    points = weight * (NODES + 1) / 2
    integral = float((appendix_integrand(points, shift) * WEIGHTS).sum() * weight / 2)
    found = float(mirror.inverse_outer(scalar(weight), scalar(shift)))
    assert found == pytest.approx(integral, rel=1e-9, abs=1e-13)


@modest
@given(st.floats(-0.99, 0.99), shifts)
def test_slope_of_the_inverse_outer_map_is_its_definition_also_in_closed_form(weight, shift):
    point = scalar(weight).requires_grad_()
    (slope,) = torch.autograd.grad(mirror.inverse_outer(point, scalar(shift)), point)
    defined = float(appendix_integrand(np.array(weight), shift))
    assert float(slope) == pytest.approx(defined, rel=1e-9)
    assert float(inverse_outer_slope(scalar(weight), scalar(shift))) == pytest.approx(defined, rel=1e-11)


def test_without_a_shift_the_outer_map_is_tanh_and_the_inner_one_the_identity():
    weight, latent = torch.linspace(-0.999, 0.999, 101).double(), torch.linspace(-5, 5, 101).double()
    none = torch.zeros(101, dtype=torch.float64)
    torch.testing.assert_close(mirror.inverse_outer(weight, none), torch.atanh(weight), rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(mirror.inner(latent, none), latent, rtol=1e-14, atol=1e-15)
    torch.testing.assert_close(mirror.metric(latent, none), torch.ones_like(latent))


@modest
@given(latents, shifts)
def test_inner_map_is_the_printed_inverse_of_the_outer_one_after_tanh(latent, shift):
    printed = float(mirror.inverse_outer(torch.tanh(scalar(latent)), scalar(shift)))
    # The printed form loses digits where tanh is near one, the other does not.
    assert float(mirror.inner(scalar(latent), scalar(shift))) == pytest.approx(
        printed, rel=1e-9, abs=EPS * math.exp(2 * abs(shift)) * math.cosh(latent) ** 2
    )


@modest
@given(latents, shifts)
def test_inner_slope_is_the_derivative_of_the_inner_map_and_undoes_the_metric(latent, shift):
    point = scalar(latent).requires_grad_()
    (slope,) = torch.autograd.grad(mirror.inner(point, scalar(shift)), point)
    found = mirror.inner_slope(scalar(latent), scalar(shift))
    assert float(found) == pytest.approx(float(slope), rel=1e-9)
    assert float(found) == pytest.approx((math.cosh(latent - shift) / math.cosh(latent)) ** 2, rel=1e-9)
    assert float(found * mirror.metric(scalar(latent), scalar(shift))) == pytest.approx(1)


@modest
@given(latents, shifts)
def test_outer_map_after_the_inner_one_is_tanh_with_the_slope_at_the_shifted_point(latent, shift):
    """s_2(s_1(theta)) = tanh theta, and s_2'(u) = tanh'(theta - h): the two conditions of the appendix."""
    theta, h = scalar(latent), scalar(shift)
    primal = mirror.inner(theta, h)
    assert float(inverse_outer_slope(torch.tanh(theta), h)) * float(mirror.derivative(theta - h)) == pytest.approx(
        1, rel=1e-9 + 1e-15 * math.cosh(latent) ** 2
    )
    assert float(mirror.mirror_map(primal, h)) == pytest.approx(latent, rel=1e-11, abs=1e-11)


@modest
@given(st.floats(-400, 400), shifts)
def test_mirror_map_finds_the_latent_of_any_primal_point(primal, shift):
    latent = mirror.mirror_map(scalar(primal), scalar(shift))
    assert float(mirror.inner(latent, scalar(shift))) == pytest.approx(primal, rel=1e-12, abs=1e-12)


@modest
@given(st.floats(-3, 3), st.floats(-2, 2), st.floats(-2, 0.3), st.floats(-3, 1))
def test_one_step_of_the_finite_difference_is_one_mirror_step(latent, grad, beta_exponent, eta_exponent):
    beta, eta = 10**beta_exponent, 10**eta_exponent
    theta, g = scalar(latent), scalar(grad)
    estimator = adaste.FiniteDifference(adaste.Tanh(), adaste.FixedSpacing(beta))
    moved = theta - eta * estimator.gradient(g, theta, estimator.weight(theta, theta))

    shift = mirror.mean_shift(theta, beta * g)
    stepped = mirror.mirror_step(mirror.inner(theta, shift), g, shift, eta)
    # Rounding of numbers of this size, and nothing else.
    size = math.cosh(2 * float(shift)) * (1 + abs(latent) + abs(float(moved))) * math.exp(2 * abs(float(shift)))
    assert abs(float(stepped - mirror.inner(moved, shift))) <= 16 * EPS * size


@pytest.mark.parametrize(("latent", "grad"), [(-2.0, -0.8), (1.3, 0.5), (0.4, 1.5)])
def test_with_the_steepest_spacing_the_shift_is_the_appendix_one_beta_times_the_gradient(latent, grad):
    theta, g, eta = scalar(latent), scalar(grad), 0.1
    shift = mirror.tangent_distance(theta)
    estimator = adaste.FiniteDifference(adaste.Tanh(), adaste.FixedSpacing(float(shift / g)))
    moved = theta - eta * estimator.gradient(g, theta, torch.tanh(theta))
    stepped = mirror.mirror_step(mirror.inner(theta, shift), g, shift, eta)
    assert float(stepped) == pytest.approx(float(mirror.inner(moved, shift)), rel=1e-12)


@pytest.mark.parametrize(("latent", "grad", "shift"), [(-2.0, -0.8, -1.5), (1.3, 0.5, 0.4), (0.2, -1.5, -1.0)])
def test_mirror_step_minimises_divergence_plus_linearised_loss(latent, grad, shift):
    theta, h, eta = scalar(latent), scalar(shift), 0.3
    primal = mirror.inner(theta, h)
    slope = scalar(grad) * mirror.derivative(theta - h)
    stepped = mirror.mirror_step(primal, scalar(grad), h, eta)
    grid = stepped + torch.linspace(-2, 2, 4001, dtype=torch.float64)
    values = mirror.divergence(grid, primal.expand_as(grid), h.expand_as(grid)) / eta + grid * slope
    assert float(grid[values.argmin()]) == pytest.approx(float(stepped), abs=1e-3)


@settings(modest, max_examples=25)
@given(latents, latents, shifts)
def test_divergence_is_positive_and_has_the_difference_of_the_duals_as_its_gradient(start, stop, shift):
    h = scalar(shift)
    primal, candidate = mirror.inner(scalar(start), h), mirror.inner(scalar(stop), h)
    small = 1e-4 * max(1.0, abs(float(candidate)))
    around = candidate + small * torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    left, here, right = mirror.divergence(around, primal.expand(3), h.expand(3)).tolist()
    bound = 1e-5 * (1 + abs(stop - start)) * math.exp(4 * abs(shift))
    assert here >= -1e-12
    assert (right - left) / (2 * small) == pytest.approx(stop - start, abs=bound)
