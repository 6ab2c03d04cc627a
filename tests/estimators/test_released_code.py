"""Where the library differs from released code, as docs/method.md lists it: each side by its own formula."""

from functools import partial

import numpy as np
import pytest
import torch

import adaste
from support.estimators import Training, column


def test_bayes_binn_takes_the_current_mean_where_released_code_takes_that_of_the_step_before():
    estimator = adaste.BayesBiNN(10.0, temperature=0.5, noise=None, start=None)
    training = Training(column([0.4, -1.1]), estimator, lambda groups: torch.optim.SGD(groups, lr=0.05))
    theta = before = column([0.4, -1.1])
    lagging = theta
    for step in range(3):
        grad = torch.sin(column([1.0, 2.0]) + step)
        spread = 10 * (1 - torch.tanh(theta / 0.5) ** 2 + 1e-10) / 0.5 * grad
        lagging = theta - 0.05 * (spread / (1 - torch.tanh(before) ** 2 + 1e-10) + theta)
        before, theta = theta, theta - 0.05 * (spread / (1 - torch.tanh(theta) ** 2 + 1e-10) + theta)
        training.step(grad)
    torch.testing.assert_close(training.latent, theta, rtol=1e-6, atol=0.0)
    assert not torch.allclose(training.latent, lagging, rtol=1e-3)
    far = torch.tensor([9.1, 10.0, 1e6])
    assert (torch.tanh(far) == 1).all(), "in float32 it is the same beyond 9"


def released_tanh(w: float, move: float) -> float:
    one, tiny = np.float32(1), np.float32(1e-20)
    odds = (one + np.float32(w)) / (one - np.float32(w) + tiny) * np.exp(np.float32(-2) * np.float32(move))
    return float((odds - one) / (odds + one + tiny))


def test_unstable_mirror_descent_absorbs_at_both_ends_alike_and_released_code_does_not():
    near = 1 - 2.0**-24
    assert released_tanh(-1, -40) == -1
    assert released_tanh(-near, -0.3) == -near and released_tanh(-near, -0.4) > -near
    assert released_tanh(1, 14) == 1 and released_tanh(1, 15) < 1 - 2.0**-23
    estimator = adaste.MirrorDescent(stable=False, absorbing=True, single_precision=True)
    duals = torch.atanh(column([-1, -near, near, 1, near - 2.0**-22, 2.0**-22 - near])).float()
    training = Training(duals.clamp(-100, 100), estimator, lambda groups: torch.optim.SGD(groups, lr=1.0))
    weight = training.step(20.0 * duals.sign())
    assert weight.tolist() == [-1, -1, 1, 1, -1, 1], "the last two, farther than 2^-23 from their ends, cross"


def test_prox_quant_pulls_zero_to_plus_one_and_released_code_leaves_it():
    zero = torch.zeros(1)
    released = zero.sign() * (1 + (zero.abs() - 1).sign() * ((zero.abs() - 1).abs() - 0.1).clamp(min=0))
    assert released.item() == 0
    assert adaste.ProxQuant(strength=0.1).settle(zero, zero).item() == pytest.approx(0.1)
    assert adaste.ProxQuant(frozen=1.0).settle(zero, zero).item() == 1


@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_bop_keeps_a_weight_at_a_tie_and_released_code_makes_it_plus_one(threshold):
    weight = torch.tensor([1.0, -1.0])
    average = weight * threshold
    flipped = -torch.sign(weight * average - threshold) * weight
    released = torch.where(flipped >= 0, 1.0, -1.0)
    assert released.tolist() == [1, 1]
    assert adaste.Bop(threshold).weight(-average, weight).tolist() == [1, -1]


def test_parq_clips_before_annealing_begins_and_has_the_slope_of_the_next_step():
    sigmoid = adaste.Sigmoid(start=1.0, stop=0.0, length=10, delay=3)
    training = Training(
        column([2.0, 0.5]), adaste.PARQ(sigmoid, adaste.Unit()), lambda groups: torch.optim.SGD(groups, lr=0.0)
    )
    assert training.weight.tolist() == [1.0, 0.5]
    for step in range(8):
        weight = training.step(column([0.0, 0.0]))
        assert weight.tolist() == pytest.approx([1.0, min(1.0, 0.5 / sigmoid.at(step + 1))])
        assert step < 3 or sigmoid.at(step + 1) < sigmoid.at(step)


def test_parq_refreshes_its_level_at_every_step():
    training = Training(column([2.0, -4.0]), adaste.PARQ(0.0), lambda groups: torch.optim.SGD(groups, lr=1.0))
    assert training.weight.tolist() == [3.0, -3.0]
    assert training.step(column([1.0, 0.0])).tolist() == [2.5, -2.5]


def test_binary_connect_of_md_bnn_is_straight_through_with_or_without_a_window():
    latent, grad = column([-1.5, -1.0, 0.5, 1.5]), column([1.0, 2.0, 3.0, 4.0])
    windowed, full = adaste.StraightThrough(window=1.0), adaste.StraightThrough()
    assert windowed.gradient(grad, latent, latent).tolist() == [0, 2, 3, 0]
    assert full.gradient(grad, latent, latent).tolist() == grad.tolist()
    for estimator in (windowed, full):
        assert estimator.settle(latent, latent).tolist() == latent.tolist()
    original = adaste.BinaryConnect()
    assert original.gradient(grad, latent, latent).tolist() == grad.tolist()
    assert original.settle(latent, latent).tolist() == [-1, -1, 0.5, 1]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_compiled_step_has_rates_of_float32_and_an_eager_one_those_of_python(compiled):
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    base = partial(torch.optim.SGD, lr=0.1)
    optimizer = adaste.LatentOptimizer([parameter], base=base, estimator=adaste.FullPrecision(), compile=compiled)
    for _ in range(2):  # the first step is the base's
        before = optimizer.state[parameter]["latent"].item()
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    moved = before - optimizer.state[parameter]["latent"].item()
    assert moved == pytest.approx(float(np.float32(0.1)) if compiled else 0.1, rel=1e-12)
    assert 0.1 * 1.4e-8 < float(np.float32(0.1)) - 0.1 < 0.1 * 1.6e-8
