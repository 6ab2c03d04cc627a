"""The general form with any map and any spacing, against (s(theta) - s(theta - beta g)) / beta."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import adaste
from support.estimators import column, few, many, pairs, real, sized, slopes, toward_zero, weights

MAPS = ("tanh", "hard tanh", "double well", "sign")


def literal(kind: str, shape: float) -> Callable[[float, float], float]:
    """s(theta, side) for one shape parameter in (0, 1); `side` is from where theta = 0 is approached."""

    def s(theta: float, side: float) -> float:
        direction = math.copysign(1.0, theta if theta != 0 else side)
        if kind == "tanh":
            return math.tanh(theta / (4 * shape))
        if kind == "hard tanh":
            return max(-1.0, min(1.0, theta / (4 * shape)))
        if kind == "double well":
            return max(-1.0, min(1.0, (theta + 3 * shape * 1.3 * direction) / (1 + 3 * shape)))
        return direction

    return s


def under_test(kind: str, shape: float) -> adaste.Tanh | adaste.HardTanh | adaste.DoubleWell:
    if kind == "tanh":
        return adaste.Tanh(4 * shape)
    if kind == "hard tanh":
        return adaste.HardTanh(4 * shape)
    return adaste.DoubleWell(mu=3 * shape, alpha=0.3) if kind == "double well" else adaste.DoubleWell(50, 0.5)


shapes = real(0.01, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAPS)
@many
@given(cases=pairs, shape=shapes, beta=sized(-3, 1))
def test_fixed_spacing_is_the_literal_quotient(kind, shape, cases, beta):
    s, estimator = literal(kind, shape), adaste.FiniteDifference(under_test(kind, shape), adaste.FixedSpacing(beta))
    for (theta, g), d in zip(cases, slopes(estimator, cases), strict=True):
        quotient = (s(theta, 1.0) - s(theta - beta * g, 1.0)) / beta
        assert d == pytest.approx(quotient, rel=1e-9, abs=1e-14 / beta)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAPS)
@many
@given(cases=pairs, shape=shapes, reach=st.sampled_from((0.5, 1.0, 2.0, 3.0)))
def test_adaptive_spacing_is_the_literal_quotient_with_the_limit_beyond_the_crossing(kind, shape, cases, reach):
    s = literal(kind, shape)
    estimator = adaste.FiniteDifference(under_test(kind, shape), adaste.AdaptiveSpacing(reach))
    for (theta, g), d in zip(cases, slopes(estimator, cases), strict=True):
        toward = toward_zero(theta, g)
        beta = max(reach, abs(theta)) / abs(g) if toward else 1.0
        perturbed = theta - math.copysign(max(reach, abs(theta)), g) if toward else theta - g
        quotient = (s(theta, 1.0) - s(perturbed, -g)) / beta if g else 0.0
        assert d == pytest.approx(quotient, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("reach", [0.5, 2.0])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_both_spacings_give_the_same_slope_at_zero_for_the_same_beta(kind, reach, zero):
    forward = under_test(kind, 0.4)
    for g, beta in ((0.3, reach / 0.3), (-0.3, 1.0)):
        (adaptive,) = slopes(adaste.FiniteDifference(forward, adaste.AdaptiveSpacing(reach)), [(zero, g)])
        (fixed,) = slopes(adaste.FiniteDifference(forward, adaste.FixedSpacing(beta)), [(zero, g)])
        assert adaptive == pytest.approx(fixed, rel=1e-12, abs=1e-15)
        assert adaptive > 0 or g < 0


@pytest.mark.parametrize("kind", MAPS)
@few
@given(thetas=st.lists(real(-10, 10), min_size=1, max_size=10), shape=shapes)
def test_weight_is_the_map_of_the_latent(kind, shape, thetas):
    expected = [literal(kind, shape)(theta, 1.0) for theta in thetas]
    assert weights(adaste.FiniteDifference(under_test(kind, shape)), thetas) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("theta", [-1.3, -0.4, 0.6, 2.0])
@pytest.mark.parametrize("g", [-0.9, 0.7])
def test_quotient_converges_linearly_to_the_chain_rule(theta, g):
    chain_rule = g * (1 - math.tanh(theta / 1.5) ** 2) / 1.5
    errors = []
    for beta in (0.04, 0.02, 0.01, 0.005):
        estimator = adaste.FiniteDifference(adaste.Tanh(1.5), adaste.FixedSpacing(beta))
        errors.append(abs(slopes(estimator, [(theta, g)])[0] - chain_rule))
    for coarse, fine in itertools.pairwise(errors):
        assert coarse / fine == pytest.approx(2, rel=0.1)
    assert errors[0] > 1e-6


@pytest.mark.parametrize("forward", [adaste.HardTanh(2.0), adaste.DoubleWell(mu=1.0, alpha=0.25)])
@pytest.mark.parametrize("theta", [-0.5, 0.3])
def test_quotient_of_a_piecewise_linear_map_is_the_chain_rule_itself_for_small_spacing(forward, theta):
    for g in (-0.4, 0.4):
        d = slopes(adaste.FiniteDifference(forward, adaste.FixedSpacing(0.01)), [(theta, g)])[0]
        assert d == pytest.approx(g / 2, rel=1e-12)


@pytest.mark.parametrize("forward", [adaste.Tanh(1.5), adaste.HardTanh(4.0), adaste.DoubleWell(mu=1.0, alpha=0.25)])
def test_small_spacing_keeps_its_digits_in_float32(forward):
    latent, grad = torch.tensor([0.35, -0.35, 0.6, -0.6]), torch.tensor([0.3, 0.3, -0.3, -0.3])
    estimator = adaste.FiniteDifference(forward, adaste.FixedSpacing(1e-6))
    slope = estimator.gradient(grad, latent, forward(latent)).tolist()
    for theta, g, d in zip(latent.tolist(), grad.tolist(), slope, strict=True):
        derivative = {
            adaste.Tanh: (1 - math.tanh(theta / 1.5) ** 2) / 1.5,
            adaste.HardTanh: 0.25,
            adaste.DoubleWell: 0.5,
        }[type(forward)]
        assert d == pytest.approx(g * derivative, rel=1e-5)


def test_default_is_adaste():
    cases = [(theta / 8, g) for theta in range(-40, 41) for g in (-0.3, 0.3)]
    assert slopes(adaste.FiniteDifference(), cases) == slopes(adaste.AdaSTE(), cases)


def test_spacing_follows_its_schedule_during_training():
    latent = column([0.6])
    spacing = adaste.FixedSpacing(adaste.Steps(values=(0.5, 0.1), ticks=(3,)))
    scheduled = adaste.FiniteDifference(adaste.Tanh(), spacing)
    for step, beta in ((2, 0.5), (3, 0.1)):
        d = adaste.at_step(scheduled, step).gradient(column([0.7]), latent, latent).item()
        assert d == pytest.approx((math.tanh(0.6) - math.tanh(0.6 - beta * 0.7)) / beta, rel=1e-12)
