"""Where a finite difference of tanh looks at its derivative."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adaste.paper.mathematics import mirror

modest = settings(deadline=None, derandomize=True, max_examples=100)
latents = st.floats(-5, 5, allow_subnormal=False)
distances = st.tuples(st.sampled_from((-1, 1)), st.floats(-6, 1)).map(lambda parts: parts[0] * 10 ** parts[1])


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@modest
@given(latents, distances)
def test_mean_slope_is_the_finite_difference(latent, distance):
    quotient = (math.tanh(latent) - math.tanh(latent - distance)) / distance
    assert float(mirror.mean_slope(scalar(latent), scalar(distance))) == pytest.approx(
        quotient, rel=1e-12, abs=4e-16 / abs(distance)
    )


@modest
@given(latents, distances)
def test_derivative_at_the_shifted_point_is_the_mean_slope(latent, distance):
    shift = mirror.mean_shift(scalar(latent), scalar(distance))
    slope = mirror.mean_slope(scalar(latent), scalar(distance))
    assert float(mirror.derivative(scalar(latent) - shift)) == pytest.approx(float(slope), rel=1e-13)


@modest
@given(latents, distances)
def test_shift_lies_between_nothing_and_the_whole_distance(latent, distance):
    shift = float(mirror.mean_shift(scalar(latent), scalar(distance)))
    # Where the derivative is flat (theta near zero) the point of a given slope is known to the root of rounding.
    assert -3e-8 <= shift * math.copysign(1, distance) <= abs(distance) + 3e-8


def test_no_distance_means_no_shift_and_the_plain_derivative():
    latent, nothing = scalar(0.7), scalar(0.0)
    assert mirror.mean_shift(latent, nothing) == 0
    assert float(mirror.mean_slope(latent, nothing)) == pytest.approx(float(mirror.derivative(latent)))


@pytest.mark.parametrize("latent", [-4.0, -2.0, -0.3, 0.05, 1.0, 3.0])
def test_tangent_distance_has_the_steepest_slope_on_a_grid(latent):
    grid = torch.linspace(1e-3, 15, 200_001, dtype=torch.float64) * math.copysign(1, latent)
    slopes = mirror.mean_slope(scalar(latent), grid)
    best = mirror.tangent_distance(scalar(latent))
    assert float(grid[slopes.argmax()]) == pytest.approx(float(best), abs=1e-4)
    assert slopes.max() <= mirror.mean_slope(scalar(latent), best) + 1e-15


@pytest.mark.parametrize("latent", [-4.0, -2.0, -0.3, 1.0, 3.0])
def test_whole_distance_is_a_shift_where_the_slope_is_stationary_and_only_there(latent):
    def gap(distance: torch.Tensor) -> float:
        at_the_end = mirror.derivative(scalar(latent) - distance)
        return float(at_the_end / mirror.mean_slope(scalar(latent), distance)) - 1

    best = mirror.tangent_distance(scalar(latent))
    assert abs(gap(best)) < 1e-12
    # Before the tangent point the curve is steeper than the chord that ends there, after it flatter.
    assert gap(best * 0.9) > 1e-4
    assert gap(best * 1.1) < -1e-4
