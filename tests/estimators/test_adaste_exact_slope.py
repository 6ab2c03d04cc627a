"""AdaSTE with the appendix's slope, against a search over the spacing beta."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import adaste
from support.estimators import (
    alphas,
    few,
    finite_reciprocals,
    gradients,
    latents,
    many,
    mus,
    pairs,
    signed,
    sized,
    slopes,
    toward_zero,
)


def double_well(theta: float, mu: float, alpha: float) -> float:
    return max(-1.0, min(1.0, (theta + math.copysign(mu * (1 + alpha), theta)) / (1 + mu)))


def steepest_on_a_grid(theta: float, g: float, mu: float, alpha: float, points: int = 3001) -> float:
    """max over beta of |s(theta) - s(theta - beta g)| / (beta |g|), beta |g| from 1e-5 |theta| to 1e3 |theta|."""
    here, steepest = double_well(theta, mu, alpha), 0.0
    for point in range(points):
        distance = abs(theta) * 10 ** (-5 + 8 * point / (points - 1))
        there = double_well(theta - math.copysign(distance, g), mu, alpha)
        steepest = max(steepest, abs(here - there) / distance)
    return steepest


@few
@given(signed(sized(-2, 1.5)), signed(sized(-3, 1)), mus, alphas)
def test_steepest_slope_is_the_largest_over_all_spacings_clipped_to_the_gradient(theta, g, mu, alpha):
    assume(mu * alpha < 1)
    d = slopes(adaste.AdaSTE(mu=mu, alpha=alpha, slope=adaste.ExactSlope(steepest=True)), [(theta, g)])[0]
    found = min(1.0, steepest_on_a_grid(theta, g, mu, alpha))
    # The grid misses the supremum by its spacing, 10^(8/3000) - 1 = 0.62%; differences over 1e-7 carry rounding.
    assert found - 1e-6 <= d / g <= found * 1.0063 + 1e-6


def appendix(theta: float, g: float, mu: float, alpha: float, *, steepest: bool) -> float:
    """The two candidates written out; for mu alpha < 1."""
    size, r, c = abs(theta), 1 - mu * alpha, mu * (1 + alpha)
    if not toward_zero(theta, g):
        return g / (1 + mu) if size < r else 0.0
    if size == 0:  # the quotient diverges: all of the gradient
        return g
    if size >= r:
        at_zero, at_clamp = (1 + 2 * mu + mu * alpha) / ((1 + mu) * size), 2 / (size + r)
    else:
        at_zero = (2 * c + size) / ((1 + mu) * size)
        at_clamp = (1 + 2 * mu + mu * alpha + size) / ((1 + mu) * (size + r))
    beyond = steepest and size > 1 + 2 * mu + mu * alpha
    return g * min(1.0, at_clamp if beyond else at_zero)


@pytest.mark.parametrize("steepest", [False, True])
@many
@given(pairs, mus, alphas)
def test_slope_is_the_appendix_formula_clipped_to_the_gradient(steepest, cases, mu, alpha):
    assume(mu * alpha < 1)
    estimator = adaste.AdaSTE(mu=mu, alpha=alpha, slope=adaste.ExactSlope(steepest=steepest))
    for (theta, g), d in zip(cases, slopes(estimator, cases), strict=True):
        assert d == pytest.approx(appendix(theta, g, mu, alpha, steepest=steepest), rel=1e-9)


@pytest.mark.parametrize("steepest", [False, True])
@many
@given(pairs, finite_reciprocals, st.sampled_from((1.0, 1.5, 10.0)))
def test_slope_is_the_printed_one_from_one_over_alpha_on(steepest, cases, alpha, excess):
    exact = adaste.AdaSTE(mu=excess / alpha, alpha=alpha, slope=adaste.ExactSlope(steepest=steepest))
    printed = adaste.AdaSTE(mu=excess / alpha, alpha=alpha)
    assert slopes(exact, cases) == slopes(printed, cases)


@pytest.mark.parametrize("steepest", [False, True])
@pytest.mark.parametrize("alpha", [0.013, 0.021, 0.026])
def test_slope_at_zero_passes_what_pulls_below_zero_also_where_mu_alpha_falls_short_of_one_by_rounding(steepest, alpha):
    assert (1 / alpha) * alpha < 1, "the case this test is about"
    estimator = adaste.AdaSTE(mu=1 / alpha, alpha=alpha, slope=adaste.ExactSlope(steepest=steepest))
    assert slopes(estimator, [(0.0, 1.0), (0.0, -1.0)]) == [1.0, 0.0]


@many
@given(latents, gradients, mus, alphas)
def test_slope_never_exceeds_the_gradient_and_never_opposes_it(theta, g, mu, alpha):
    for steepest in (False, True):
        d = slopes(adaste.AdaSTE(mu=mu, alpha=alpha, slope=adaste.ExactSlope(steepest=steepest)), [(theta, g)])[0]
        assert 0 <= d * math.copysign(1, g) <= abs(g)


@pytest.mark.parametrize("mu", [0.3, 1, 10, 50])
def test_recommended_spacing_is_close_to_the_steepest_one(mu):
    cases = [(1 + 0.25 * i, 1.0) for i in range(4000)]
    recommended = slopes(adaste.AdaSTE(mu=mu, alpha=0.01, slope=adaste.ExactSlope()), cases)
    steepest = slopes(adaste.AdaSTE(mu=mu, alpha=0.01, slope=adaste.ExactSlope(steepest=True)), cases)
    worst = max(b / a for a, b in zip(recommended, steepest, strict=True))
    # The limit of the ratio for large latents.
    assert 1 < worst < 2 * (1 + mu) / (1 + 2 * mu + mu * 0.01)
