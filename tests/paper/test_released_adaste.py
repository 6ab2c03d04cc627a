"""AdaSTE and BayesBiNN in the family `released`, line by line: what their script does, in numbers of our own."""

import math

import pytest
import torch

from adaste.estimators import AdaSTE, BayesBiNN, ReleasedSlope
from adaste.estimators.schedules import Schedule
from adaste.paper.families import SETUPS
from adaste.recipes.bases import SGD
from support.released import CIFAR_10_R, CIFAR_10_V, CIFAR_100_R, CIFAR_100_V, NETTE, TINY, every_setup, released


@pytest.mark.parametrize(
    ("where", "momentum", "images"),
    [
        (CIFAR_10_R, 0.9, 45_000),
        (CIFAR_10_V, 0.9, 45_000),
        (CIFAR_100_R, 0.0, 45_000),
        (CIFAR_100_V, 0.0, 45_000),
        (TINY, 0.9, 100_000),
        (NETTE, 0.9, 1_184),  # by a slip in the script this is the number of batches
    ],
)
@pytest.mark.parametrize("method", ["adaste", "adaste-annealed"])
def test_adaste_is_the_published_average_as_sgd(method: str, where: str, momentum: float, images: int) -> None:
    made = released(method, where)
    base, estimator = made.base, made.estimator
    assert isinstance(base, SGD) and isinstance(estimator, AdaSTE)
    rate, square = 3e-4, (10 * images) ** 2
    eta = base.first_lr
    unit = (1 - momentum) * rate * square / eta  # what a latent of 1 stands for in the published update
    assert base.momentum == momentum and not base.nesterov and base.dampening == 0
    assert eta * base.weight_decay == pytest.approx((1 - momentum) * rate)
    assert estimator.unit == pytest.approx(1 / unit)
    assert estimator.start == pytest.approx(10 / unit)
    assert (estimator.slope, estimator.alpha) == (ReleasedSlope(threshold=1e-3), 0.01)


def test_adaste_on_cifar_10_has_the_worked_out_numbers() -> None:
    made = released("adaste", CIFAR_10_R)
    assert isinstance(made.base, SGD) and isinstance(made.estimator, AdaSTE)
    assert made.base.first_lr == pytest.approx(0.1) and made.base.weight_decay == pytest.approx(3e-4)
    assert 1 / made.estimator.unit == pytest.approx(6.075e7)
    assert made.estimator.start == pytest.approx(1.65e-7, rel=5e-3)
    assert 2 * made.estimator.unit == pytest.approx(3.3e-8, rel=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("where", [CIFAR_10_R, CIFAR_100_V, NETTE])
@pytest.mark.parametrize("mu", [100.0, 3.0])
def test_the_sgd_form_has_the_signs_of_the_published_update(where: str, mu: float) -> None:
    made = released("adaste", where)
    base = made.base
    assert isinstance(base, SGD) and isinstance(made.estimator, AdaSTE)
    estimator = AdaSTE(mu=mu, slope=made.estimator.slope, unit=made.estimator.unit, start=made.estimator.start)
    plain = AdaSTE(mu=mu, slope=made.estimator.slope)
    images = {CIFAR_10_R: 45_000, CIFAR_100_V: 45_000, NETTE: 1_184}[where]
    torch.manual_seed(0)
    published = 10 * torch.randn(500, dtype=torch.float64).sign()
    velocity = torch.zeros_like(published)
    latent = torch.nn.Parameter(published * estimator.unit)
    optimizer = torch.optim.SGD([latent], lr=base.first_lr, momentum=base.momentum, weight_decay=base.weight_decay)
    assert torch.allclose(estimator.latent(published), latent)
    for _ in range(100):
        # Of all sizes around the gate at 1e-3, with a mean: signs have to change and to stay.
        grad = torch.randn(500, dtype=torch.float64) * 10 ** torch.empty(500, dtype=torch.float64).uniform_(-6, -2)
        push = plain.gradient(grad, published, published)
        pull = (10 * images) ** 2 * push + published
        velocity = base.momentum * velocity + (1 - base.momentum) * pull
        latent.grad = estimator.gradient(grad, latent.detach(), latent.detach())
        published = published - 3e-4 * velocity
        optimizer.step()
        assert torch.equal(latent.detach().sign(), published.sign())
    assert torch.allclose(latent.detach() / estimator.unit, published, rtol=1e-6)


@every_setup
def test_the_rate_of_adaste_and_bayesbinn_falls_to_zero_along_a_cosine(where: str) -> None:
    for method in ("adaste", "adaste-annealed", "bayesbinn"):
        rate = released(method, where).base.lr
        assert isinstance(rate, Schedule)
        first = float(rate.at(0))
        for epoch in (0, 100, 250, 499):
            assert float(rate.at(epoch)) == pytest.approx(first * (1 + math.cos(math.pi * epoch / 500)) / 2)
        assert rate.at(500) == 0


def test_without_annealing_weights_are_binary_from_the_start() -> None:
    for where in SETUPS:
        estimator = released("adaste", where).estimator
        assert isinstance(estimator, AdaSTE) and estimator.mu == 100.0


@pytest.mark.parametrize(
    ("where", "epochs", "growth"),
    [(CIFAR_10_R, 700, 1.05), (CIFAR_100_R, 500, 1.05), (TINY, 700, 1.009), (NETTE, 700, 1.05)],
)
def test_annealing_at_the_scripts_own_length_multiplies_mu_as_the_script_does(
    where: str, epochs: int, growth: float
) -> None:
    estimator = released("adaste-annealed", where, epochs).estimator
    assert isinstance(estimator, AdaSTE) and isinstance(estimator.mu, Schedule)
    for epoch in (0, 1, 50, 187, 300, epochs):
        expected = min(0.01 * growth**epoch, 100.0)
        assert float(estimator.mu.at(epoch)) == pytest.approx(expected, rel=0.02)


def test_annealing_in_a_short_run_takes_the_same_share_of_it() -> None:
    estimator = released("adaste-annealed", CIFAR_10_R, 70).estimator
    assert isinstance(estimator, AdaSTE) and isinstance(estimator.mu, Schedule)
    assert estimator.mu.at(18) < 100 and estimator.mu.at(19) == 100.0


@pytest.mark.parametrize(
    ("where", "images", "temperature"),
    [
        (CIFAR_10_R, 45_000, 1e-10),
        (CIFAR_10_V, 45_000, 1e-10),
        (CIFAR_100_R, 45_000, 1e-8),
        (CIFAR_100_V, 45_000, 1e-8),
        (TINY, 100_000, 1e-10),
        (NETTE, 9_469, 1e-10),
    ],
)
def test_bayesbinn_has_the_numbers_of_the_appendix_and_of_its_own_code(
    where: str, images: int, temperature: float
) -> None:
    made = released("bayesbinn", where)
    assert isinstance(made.estimator, BayesBiNN) and isinstance(made.base, SGD)
    assert made.estimator.train_size == 10 * images
    assert (made.estimator.temperature, made.estimator.prior, made.estimator.start) == (temperature, 0.0, 10.0)
    assert made.estimator.noise is not None
    # SGD sums where the published momentum averages: the rate 3e-4 becomes (1 - 0.9) of it.
    assert made.base.momentum == 0.9 and made.base.first_lr == pytest.approx(3e-4 * (1 - 0.9))
    assert made.base.weight_decay == 0


def test_in_a_run_of_few_steps_averages_move_faster() -> None:
    slow, fast = released("adaste", CIFAR_10_R, 60), released("adaste", CIFAR_10_R, 3)
    assert isinstance(slow.base, SGD) and isinstance(fast.base, SGD)
    pace = round(30 * 391 / (3 * 352))
    assert slow.base.weight_decay == pytest.approx(3e-4) and fast.base.weight_decay == pytest.approx(pace * 3e-4)
    assert released("bayesbinn", CIFAR_10_R, 3).base.first_lr == pytest.approx(pace * 3e-5)
