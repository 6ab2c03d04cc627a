"""BayesBiNN against a literal transcription of its published step."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import adaste
from support.estimators import Training, column, many, pairs, sized, slopes

SEED = 11
START = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)


def draw(step: int, size: int) -> list[float]:
    """delta of one step, from the estimator's own random numbers."""
    eps = adaste.Noise(seed=SEED).at(step).on(0, 0).uniform(torch.zeros(size, dtype=torch.float64))
    return [0.5 * math.log(x / (1 - x)) for x in eps.tolist()]


def loss_gradient(w: list[float], step: int) -> list[float]:
    """Of a quadratic whose minimum moves, so that the gradient depends on the sampled weights."""
    return [0.7 * x - math.sin(step + 2 * i) for i, x in enumerate(w)]


class Published:
    """The published loop in plain floats."""

    def __init__(self, lam: list[float], *, train_size: float, tau: float, prior: float) -> None:
        self.lam, self.train_size, self.tau, self.prior = list(lam), train_size, tau, prior

    def sample(self, step: int) -> list[float]:
        delta = draw(step, len(self.lam))
        return [math.tanh((x + d) / self.tau) for x, d in zip(self.lam, delta, strict=True)]

    def direction(self, w: list[float], g: list[float]) -> list[float]:
        return [
            self.train_size * (1 - w[i] ** 2 + 1e-10) / self.tau / (1 - math.tanh(x) ** 2 + 1e-10) * g[i]
            + x
            - self.prior
            for i, x in enumerate(self.lam)
        ]


def start_both(base, *, tau=0.8, prior=0.2, train_size=3.0, start=0.9):
    estimator = adaste.BayesBiNN(
        train_size=train_size, temperature=tau, noise=adaste.Noise(seed=SEED), prior=prior, start=start
    )
    published = Published([start * x for x in START.tolist()], train_size=train_size, tau=tau, prior=prior)
    return Training(START, estimator, base), published


def test_training_without_momentum_is_the_published_loop():
    training, published = start_both(lambda groups: torch.optim.SGD(groups, lr=0.05))
    for step in range(25):
        w = published.sample(step)
        assert training.weight.tolist() == pytest.approx(w, rel=1e-9)
        g = loss_gradient(w, step)
        d = published.direction(w, g)
        published.lam = [x - 0.05 * v for x, v in zip(published.lam, d, strict=True)]
        training.step(column(g))
        assert training.latent.tolist() == pytest.approx(published.lam, rel=1e-8, abs=1e-10)


def test_training_with_momentum_and_a_corrected_rate_is_the_published_loop_with_its_bias_correction():
    m, lr = 0.9, 0.05
    training, published = start_both(lambda groups: torch.optim.SGD(groups, lr=lr, momentum=m))
    velocity = [0.0] * 6
    for step in range(25):
        w = published.sample(step)
        assert training.weight.tolist() == pytest.approx(w, rel=1e-8)
        g = loss_gradient(w, step)
        d = published.direction(w, g)
        velocity = [m * v + (1 - m) * x for v, x in zip(velocity, d, strict=True)]
        correction = 1 - m ** (step + 1)
        published.lam = [x - lr * v / correction for x, v in zip(published.lam, velocity, strict=True)]
        training.step(column(g), lr=(1 - m) * lr / correction)
        assert training.latent.tolist() == pytest.approx(published.lam, rel=1e-7, abs=1e-9)


def test_training_with_dampened_momentum_is_the_loop_without_bias_correction_after_a_whole_first_step():
    m, lr = 0.8, 0.04
    training, published = start_both(lambda groups: torch.optim.SGD(groups, lr=lr, momentum=m, dampening=m))
    velocity: list[float] = []
    for step in range(25):
        w = published.sample(step)
        g = loss_gradient(w, step)
        d = published.direction(w, g)
        # torch starts its buffer with the first gradient undampened
        velocity = [m * v + (1 - m) * x for v, x in zip(velocity, d, strict=True)] if velocity else d
        published.lam = [x - lr * v for x, v in zip(published.lam, velocity, strict=True)]
        training.step(column(g))
        assert training.latent.tolist() == pytest.approx(published.lam, rel=1e-7, abs=1e-9)


@many
@given(pairs, sized(-1, 1), sized(0, 3), st.floats(-1, 1))
def test_direction_without_noise_is_the_literal_formula(cases, tau, train_size, prior):
    estimator = adaste.BayesBiNN(train_size=train_size, temperature=tau, noise=None, prior=prior)
    expected = []
    for theta, g in cases:
        w = math.tanh(theta / tau)
        scale = train_size * (1 - w * w + 1e-10) / tau / (1 - math.tanh(theta) ** 2 + 1e-10)
        expected.append(scale * g + theta - prior)
    assert slopes(estimator, cases) == pytest.approx(expected, rel=1e-5, abs=1e-12)


def literal_in_float64(estimator: adaste.BayesBiNN, theta: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    theta, grad, tau = theta.double(), grad.double(), estimator.temperature
    x = theta if estimator.noise is None else theta + torch.logit(estimator.noise.uniform(theta)) / 2
    spread = 1 - torch.tanh(x / tau) ** 2 + 1e-10
    return estimator.train_size * spread / tau / (1 - torch.tanh(theta) ** 2 + 1e-10) * grad + theta - estimator.prior


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("noise", [None, adaste.Noise(seed=SEED)])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_direction_in_float32_is_that_of_float64_also_where_all_weights_are_nearly_saturated(tau, noise, compiled):
    theta = torch.linspace(-14, 14, 4001)
    grad = torch.sin(7 * theta) + 2
    estimator = adaste.BayesBiNN(train_size=1e4, temperature=tau, noise=noise)
    gradient = torch.compile(estimator.gradient, fullgraph=True) if compiled else estimator.gradient
    for dtype in (torch.float32, torch.bfloat16):  # of the network's weights
        weight = estimator.weight(theta, theta).to(dtype).float()
        d = gradient(grad, theta, weight)
        torch.testing.assert_close(d.double(), literal_in_float64(estimator, theta, grad), rtol=2e-4, atol=1e-4)


def test_direction_is_the_same_with_the_temperature_in_a_tensor():
    theta = torch.linspace(-14, 14, 401)
    grad = torch.sin(7 * theta) + 2
    for tau in (1.0, 1e-3, 1e-8, 1e-10):
        plain, tensor = (adaste.BayesBiNN(1e4, temperature=t) for t in (tau, torch.tensor(tau, dtype=torch.float64)))
        weight = plain.weight(theta, theta)
        torch.testing.assert_close(tensor.gradient(grad, theta, weight), plain.gradient(grad, theta, weight))


@pytest.mark.parametrize("tau", [1e-10, 1e-8])
def test_at_a_published_temperature_the_direction_is_the_formula_as_float32_evaluates_it(tau):
    """Bit by bit: runs were made of it."""
    theta = torch.cat((torch.linspace(-14, 14, 4001), torch.tensor([1e6, -1e6, 1e-3])))
    grad = torch.sin(7 * theta) + 2
    estimator = adaste.BayesBiNN(train_size=4.5e5, temperature=tau)
    weight = estimator.weight(theta, theta)
    spread = (1 - weight**2 + 1e-10) / tau
    scale = 4.5e5 * spread / (1 - torch.tanh(theta) ** 2 + 1e-10)
    assert torch.equal(estimator.gradient(grad, theta, weight), scale * grad + theta - 0.0)


def test_at_the_published_temperature_weights_are_binary_and_the_scale_is_one_constant():
    estimator = adaste.BayesBiNN(train_size=4.5e5, temperature=1e-10, noise=adaste.Noise(seed=3))
    latent = torch.tensor([10.0, -10.0, 25.0, -1e6])
    grad = torch.tensor([1e-4, 1e-4, -2e-4, 3e-4])
    weight = estimator.weight(latent, latent)
    assert weight.tolist() == [1.0, -1.0, 1.0, -1.0]
    expected = 4.5e5 * 1e10 * grad.double() + latent.double()
    assert torch.allclose(estimator.gradient(grad, latent, weight).double(), expected, rtol=1e-4)


def test_start_and_rounding_follow_the_signs():
    weight = column([0.2, -0.1, 0.0])
    assert adaste.BayesBiNN(train_size=1).latent(weight).tolist() == [10.0, -10.0, 10.0]
    assert adaste.BayesBiNN(train_size=1, start=None).latent(weight).tolist() == weight.tolist()
    assert adaste.BayesBiNN(train_size=1).binarize(column([0.1, -4.0]), weight[:2]).tolist() == [1.0, -1.0]
