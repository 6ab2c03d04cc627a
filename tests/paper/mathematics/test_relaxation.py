"""The relaxed objective and its local model: minimisers by search, gradients by autograd and differences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import adaste
from adaste.estimators.maps import ForwardMap
from adaste.paper.mathematics import relaxation as rx

pytestmark = pytest.mark.slow

modest = settings(deadline=None, derandomize=True, max_examples=25)
MAPS = [
    adaste.Tanh(),
    adaste.Tanh(0.5),
    adaste.HardTanh(1.5),
    adaste.DoubleWell(1.0, 0.01),
    adaste.DoubleWell(3.0, 0.1),
    adaste.DoubleWell(),
]
latents = st.floats(-3, 3).filter(lambda value: abs(value) > 0.01)
gradients = st.floats(-2, 2).filter(lambda value: abs(value) > 0.01)
spacings = st.floats(0.05, 3)
GRID = torch.cat([grid(torch.linspace(-1, 1, 10001).double()) for grid in (lambda x: x, lambda x: torch.tanh(20 * x))])
"""Weights to search, dense everywhere and denser at the ends, where the entropy is steep."""


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def loss(weight: Tensor) -> Tensor:
    """Curved, and its weights interact."""
    mixed = torch.tensor([[1.0, 0.4, -0.2], [0.4, 0.8, 0.3], [-0.2, 0.3, 1.2]], dtype=torch.float64) @ weight
    return (mixed * weight).sum() / 2 + (weight * column(0.7, -1.1, 0.4)).sum() + torch.sin(weight[0] * weight[2])


def jacobian_diagonal(forward: ForwardMap, latent: Tensor) -> Tensor:
    """s'(theta) by central differences."""
    return (forward(latent + 1e-6) - forward(latent - 1e-6)) / 2e-6


def literal_relaxed(forward: ForwardMap, latent: Tensor, beta: Tensor) -> float:
    """Eq. contrastive_L with both inner minima found on a grid of weights."""
    weight = forward(latent).requires_grad_()
    value = loss(weight)
    (grad,) = torch.autograd.grad(value, weight)
    total = float((value - (weight * grad).sum()).detach())
    for theta, g, b in zip(latent, grad, beta, strict=True):
        energy = (forward.objective(GRID) - GRID * theta) / b
        total += float((GRID * g + energy).min() - energy.min())
    return total


@pytest.mark.parametrize("forward", MAPS, ids=str)
@modest
@given(latents, gradients, spacings)
def test_perturbed_weight_minimises_the_perturbed_inner_objective(forward, latent, grad, beta):
    theta, g, b = column(latent), column(grad), column(beta)
    best = (b * g * GRID + rx.inner_objective(forward, GRID, theta)).min()
    perturbed = rx.perturbed_weight(forward, theta, g, b)
    reached = b * g * perturbed + rx.inner_objective(forward, perturbed, theta)
    assert float(reached) <= float(best) + 1e-12
    assert float(reached) == pytest.approx(float(best), abs=5e-6)


@pytest.mark.parametrize("forward", MAPS, ids=str)
@modest
@given(st.tuples(latents, latents, latents), st.tuples(spacings, spacings, spacings))
def test_relaxed_objective_is_the_papers_with_its_inner_minima_searched(forward, theta, beta):
    found = rx.relaxed_objective(loss, forward, column(*theta), column(*beta))
    assert float(found) == pytest.approx(literal_relaxed(forward, column(*theta), column(*beta)), abs=1e-4)


@pytest.mark.parametrize("forward", MAPS, ids=str)
@modest
@given(st.tuples(latents, latents, latents), st.tuples(spacings, spacings, spacings))
def test_relaxed_objective_is_below_the_loss_and_tends_to_it(forward, theta, beta):
    latent = column(*theta)
    exact = float(loss(forward(latent)))
    assert float(rx.relaxed_objective(loss, forward, latent, column(*beta))) <= exact + 1e-12
    tiny = rx.relaxed_objective(loss, forward, latent, column(1e-7, 1e-7, 1e-7))
    assert float(tiny) == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("forward", MAPS, ids=str)
@pytest.mark.parametrize("eta", [0.01, 0.3, 2.0])
def test_local_minimiser_is_where_a_ternary_search_finds_the_local_model_smallest(forward, eta):
    draw = torch.rand(3, 400, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    theta, g, b = 6 * draw[0] - 3, 4 * draw[1] - 2, 0.05 + 3 * draw[2]
    low, high = theta - 100, theta + 100
    for _ in range(100):
        third = (high - low) / 3
        left, right = (rx.local_model(forward, x, theta, g, b, eta) for x in (low + third, high - third))
        low, high = torch.where(left > right, low + third, low), torch.where(left > right, high, high - third)
    found = rx.local_minimiser(forward, theta, g, b, eta)
    # A search that compares values finds a minimum to the root of rounding.
    torch.testing.assert_close(found, (low + high) / 2, rtol=0, atol=3e-6)


@pytest.mark.parametrize("forward", MAPS, ids=str)
def test_local_minimiser_is_one_sgd_step_of_the_estimator(forward):
    theta, g = column(-2.1, -0.4, 0.3, 1.7), column(-0.5, 0.8, 1.1, 0.2)
    estimator = adaste.FiniteDifference(forward, adaste.FixedSpacing(0.7))
    step = theta - 0.3 * estimator.gradient(g, theta, forward(theta))
    torch.testing.assert_close(rx.local_minimiser(forward, theta, g, torch.full_like(theta, 0.7), 0.3), step)


@pytest.mark.parametrize("forward", MAPS, ids=str)
@modest
@given(latents, gradients, spacings)
def test_local_model_starts_with_the_local_slope(forward, latent, grad, beta):
    theta, g, b = column(latent).requires_grad_(), column(grad), column(beta)
    here = theta.detach()
    (slope,) = torch.autograd.grad(rx.local_model(forward, theta, here, g, b, 0.5).sum(), theta)
    torch.testing.assert_close(slope, rx.local_slope(forward, here, g, b), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("forward", MAPS, ids=str)
@modest
@given(st.tuples(latents, latents, latents), st.tuples(spacings, spacings, spacings))
def test_gradient_of_the_relaxed_objective_is_the_local_slope_plus_what_is_dropped(forward, theta, beta):
    latent, b = column(*theta), column(*beta)
    weight = forward(latent).requires_grad_()
    (grad,) = torch.autograd.grad(loss(weight), weight)
    whole = rx.local_slope(forward, latent, grad, b) + rx.dropped_slope(
        loss, forward, latent, b, lambda at: jacobian_diagonal(forward, at)
    )
    for index in range(3):
        small = torch.zeros(3, dtype=torch.float64)
        small[index] = 1e-5
        left, here, right = (float(rx.relaxed_objective(loss, forward, latent + k * small, b)) for k in (-1, 0, 1))
        if abs(right - 2 * here + left) > 1e-8:
            continue  # a kink between the three points: no derivative to compare with
        assert (right - left) / 2e-5 == pytest.approx(float(whole[index]), abs=1e-4)


def test_update_has_the_sign_of_the_gradient_which_the_whole_gradient_of_the_relaxed_objective_may_not():
    latent, beta, tanh = column(*torch.linspace(-3, 3, 61).tolist()), column(2.0), adaste.Tanh()
    grad = tanh(latent) + 0.5

    def one_loss_each(weight: Tensor) -> Tensor:
        return ((weight + 0.5) ** 2).sum() / 2

    update = rx.local_slope(tanh, latent, grad, beta)
    whole = update + rx.dropped_slope(one_loss_each, tanh, latent, beta, lambda at: jacobian_diagonal(tanh, at))
    assert (update * grad > 0).all()
    assert (whole * grad).min() < -0.1


def test_nothing_is_dropped_for_a_linear_loss_or_where_the_map_is_flat():
    latent, b = column(-1.2, 0.3, 2.0), column(1.0, 1.0, 1.0)
    slopes = column(0.5, -2.0, 1.0)

    def linear(weight: Tensor) -> Tensor:
        # The square is there so that autograd finds a graph for second derivatives, all of them zero.
        return (slopes * weight).sum() + 0 * (weight**2).sum()

    tanh = adaste.Tanh()
    assert not rx.dropped_slope(linear, tanh, latent, b, lambda at: jacobian_diagonal(tanh, at)).any()
    binary = adaste.DoubleWell()
    assert not rx.dropped_slope(loss, binary, latent, b, lambda at: jacobian_diagonal(binary, at)).any()
    assert rx.dropped_slope(loss, tanh, latent, b, lambda at: jacobian_diagonal(tanh, at)).abs().min() > 1e-3
