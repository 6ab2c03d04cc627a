"""The optimizers of the family `released`, line by line: what the published scripts do, in numbers of our own."""

import math

import pytest
import torch
from paper_runs import a_recipe

from adaste.bases import SGD, Adam
from adaste.estimators import (
    PMF,
    AdaSTE,
    BayesBiNN,
    FullPrecision,
    MirrorDescent,
    ProxQuant,
    ReleasedSlope,
    SoftmaxMirror,
    StraightThrough,
    TanhMirror,
)
from adaste.paper.places import PLACES
from adaste.recipe import Recipe
from adaste.schedules import Geometric, Linear, Schedule, Steps

CIFAR_10_R, CIFAR_10_V = "cifar10-resnet18", "cifar10-vgg16"
CIFAR_100_R, CIFAR_100_V = "cifar100-resnet18", "cifar100-vgg16"
TINY, NETTE = "tiny-imagenet-resnet18", "imagenette-resnet18"
every_place = pytest.mark.parametrize("where", PLACES)

# Learning rate, its factor at a drop, and beta at the end, as the scripts of md-bnn and pmf have them.
TUNED = {
    "md-tanh-s": {
        CIFAR_10_R: (1e-3, 0.3, 1.02**500),
        CIFAR_10_V: (1e-3, 0.2, 1.2**50),
        CIFAR_100_R: (1e-3, 0.2, 1.2**200),
        CIFAR_100_V: (1e-3, 0.5, 1.05**200),
        TINY: (1e-3, 0.1, 1.2**200),
    },
    "md-softmax-s": {
        CIFAR_10_R: (1e-3, 0.3, 1.02**500),
        CIFAR_10_V: (1e-3, 0.3, 1.2**50),
        CIFAR_100_R: (1e-3, 0.2, 1.1**500),
        CIFAR_100_V: (1e-4, 0.2, 1.2**200),
        TINY: (1e-3, 0.1, 1.02**1000),
    },
    "md-tanh": {
        CIFAR_10_R: (1e-3, 0.3, 1.01**1000),
        CIFAR_10_V: (1e-3, 0.3, 1.1**100),
        CIFAR_100_R: (1e-3, 0.3, 1.05**200),
        CIFAR_100_V: (1e-3, 0.3, 1.05**200),
        TINY: (1e-3, 0.5, 1.2**50),
    },
    "md-softmax": {
        CIFAR_10_R: (1e-3, 0.2, 1.02**500),
        CIFAR_10_V: (1e-2, 0.2, 1.05**200),
        CIFAR_100_R: (1e-3, 0.2, 1.05**200),
        CIFAR_100_V: (1e-4, 0.3, 1.01**1000),
        TINY: (1e-3, 0.2, 1.02**500),
    },
    # Its code stops at 1e4; before that beta grows by these factors in 100,000 iterations.
    "pmf": {
        CIFAR_10_R: (1e-3, 0.3, 1.1**100),
        CIFAR_10_V: (1e-3, 0.5, 1.05**200),
        CIFAR_100_R: (1e-3, 0.3, 1.01**1000),
        CIFAR_100_V: (1e-4, 0.5, 1.02**500),
        TINY: (1e-3, 0.5, 1.01**1000),
    },
}
every_tuned = pytest.mark.parametrize(
    ("method", "where"), [(method, where) for method, tuned in TUNED.items() for where in tuned]
)


def released(method: str, where: str, epochs: int = 500) -> Recipe:
    return a_recipe("released", method, where, epochs=epochs)


# --- AdaSTE ----------------------------------------------------------------------------------------------------------


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


@every_place
def test_the_rate_of_adaste_and_bayesbinn_falls_to_zero_along_a_cosine(where: str) -> None:
    for method in ("adaste", "adaste-annealed", "bayesbinn"):
        rate = released(method, where).base.lr
        assert isinstance(rate, Schedule)
        first = float(rate.at(0))
        for epoch in (0, 100, 250, 499):
            assert float(rate.at(epoch)) == pytest.approx(first * (1 + math.cos(math.pi * epoch / 500)) / 2)
        assert rate.at(500) == 0


def test_without_annealing_weights_are_binary_from_the_start() -> None:
    for where in PLACES:
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


# --- BayesBiNN -------------------------------------------------------------------------------------------------------


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


# --- md-bnn and pmf --------------------------------------------------------------------------------------------------


@every_tuned
def test_rates_and_drops_are_those_of_the_script(method: str, where: str) -> None:
    made = released(method, where)
    rate, drop, _ = TUNED[method][where]
    assert isinstance(made.base, Adam) and isinstance(made.base.lr, Steps)
    assert (made.base.betas, made.base.eps, made.base.weight_decay) == ((0.9, 0.999), 1e-8, 0.0)
    for epochs, drops in ((0, 0), (149, 0), (150, 1), (299, 1), (300, 2), (449, 2), (450, 3), (499, 3)):
        assert float(made.base.lr.at(epochs)) == pytest.approx(rate * drop**drops)


@every_tuned
def test_beta_grows_from_one_as_in_the_script(method: str, where: str) -> None:
    estimator = released(method, where).estimator
    assert isinstance(estimator, MirrorDescent | PMF) and isinstance(estimator.beta, Geometric)
    _, _, final = TUNED[method][where]
    most = 1e4 if method == "pmf" else 1e35
    for epoch in (0, 1, 100, 250, 400, 490, 500):
        assert float(estimator.beta.at(epoch)) == pytest.approx(min(final ** (epoch / 500), most), rel=0.02)


@every_tuned
def test_beta_ends_at_the_scripts_value_in_six_digits_and_rates_have_no_more(method: str, where: str) -> None:
    def six_digits(number: float) -> float:
        return float(f"{number:.6g}")

    made = released(method, where)
    final = TUNED[method][where][2]
    assert made.estimator.beta.stop == (1e4 if method == "pmf" else six_digits(final))
    assert list(made.base.lr.values) == list(map(six_digits, made.base.lr.values))


def test_betas_at_the_end_have_the_sizes_that_were_worked_out() -> None:
    # (One step more than in the script, which multiplies after the first iteration, too.)
    for method, where, size in (
        ("md-tanh-s", CIFAR_10_R, 2e4),
        ("md-tanh-s", CIFAR_10_V, 1e4),
        ("md-tanh-s", CIFAR_100_R, 8e15),
        ("md-softmax-s", CIFAR_100_R, 6e20),
        ("md-softmax-s", TINY, 4e8),
        ("md-tanh", CIFAR_10_V, 1.5e4),
        ("pmf", CIFAR_10_V, 1e4),
    ):
        estimator = released(method, where).estimator
        assert isinstance(estimator, MirrorDescent | PMF) and isinstance(estimator.beta, Geometric)
        assert estimator.beta.stop == pytest.approx(size, rel=0.25)


def test_the_four_forms_of_mirror_descent_are_what_their_names_say() -> None:
    for method, mirror, stable in (
        ("md-tanh-s", TanhMirror(), True),
        ("md-softmax-s", SoftmaxMirror(), True),
        ("md-tanh", TanhMirror(), False),
        ("md-softmax", SoftmaxMirror(), False),
    ):
        estimator = released(method, CIFAR_10_R).estimator
        assert isinstance(estimator, MirrorDescent)
        assert (estimator.mirror, estimator.stable) == (mirror, stable)
        assert estimator.absorbing is estimator.single_precision is not stable  # as float32 has it


def test_methods_with_two_numbers_per_weight_start_from_two() -> None:
    for method in ("pmf", "md-softmax", "md-softmax-s", "md-tanh", "md-tanh-s", "binaryconnect", "full-precision"):
        made = released(method, CIFAR_10_R)
        assert made.network.two_levels == (made.estimator.latent(torch.zeros(3)).ndim == 2)


def test_pmf_has_the_published_codes_jacobian() -> None:
    estimator = released("pmf", CIFAR_10_R).estimator
    assert isinstance(estimator, PMF) and estimator.released


@every_place
def test_binary_connect_is_md_bnns_with_full_ste(where: str) -> None:
    made = released("binaryconnect", where)
    assert made.estimator == StraightThrough()  # no clip, no window, starts at the network's weights
    assert isinstance(made.base, Adam) and isinstance(made.base.lr, Steps)
    assert made.base.lr.values == pytest.approx((1e-3, 3e-4, 9e-5, 2.7e-5))
    assert made.base.lr.ticks == (150, 300, 450)


@every_place
def test_full_precision_is_the_script_of_pmf(where: str) -> None:
    made = released("full-precision", where)
    assert isinstance(made.estimator, FullPrecision)
    assert isinstance(made.base, SGD) and isinstance(made.base.lr, Steps)
    assert (made.base.momentum, made.base.weight_decay, made.base.nesterov) == (0.9, 5e-4, False)
    assert made.base.lr.values == pytest.approx((0.1, 0.02, 0.004, 0.0008))
    assert made.base.lr.ticks == (150, 300, 450)


@pytest.mark.parametrize("epochs", [1, 2, 3, 10, 60, 285, 500])
def test_drops_come_at_30_60_and_90_percent_of_every_run(epochs: int) -> None:
    rate = released("binaryconnect", CIFAR_10_R, epochs).base.lr
    assert isinstance(rate, Steps)
    for count, share in enumerate((0.3, 0.6, 0.9), 1):
        assert float(rate.at(math.ceil(share * epochs + 0.5))) <= 1e-3 * 0.3**count * (1 + 1e-9)
    assert rate.values[-1] == pytest.approx(2.7e-5)


# --- ProxQuant -------------------------------------------------------------------------------------------------------


@every_place
def test_proxquant_pulls_as_far_as_published_and_then_freezes(where: str) -> None:
    made = released("proxquant", where, 50)
    estimator = made.estimator
    assert isinstance(estimator, ProxQuant) and isinstance(estimator.strength, Schedule)
    assert made.base == Adam(lr=0.01)
    assert isinstance(estimator.frozen, Schedule)
    assert [estimator.frozen.at(epoch) for epoch in (0, 20, 39, 40, 49)] == [0, 0, 0, 1, 1]
    steps = math.ceil((PLACES[where].setting.images - made.holdout) / made.batch)
    in_steps = estimator.strength.stretched(steps)
    assert [in_steps.at(epoch * steps) > 0 for epoch in (0, 10, 20, 21)] == [False, False, False, True]
    assert sum(float(in_steps.at(step)) for step in range(40 * steps)) == pytest.approx(7.8, rel=0.01)


@pytest.mark.parametrize("epochs", range(1, 12))
def test_proxquant_pulls_for_an_epoch_and_then_freezes_in_the_shortest_runs_too(epochs: int) -> None:
    estimator = released("proxquant", CIFAR_10_R, epochs).estimator
    assert isinstance(estimator, ProxQuant)
    assert isinstance(estimator.strength, Linear) and isinstance(estimator.frozen, Steps)
    assert estimator.strength.length >= 1
    assert estimator.frozen.ticks == (estimator.strength.delay + estimator.strength.length,)
    assert 1 <= estimator.frozen.ticks[0] <= epochs


@every_place
def test_proxquants_batch_norm_has_scales_and_shifts(where: str) -> None:
    assert released("proxquant", where).network.affine
