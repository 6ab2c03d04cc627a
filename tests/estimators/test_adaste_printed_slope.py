"""AdaSTE with the rule of the main text, against the finite difference it stands for."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import adaste
from support.estimators import (
    Training,
    alphas,
    column,
    finite_reciprocals,
    gradients,
    latents,
    many,
    mus,
    pairs,
    slopes,
    toward_zero,
    weights,
)


def double_well(theta: float, mu: float, alpha: float, side: float = 0.0) -> float:
    """Eq. our_s_mapping; `side` says from where theta = 0 is approached."""
    direction = math.copysign(1.0, theta if theta != 0 else side)
    return max(-1.0, min(1.0, (theta + mu * (1 + alpha) * direction) / (1 + mu)))


def finite_difference(theta: float, g: float, mu: float, alpha: float) -> float:
    """(w* - w_hat) / beta with eq. beta_choice."""
    if g == 0:
        return 0.0
    here = double_well(theta, mu, alpha, side=1.0)
    if toward_zero(theta, g):
        beta = max(2.0, abs(theta)) / abs(g)
        # From |theta| = 2 on the perturbed point is zero: the limit from beyond the crossing.
        perturbed = 0.0 if abs(theta) >= 2 else theta - math.copysign(2.0, g)
        return (here - double_well(perturbed, mu, alpha, side=-theta)) / beta
    return here - double_well(theta - g, mu, alpha)


@many
@given(pairs, mus, alphas)
def test_slope_is_the_finite_difference_with_the_papers_spacing(cases, mu, alpha):
    for (theta, g), d in zip(cases, slopes(adaste.AdaSTE(mu=mu, alpha=alpha), cases), strict=True):
        assert d == pytest.approx(finite_difference(theta, g, mu, alpha), rel=1e-9, abs=1e-13)


@many
@given(st.lists(latents, min_size=1, max_size=12), mus, alphas)
def test_weight_is_the_clipped_double_well_map(thetas, mu, alpha):
    for theta, w in zip(thetas, weights(adaste.AdaSTE(mu=mu, alpha=alpha), thetas), strict=True):
        assert w == pytest.approx(double_well(theta, mu, alpha, side=1.0), rel=1e-12)


@many
@given(pairs, mus, alphas)
def test_slope_is_odd_in_latent_and_gradient_together(cases, mu, alpha):
    assume(all(theta != 0 for theta, _ in cases))  # which sign(0) = +1 puts on one side
    estimator = adaste.AdaSTE(mu=mu, alpha=alpha)
    mirrored = [(-theta, -g) for theta, g in cases]
    assert slopes(estimator, mirrored) == [-d for d in slopes(estimator, cases)]


@many
@given(pairs, mus, alphas)
def test_slope_never_exceeds_the_gradient(cases, mu, alpha):
    for (_, g), d in zip(cases, slopes(adaste.AdaSTE(mu=mu, alpha=alpha), cases), strict=True):
        assert abs(d) <= abs(g) * (1 + 1e-15)


@many
@given(latents, gradients, finite_reciprocals, st.floats(1, 10))
def test_slope_is_zero_where_the_weight_already_agrees_with_the_gradient(theta, g, alpha, excess):
    assume(not toward_zero(theta, g))
    assert slopes(adaste.AdaSTE(mu=excess / alpha, alpha=alpha), [(theta, g)]) == [0.0]


@many
@given(pairs, finite_reciprocals, st.floats(1, 10))
def test_slope_does_not_depend_on_mu_and_alpha_once_weights_are_binary(cases, alpha, excess):
    for (theta, g), d in zip(cases, slopes(adaste.AdaSTE(mu=excess / alpha, alpha=alpha), cases), strict=True):
        expected = g * 2 / max(2, abs(theta)) if toward_zero(theta, g) else 0.0
        assert d == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("mu", "alpha"), [(0.01, 0.01), (0.1, 0.3), (1, 0.01), (1, 0.6), (10, 0.01), (50, 0.015)])
def test_slope_below_one_over_alpha_has_its_five_written_out_pieces(mu, alpha):
    c, r = mu * (1 + alpha), 1 - mu * alpha
    seen, cases, expected = set(), [], []
    for theta, g in [(theta / 32, g) for theta in range(1, 130) for g in (0.003, 0.2, 5.0, -0.003, -0.2, -5.0)]:
        if g < 0:
            piece, factor = "away", min(abs(g), max(0, r - theta)) / (1 + mu) / abs(g)
        elif theta <= r:
            piece, factor = "linear", (1 + (theta + c) / (1 + mu)) / 2
        elif theta <= 2 - r:
            piece, factor = "straight through", 1.0
        elif theta < 2:
            piece, factor = "landing in the linear part", (1 + (2 - theta + c) / (1 + mu)) / 2
        else:
            piece, factor = "landing at zero", (1 + c / (1 + mu)) / theta
        seen.add(piece)
        cases += [(theta, g), (-theta, -g)]
        expected += [g * factor, -g * factor]
    assert slopes(adaste.AdaSTE(mu=mu, alpha=alpha), cases) == pytest.approx(expected, rel=1e-12)
    assert seen == {"away", "linear", "straight through", "landing in the linear part", "landing at zero"}


@pytest.mark.parametrize(("mu", "share"), [(0.01, 0.505), (0.1, 0.546), (1, 0.7525), (10, 0.959), (50, 0.995)])
def test_annealing_weakens_the_slope_of_large_latents_by_the_tabulated_share(mu, share):
    annealed = slopes(adaste.AdaSTE(mu=mu, alpha=0.01), [(7.0, 1.0)])[0]
    binary = slopes(adaste.AdaSTE(mu=100, alpha=0.01), [(7.0, 1.0)])[0]
    assert annealed / binary == pytest.approx(share, abs=6e-4)


def test_slope_of_large_latents_is_not_halved_by_rounding_in_float32():
    generator = torch.Generator().manual_seed(0)
    latent = 2 + 20 * torch.rand(20_000, generator=generator)
    grad = torch.rand(20_000, generator=generator) + 1e-3
    slope = adaste.AdaSTE().gradient(grad, latent, torch.ones_like(latent))
    assert torch.allclose(slope, 2 * grad / latent, rtol=1e-6, atol=0)


@pytest.mark.parametrize("slope", [adaste.PrintedSlope(), adaste.ExactSlope(), adaste.ReleasedSlope()])
@pytest.mark.parametrize("mu", [0.5, 100.0])
def test_unit_only_rescales_the_latent(slope, mu):
    latent, grad = torch.linspace(-4, 4, 161, dtype=torch.float64), column([0.3, -0.3]).repeat(81)[:161]
    plain = adaste.AdaSTE(mu=mu, slope=slope)
    rescaled = adaste.AdaSTE(mu=mu, slope=slope, unit=0.25)
    assert torch.equal(rescaled.weight(latent / 4, latent), plain.weight(latent, latent))
    assert torch.equal(rescaled.gradient(grad, latent / 4, latent), plain.gradient(grad, latent, latent))


@pytest.mark.slow
def test_rescaling_latent_unit_and_rate_together_leaves_every_sign_as_it_is():
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(200, generator=generator, dtype=torch.float64)
    factor = 2.0**-7
    plain = Training(start, adaste.AdaSTE(), lambda groups: torch.optim.SGD(groups, lr=0.5))
    small = Training(
        factor * start, adaste.AdaSTE(unit=factor), lambda groups: torch.optim.SGD(groups, lr=0.5 * factor)
    )
    first = plain.weight
    for _ in range(50):
        grad = torch.randn(200, generator=generator, dtype=torch.float64)
        assert torch.equal(plain.step(grad), small.step(grad))
    assert (plain.weight != first).any()


def test_start_gives_all_latents_one_size_and_the_signs_of_the_network():
    weight = column([0.3, -0.2, 0.0, -7.0])
    assert adaste.AdaSTE(start=10.0).latent(weight).tolist() == [10.0, -10.0, 10.0, -10.0]
    assert adaste.AdaSTE().latent(weight).tolist() == weight.tolist()


def test_binarized_weights_are_signs_whatever_mu_is():
    latent = column([0.3, -0.2, 0.0, -7.0])
    assert adaste.AdaSTE(mu=0.1).binarize(latent, latent).tolist() == [1.0, -1.0, 1.0, -1.0]
