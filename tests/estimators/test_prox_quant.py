"""ProxQuant: its proximal map against a search, its schedule, and the freeze."""

import itertools
import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import adaste
from support.estimators import Training, column, few, many, pairs, slopes, weights


def prox_by_search(theta: float, strength: float) -> float:
    """argmin of strength min(|x - 1|, |x + 1|) + (x - theta)^2 / 2 over a grid that holds the kinks."""
    best, where = math.inf, 0.0
    for point in range(-3000, 3001):
        x = point / 1000
        value = strength * min(abs(x - 1), abs(x + 1)) + (x - theta) ** 2 / 2
        if value < best:
            best, where = value, x
    return where


@few
@given(st.floats(-2.5, 2.5), st.floats(0, 1.5))
def test_settling_is_the_proximal_map_of_the_w_shaped_penalty_then_a_clip(theta, strength):
    assume(abs(theta) > 2e-3)  # at zero both sides tie
    expected = max(-1.0, min(1.0, prox_by_search(theta, strength)))
    latent = column([theta])
    assert adaste.ProxQuant(strength=strength).settle(latent, latent).item() == pytest.approx(expected, abs=1.1e-3)


@many
@given(st.floats(-3, 3), st.floats(0, 2))
def test_settling_is_the_published_formula(theta, strength):
    assume(theta != 0)
    size = abs(theta)
    moved = 1 + math.copysign(max(0.0, abs(size - 1) - strength), size - 1)
    expected = max(-1.0, min(1.0, math.copysign(1.0, theta) * moved))
    latent = column([theta])
    assert adaste.ProxQuant(strength=strength).settle(latent, latent).item() == pytest.approx(expected, abs=1e-15)


@many
@given(pairs)
def test_gradient_and_weight_are_those_of_the_real_latent(cases):
    assert slopes(adaste.ProxQuant(), cases) == [g for _, g in cases]
    assert weights(adaste.ProxQuant(), [theta for theta, _ in cases]) == [theta for theta, _ in cases]


def test_strength_grows_linearly_by_epoch_and_then_stays():
    estimator = adaste.ProxQuant.linear(learning_rate=0.01, rate=1e-2, steps_per_epoch=7, epochs=20)
    for step in range(200):
        expected = 0.01 * 1e-2 * min(step // 7, 20)
        assert adaste.at_step(estimator, step).strength == pytest.approx(expected, rel=1e-12)
        assert adaste.at_step(estimator, step).frozen == 0


def test_training_follows_the_literal_loop_until_the_freeze():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(40, generator=generator, dtype=torch.float64) / 2
    estimator = adaste.ProxQuant.linear(learning_rate=0.1, rate=0.04, steps_per_epoch=5, epochs=10)
    training = Training(start, estimator, lambda groups: torch.optim.SGD(groups, lr=0.1))
    theta = start.tolist()
    for step in range(60):
        grad = torch.randn(40, generator=generator, dtype=torch.float64)
        strength = 0.1 * 0.04 * min(step // 5, 10)
        for i, g in enumerate(grad.tolist()):
            x = theta[i] - 0.1 * g
            near = 1.0 if x >= 0 else -1.0
            gap = x - near
            x = near + math.copysign(max(0.0, abs(gap) - strength), gap)
            theta[i] = max(-1.0, min(1.0, x))
        assert training.step(grad).tolist() == pytest.approx(theta, rel=1e-12, abs=1e-14)
    assert sum(abs(abs(x) - 1) < 1e-12 for x in theta) > 5, "some weights have arrived at +-1"
    assert len({round(x, 9) for x in theta}) > 5, "and some have not"


@pytest.mark.parametrize(
    "base",
    [
        lambda groups: torch.optim.SGD(groups, lr=5.0, momentum=0.99),
        lambda groups: torch.optim.Adam(groups, lr=3.0),
        lambda groups: torch.optim.SGD(groups, lr=0.5, momentum=0.9, weight_decay=1.0),
    ],
    ids=["SGD with large momentum", "Adam", "SGD with decay"],
)
def test_frozen_weights_are_binary_and_never_move(base):
    generator = torch.Generator().manual_seed(2)
    start = torch.randn(50, generator=generator, dtype=torch.float64) / 3
    estimator = adaste.ProxQuant.linear(learning_rate=0.1, rate=0.1, steps_per_epoch=4, epochs=6, freeze=3)
    training = Training(start, estimator, base)
    history = [training.weight]
    for _ in range(60):
        history.append(training.step(torch.randn(50, generator=generator, dtype=torch.float64)))
    frozen = history[12]
    assert all(not torch.equal(one, other) for one, other in itertools.pairwise(history[:6])), "they did move before"
    assert torch.equal(frozen.abs(), torch.ones(50).double())
    for later in history[12:]:
        assert torch.equal(later, frozen)
    assert torch.equal(training.latent, frozen)


def test_freeze_rounds_to_the_nearer_side():
    estimator = adaste.ProxQuant(strength=0.0, frozen=adaste.Steps(values=(0.0, 1.0), ticks=(1,)))
    training = Training(column([0.3, -0.3]), estimator, lambda groups: torch.optim.SGD(groups, lr=0.1))
    assert training.weight.tolist() == [0.3, -0.3]
    assert training.step(column([1.0, -1.0])).tolist() == [1.0, -1.0]


def test_freeze_in_a_tensor_acts_like_the_number():
    latent, weight = column([0.3, -0.2]), column([1.0, -1.0])
    for frozen in (0.0, 1.0):
        plain = adaste.ProxQuant(strength=0.1, frozen=frozen)
        tensor = adaste.ProxQuant(strength=torch.tensor(0.1).double(), frozen=torch.tensor(frozen))
        assert torch.allclose(tensor.settle(latent, weight), plain.settle(latent, weight))
        assert torch.allclose(tensor.weight(latent, weight), plain.weight(latent, weight))
