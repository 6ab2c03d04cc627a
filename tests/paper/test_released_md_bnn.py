"""Mirror descent, PMF, BinaryConnect and full precision in the family `released`: the scripts of md-bnn and pmf."""

import math

import pytest
import torch

from adaste.estimators import PMF, FullPrecision, MirrorDescent, SoftmaxMirror, StraightThrough, TanhMirror
from adaste.estimators.schedules import Geometric, Steps
from adaste.recipes.bases import SGD, Adam
from support.released import CIFAR_10_R, CIFAR_10_V, CIFAR_100_R, CIFAR_100_V, TINY, every_setup, released

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
TUNED["pmf-md-bnn"] = TUNED["pmf"]
every_tuned = pytest.mark.parametrize(
    ("method", "where"), [(method, where) for method, tuned in TUNED.items() for where in tuned]
)


@every_tuned
def test_rates_and_drops_are_those_of_the_script(method: str, where: str) -> None:
    made = released(method, where)
    rate, drop, _ = TUNED[method][where]
    assert isinstance(made.base, Adam) and isinstance(made.base.lr, Steps)
    assert (made.base.betas, made.base.eps) == ((0.9, 0.999), 1e-8)
    assert made.base.weight_decay == (1e-4 if method == "pmf" else 0.0)
    for epochs, drops in ((0, 0), (149, 0), (150, 1), (299, 1), (300, 2), (449, 2), (450, 3), (499, 3)):
        assert float(made.base.lr.at(epochs)) == pytest.approx(rate * drop**drops)


@every_tuned
def test_beta_grows_from_one_as_in_the_script(method: str, where: str) -> None:
    estimator = released(method, where).estimator
    assert isinstance(estimator, MirrorDescent | PMF) and isinstance(estimator.beta, Geometric)
    _, _, final = TUNED[method][where]
    most = 1e4 if method.startswith("pmf") else 1e35
    for epoch in (0, 1, 100, 250, 400, 490, 500):
        assert float(estimator.beta.at(epoch)) == pytest.approx(min(final ** (epoch / 500), most), rel=0.02)


@every_tuned
def test_beta_ends_at_the_scripts_value_in_six_digits_and_rates_have_no_more(method: str, where: str) -> None:
    def six_digits(number: float) -> float:
        return float(f"{number:.6g}")

    made = released(method, where)
    final = TUNED[method][where][2]
    assert made.estimator.beta.stop == (1e4 if method.startswith("pmf") else six_digits(final))
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
    for method in (*TUNED, "binaryconnect", "full-precision"):
        made = released(method, CIFAR_10_R)
        assert made.network.two_levels == (made.estimator.latent(torch.zeros(3)).ndim == 2)


def test_pmf_has_its_own_codes_jacobian_and_the_form_of_md_bnn_that_of_md_bnns() -> None:
    for method, original in (("pmf", True), ("pmf-md-bnn", False)):
        estimator = released(method, CIFAR_10_R).estimator
        assert isinstance(estimator, PMF)
        assert (estimator.original, estimator.released) == (original, not original)


@every_setup
def test_binary_connect_is_md_bnns_with_full_ste(where: str) -> None:
    made = released("binaryconnect", where)
    assert made.estimator == StraightThrough()  # no clip, no window, starts at the network's weights
    assert isinstance(made.base, Adam) and isinstance(made.base.lr, Steps)
    assert made.base.lr.values == pytest.approx((1e-3, 3e-4, 9e-5, 2.7e-5))
    assert made.base.lr.ticks == (150, 300, 450)


@every_setup
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
