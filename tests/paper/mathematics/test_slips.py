"""Slips in the printed paper: what is printed, and what is right, each evaluated as it stands."""

import math

import pytest
import torch
from torch import Tensor

import adaste
from adaste.paper.mathematics import mirror, relaxation

WEIGHTS = torch.linspace(-1, 1, 20001, dtype=torch.float64)
THETAS = (-1.1, -0.4, 0.2, 0.7)


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def sum_of_p_log_p(weight: Tensor) -> Tensor:
    """u log u + (1 - u) log(1 - u) with u = (1 - w) / 2: what the paper prints as the entropy H."""
    chances = ((1 - weight) / 2, (1 + weight) / 2)
    return sum(torch.special.xlogy(chance, chance) for chance in chances)


def smallest(objective: Tensor) -> float:
    return float(WEIGHTS[objective.argmin()])


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("tau", [0.5, 3.0])
def test_hard_tanh_objective_as_printed_has_the_minimiser_with_tau_the_other_way_round(theta, tau):
    found = smallest(WEIGHTS**2 / (2 * tau) - WEIGHTS * theta)
    assert found == pytest.approx(max(-1, min(1, tau * theta)), abs=1e-4), "clip(tau theta)"
    assert found != pytest.approx(max(-1, min(1, theta / tau)), abs=1e-2), "not clip(theta / tau), as printed"
    right = smallest(tau * WEIGHTS**2 / 2 - WEIGHTS * theta)
    assert right == pytest.approx(float(adaste.HardTanh(tau)(scalar(theta))), abs=1e-4)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("tau", [0.5, 3.0])
def test_entropy_needs_its_minus_sign_and_tau_the_other_way_round(theta, tau):
    printed = smallest(-sum_of_p_log_p(WEIGHTS) / tau - WEIGHTS * theta)
    assert printed == math.copysign(1, theta), "as printed the objective is concave and its minimiser the sign"
    entropy = -sum_of_p_log_p(WEIGHTS)
    assert smallest(-entropy / tau - WEIGHTS * theta) == pytest.approx(math.tanh(tau * theta), abs=1e-4)
    right = smallest(-entropy * tau - WEIGHTS * theta)
    assert right == pytest.approx(math.tanh(theta / tau), abs=1e-4)
    assert right == pytest.approx(float(adaste.Tanh(tau)(scalar(theta))), abs=1e-4)


@pytest.mark.parametrize("theta", [-0.1, -0.5, -0.8])
def test_away_from_zero_the_perturbed_weight_minus_the_weight_is_negative(theta):
    """The appendix prints (w^ - w*) / beta = l' / (1 + mu) for theta < 0 and l' > 0; its sign is minus."""
    mu, alpha, grad, beta = 1.0, 0.01, 0.3, 0.2
    well = adaste.DoubleWell(mu, alpha)
    difference = float(well(scalar(theta - beta * grad)) - well(scalar(theta))) / beta
    assert difference == pytest.approx(-grad / (1 + mu))
    assert float(relaxation.steepest_slope(well, scalar(theta), scalar(grad))) == pytest.approx(grad / (1 + mu))


def test_mirror_step_needs_the_primal_point_in_its_linear_term():
    """Printed: argmin_u D(u, u_t) / eta + l' s_2'(u_t). Its second term is constant, so nothing would ever move."""
    theta, grad, shift, eta = scalar(-1.0), scalar(-0.6), scalar(-0.8), 0.5
    primal = mirror.inner(theta, shift)
    slope = grad * mirror.derivative(theta - shift)
    grid = primal + torch.linspace(-1, 1, 2001, dtype=torch.float64)
    divergence = mirror.divergence(grid, primal.expand_as(grid), shift.expand_as(grid)) / eta
    stepped = float(mirror.mirror_step(primal, grad, shift, eta))
    assert float(grid[(divergence + slope).argmin()]) == pytest.approx(float(primal), abs=1e-3)
    assert float(grid[(divergence + grid * slope).argmin()]) == pytest.approx(stepped, abs=1e-3)
    assert abs(stepped - float(primal)) > 0.1


def test_shift_is_beta_times_the_gradient_only_where_the_slope_is_stationary():
    """The appendix sets h = beta l'; the update of any other beta needs the shift of the mean value theorem."""
    theta, grad, beta = scalar(-1.0), scalar(-0.6), 1.0
    update = adaste.FixedSpacing(beta).slope(adaste.Tanh(), grad, theta)
    shifted = mirror.mean_shift(theta, beta * grad)
    assert float(grad * mirror.derivative(theta - shifted)) == pytest.approx(float(update), rel=1e-12)
    assert float(grad * mirror.derivative(theta - beta * grad)) != pytest.approx(float(update), rel=0.1)


def test_beta_of_one_is_arbitrary_for_binary_weights_only():
    """Eq. beta_choice calls it arbitrary, and is then used with mu alpha < 1, where it cuts the slope off."""
    theta, grad = scalar(-0.9), scalar(0.5)
    betas = torch.tensor([0.01, 1.0, 5.0], dtype=torch.float64)
    binary = relaxation.slope(adaste.DoubleWell(), theta, grad, betas)
    soft = relaxation.slope(adaste.DoubleWell(1.0, 0.01), theta, grad, betas)
    assert not binary.any()
    assert soft.tolist() == pytest.approx([0.25, 0.045, 0.009])


@pytest.mark.parametrize("theta", [-0.2, -0.9, -0.99, -3.0])
def test_beta_of_one_moves_a_soft_weight_up_to_where_it_saturates(theta):
    mu, alpha, grad = 1.0, 0.01, 0.5
    room = max(0.0, 1 - mu * alpha - abs(theta))
    told = relaxation.slope(adaste.DoubleWell(mu, alpha), scalar(theta), scalar(grad), scalar(1.0))
    assert float(told) == pytest.approx(min(grad, room) / (1 + mu))


def test_spacing_of_the_printed_rule_ends_on_the_jump_so_that_rounding_decides():
    """The paper leaves theta - beta l' = 0 aside; its own rule asks for it at every |theta| >= 2."""
    generator = torch.Generator().manual_seed(0)
    theta = 2 + 20 * torch.rand(100_000, generator=generator)
    grad = torch.rand(100_000, generator=generator) + 1e-3
    beta = theta / grad
    literal = (torch.sign(theta) - torch.sign(theta - beta * grad)) / beta
    share = literal / adaste.AdaSTE().gradient(grad, theta, theta)
    counts = {outcome: int((share - outcome).abs().lt(1e-4).sum()) for outcome in (0.0, 0.5, 1.0)}
    assert sum(counts.values()) == len(theta)
    assert counts[0.5] > 0.8 * len(theta), "nearly always half of what the limit gives"
    assert min(counts[0.0], counts[1.0]) > 0.01 * len(theta)
