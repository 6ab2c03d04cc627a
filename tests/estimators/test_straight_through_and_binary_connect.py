"""BinaryConnect and the full straight-through estimator, against their one-line updates."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import adaste
from support.estimators import Training, column, many, pairs, slopes, weights


def literal_sign(x: float) -> float:
    return 1.0 if x >= 0 else -1.0


@pytest.mark.parametrize("estimator", [adaste.BinaryConnect(), adaste.StraightThrough()])
@many
@given(cases=pairs)
def test_weight_is_the_sign_and_the_gradient_passes_as_it_is(estimator, cases):
    assert slopes(estimator, cases) == [g for _, g in cases]
    assert weights(estimator, [theta for theta, _ in cases]) == [literal_sign(theta) for theta, _ in cases]


@many
@given(pairs, st.floats(0, 3), st.floats(0.01, 3) | st.none())
def test_straight_through_adds_decay_and_cuts_outside_its_window(cases, decay, window):
    estimator = adaste.StraightThrough(decay=decay, window=window)
    expected = [(g if window is None or abs(theta) <= window else 0.0) + decay * theta for theta, g in cases]
    assert slopes(estimator, cases) == pytest.approx(expected, rel=1e-12)


def test_window_includes_its_end():
    assert slopes(adaste.StraightThrough(window=1.0), [(1.0, 0.5), (-1.0, 0.5), (1.0 + 1e-9, 0.5)]) == [0.5, 0.5, 0.0]


def test_binary_connect_clips_the_latent_after_every_step():
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(30, generator=generator, dtype=torch.float64) - 0.5
    training = Training(start, adaste.BinaryConnect(), lambda groups: torch.optim.SGD(groups, lr=0.3))
    theta = start.tolist()
    clipped = 0
    for _ in range(60):
        grad = torch.randn(30, generator=generator, dtype=torch.float64)
        weight = training.step(grad).tolist()
        moved = [x - 0.3 * g for x, g in zip(theta, grad.tolist(), strict=True)]
        theta = [max(-1.0, min(1.0, x)) for x in moved]
        clipped += sum(abs(x) > 1 for x in moved)
        assert training.latent.tolist() == pytest.approx(theta, rel=1e-12)
        assert weight == [literal_sign(x) for x in theta]
    assert clipped > 50


def test_straight_through_does_not_clip():
    training = Training(column([0.5]), adaste.StraightThrough(), lambda groups: torch.optim.SGD(groups, lr=1.0))
    training.step(column([-4.0]))
    assert training.latent.tolist() == [4.5]


def test_latents_start_at_the_weights_or_at_one_size_with_their_signs():
    weight = column([0.3, -2.0, 0.0])
    assert adaste.StraightThrough().latent(weight).tolist() == [0.3, -2.0, 0.0]
    assert adaste.StraightThrough(start=1e-7).latent(weight).tolist() == [1e-7, -1e-7, 1e-7]


def test_decay_one_makes_the_latent_an_exponential_average_of_the_negative_gradient():
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(20, generator=generator, dtype=torch.float64)
    training = Training(start, adaste.StraightThrough(decay=1.0), lambda groups: torch.optim.SGD(groups, lr=0.05))
    average = [-x for x in start.tolist()]
    for _ in range(50):
        grad = torch.randn(20, generator=generator, dtype=torch.float64)
        training.step(grad)
        average = [0.95 * m + 0.05 * g for m, g in zip(average, grad.tolist(), strict=True)]
    assert training.latent.tolist() == pytest.approx([-m for m in average], rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("make", [adaste.BinaryConnect, adaste.StraightThrough])
@pytest.mark.parametrize("theta", [-1.5, -1.0, -0.6, 0.0, 0.3, 0.9, 1.0, 2.0])
def test_random_rounding_gives_plus_one_as_often_as_the_latent_says(make, theta):
    chance, draws = max(0.0, min(1.0, (theta + 1) / 2)), 40_000
    latent = torch.full((draws,), theta, dtype=torch.float64)
    weight = make(noise=adaste.Noise(seed=5)).weight(latent, latent)
    assert set(weight.tolist()) <= {-1.0, 1.0}
    share = (weight > 0).double().mean().item()
    assert share == pytest.approx(chance, abs=4.5 * (chance * (1 - chance) / draws) ** 0.5)


@pytest.mark.parametrize("make", [adaste.BinaryConnect, adaste.StraightThrough])
def test_random_rounding_is_for_training_only_and_new_at_every_step(make):
    latent = torch.full((2000,), 0.1, dtype=torch.float64)
    estimator = make(noise=adaste.Noise(seed=1))
    first, second = (adaste.at_step(estimator, step).weight(latent, latent) for step in (0, 1))
    assert (first != second).double().mean().item() == pytest.approx(2 * 0.55 * 0.45, abs=0.06)
    assert torch.equal(estimator.binarize(latent, first), torch.ones_like(latent))
