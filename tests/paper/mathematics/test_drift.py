"""The drift of the printed rule under noise: closed form against Monte Carlo through the library's estimator."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import adaste
from adaste.paper.mathematics import drift

modest = settings(deadline=None, derandomize=True, max_examples=100)
DRAWS = torch.randn(1_000_000, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize("theta", [-7.0, -1.0, 0.3, 2.0, 5.0])
@pytest.mark.parametrize(("mean", "noise"), [(0.0, 1.0), (0.1, 1.0), (-0.3, 0.2), (2.0, 1.5), (-1e-5, 1e-3)])
def test_expected_update_is_the_mean_over_a_million_noisy_gradients(theta, mean, noise):
    grad = mean + noise * DRAWS
    latent = torch.full_like(grad, theta)
    updates = adaste.AdaSTE().gradient(grad, latent, latent)
    uncertainty = float(updates.std()) / math.sqrt(len(DRAWS))
    expected = float(drift.expected_update(scalar(theta), scalar(mean), noise))
    assert abs(float(updates.mean()) - expected) < 4 * uncertainty


@modest
@given(st.floats(-20, 20).filter(bool), st.floats(-5, 5))
def test_every_latent_shrinks_on_average_whatever_its_mean_gradient(theta, mean):
    assert float(drift.expected_update(scalar(theta), scalar(mean), 1.0)) * theta > 0


@modest
@given(st.floats(-5, 5).filter(bool), st.floats(-0.2, 0.2))
def test_in_strong_noise_it_is_four_tenths_of_the_noise_plus_half_the_mean(theta, mean):
    """The next term of the series is k sigma phi(0) z^2 / 2."""
    exact = float(drift.expected_update(scalar(theta), scalar(mean), 1.0))
    rough = float(drift.expected_update_in_noise(scalar(theta), scalar(mean), 1.0))
    factor = 2 / max(2, abs(theta))
    assert rough == pytest.approx(factor * (0.39894 * math.copysign(1, theta) + mean / 2), rel=1e-4)
    assert abs(exact - rough) <= factor * 0.2 * mean**2 + 1e-15


def test_without_noise_only_a_gradient_that_pulls_towards_zero_moves_the_latent():
    assert float(drift.expected_update(scalar(1.0), scalar(0.5), 1e-6)) == pytest.approx(0.5)
    assert float(drift.expected_update(scalar(-1.0), scalar(0.5), 1e-6)) == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("averaging", [0.0, 0.9, 0.995])
def test_noise_of_an_average_is_that_of_a_long_one(averaging):
    generator = torch.Generator().manual_seed(3)
    average = torch.zeros(20_000, dtype=torch.float64)
    for _ in range(1 if averaging == 0 else math.ceil(8 / (1 - averaging))):
        average = averaging * average + (1 - averaging) * torch.randn(20_000, generator=generator, dtype=torch.float64)
    assert float(average.std()) == pytest.approx(drift.averaged_noise(1.0, averaging), rel=0.02)


@pytest.mark.parametrize("theta", [1.5, -5.0])
def test_steps_to_zero_are_those_of_a_latent_that_follows_the_drift(theta):
    latent, mean, lr, steps = scalar(theta), scalar(0.1), 0.01, 0
    predicted = float(drift.steps_to_zero(latent, mean, 1.0, lr))
    while float(latent) * theta > 0:
        latent, steps = latent - lr * drift.expected_update(latent, mean, 1.0), steps + 1
    assert steps == pytest.approx(predicted, rel=0.01)


def test_noise_that_is_no_standard_deviation_is_refused():
    with pytest.raises(ValueError, match="noise must be above 0"):
        drift.expected_update(scalar(1.0), scalar(0.0), 0.0)
    with pytest.raises(ValueError, match="averaging must be"):
        drift.averaged_noise(1.0, 1.0)
