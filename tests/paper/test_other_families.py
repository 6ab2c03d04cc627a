"""The families `paper`, `ours` and `ablation`, against the text of the paper and against each other."""

import math

import pytest

from adaste.data.augment import Mixup
from adaste.estimators import AdaSTE, BayesBiNN, PrintedSlope, ReleasedSlope, StraightThrough
from adaste.estimators.schedules import Cosine, Geometric
from adaste.paper.families import SETUPS
from adaste.paper.families.ours import ABLATION, OURS, TITLES
from adaste.paper.families.printed import PAPER
from adaste.paper.families.released import RELEASED
from adaste.recipes.bases import SGD
from support.paper_runs import a_recipe

HERE = SETUPS["cifar10-resnet18"]
every_setup = pytest.mark.parametrize("where", SETUPS)


# --- as printed ------------------------------------------------------------------------------------------------------


@every_setup
@pytest.mark.parametrize("method", ["adaste", "adaste-annealed"])
def test_the_printed_adaste_is_sgd_with_the_numbers_of_the_appendix(method: str, where: str) -> None:
    made = a_recipe("paper", method, where, epochs=500)
    rate, batch = (1e-6, 100) if where.startswith("tiny") else (1e-5, 128)
    assert (made.base, made.batch) == (SGD(lr=rate, momentum=0.9), batch)
    assert isinstance(made.estimator, AdaSTE)
    assert (made.estimator.alpha, made.estimator.slope, made.estimator.unit) == (0.01, PrintedSlope(), 1.0)
    assert (made.holdout, made.averaging, made.include) == (0, 0.0, ("*",))


def test_the_printed_annealing_takes_mu_from_one_to_a_hundred_in_200_of_500_epochs() -> None:
    estimator = a_recipe("paper", "adaste-annealed", "cifar10-resnet18", epochs=500).estimator
    assert isinstance(estimator, AdaSTE) and isinstance(estimator.mu, Geometric)
    gamma = 100 ** (1 / 200)
    for epoch in (0, 1, 100, 199, 200, 499):
        assert float(estimator.mu.at(epoch)) == pytest.approx(min(gamma**epoch, 100.0))
    constant = a_recipe("paper", "adaste", "cifar10-resnet18", epochs=500).estimator
    assert isinstance(constant, AdaSTE) and constant.mu == 100.0


@every_setup
def test_the_printed_bayesbinn_is_the_released_one_on_all_images(where: str) -> None:
    printed, released = (a_recipe(family, "bayesbinn", where, epochs=500) for family in ("paper", "released"))
    assert isinstance(printed.estimator, BayesBiNN) and isinstance(released.estimator, BayesBiNN)
    assert (printed.holdout, printed.batch) == (0, 128)
    assert printed.estimator.train_size == 10 * SETUPS[where].setting.images
    assert printed.base == released.base
    assert printed.estimator.temperature == released.estimator.temperature


def test_the_paper_ran_published_code_for_three_methods_and_quotes_the_others() -> None:
    for method in ("binaryconnect", "md-softmax-s", "md-tanh-s"):
        assert PAPER.recipe(method, HERE, 60) == RELEASED.recipe(method, HERE, 60)
    for method in ("full-precision", "proxquant", "pmf", "md-softmax", "md-tanh"):
        assert method not in PAPER.makers


# --- ours ------------------------------------------------------------------------------------------------------------


@every_setup
def test_all_methods_of_ours_share_one_recipe_but_for_what_makes_them(where: str) -> None:
    own = {"estimator", "base", "averaging", "rest_lr", "augmentation"}
    shared = [
        {name: value for name, value in vars(a_recipe("ours", method, where, epochs=60)).items() if name not in own}
        for method in OURS.makers
    ]
    assert all(one == shared[0] for one in shared)
    assert shared[0]["network"] == SETUPS[where].network
    assert (shared[0]["holdout"], shared[0]["batch"], shared[0]["norm_batches"]) == (0, 128, 50)


def test_every_rate_of_ours_falls_to_zero_along_a_cosine_but_that_of_proxquant() -> None:
    for method in set(OURS.makers) - {"proxquant"}:
        rate = a_recipe("ours", method, "cifar10-resnet18", epochs=60).base.lr
        assert isinstance(rate, Cosine) and (rate.stop, rate.length) == (0.0, 60)
    assert a_recipe("ours", "proxquant", "cifar10-resnet18", epochs=60).base.lr == 0.01


# --- mixup -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["paper", "released", "ours"])
@pytest.mark.parametrize("method", ["bayesbinn", "adaste", "adaste-annealed"])
def test_mixup_is_the_only_difference_of_the_rows_with_it(family: str, method: str) -> None:
    plain, mixed = (a_recipe(family, name, "tiny-imagenet-resnet18") for name in (method, f"{method}-mixup"))
    assert mixed.augmentation == (*plain.augmentation, Mixup(0.2))
    assert {**vars(mixed), "augmentation": ()} == {**vars(plain), "augmentation": ()}


# --- the ablation ----------------------------------------------------------------------------------------------------


def test_the_ablation_differs_from_ours_in_nothing_but_the_method() -> None:
    common = vars(a_recipe("ours", "adaste", "cifar10-resnet18", epochs=60))
    for method in ABLATION.makers:
        made = vars(a_recipe("ablation", method, "cifar10-resnet18", epochs=60))
        different = {name for name, value in made.items() if value != common[name]}
        assert different <= {"estimator", "base", "averaging"}, method


def test_every_row_of_the_ablation_is_a_recipe_of_its_own_with_a_title_of_its_own() -> None:
    assert list(TITLES) == list(ABLATION.makers)
    digests = {a_recipe("ablation", method, "cifar10-resnet18", epochs=60).digest for method in ABLATION.makers}
    assert len(digests) == len(set(TITLES.values())) == len(TITLES)


@pytest.mark.parametrize("average", [0.99, 0.999, 0.9997])
def test_averages_are_those_of_their_names(average: float) -> None:
    for ending, annealed in (("", False), ("-annealed", True)):
        made = a_recipe("ablation", f"averaged-{average}{ending}", "cifar10-resnet18", epochs=60)
        assert isinstance(made.estimator, AdaSTE) and made.averaging == average
        assert made.estimator.slope == PrintedSlope()
        assert isinstance(made.estimator.mu, Geometric) == annealed


def test_the_printed_rule_sees_single_batches() -> None:
    for method in ("printed", "printed-annealed"):
        made = a_recipe("ablation", method, "cifar10-resnet18", epochs=60)
        assert isinstance(made.estimator, AdaSTE) and isinstance(made.base, SGD)
        assert (made.averaging, made.estimator.slope, made.base.momentum) == (0.0, PrintedSlope(), 0.9)


def test_the_gate_of_the_released_update_acts_above_a_thousandth_or_everywhere() -> None:
    for method, threshold in (("released", 1e-3), ("released-gate-everywhere", 0.0)):
        estimator = a_recipe("ablation", method, "cifar10-resnet18", epochs=60).estimator
        assert isinstance(estimator, AdaSTE) and estimator.slope == ReleasedSlope(threshold)
        assert estimator.mu == 100.0


def test_straight_through_has_the_latent_dynamics_of_the_released_update_without_its_gate() -> None:
    gated, plain, faster = (
        a_recipe("ablation", method, "cifar10-resnet18", epochs=60)
        for method in ("released", "straight-through", "straight-through-faster")
    )
    assert isinstance(plain.estimator, StraightThrough) and plain.estimator.decay == 0
    assert plain.base == gated.base
    # The rate of the average: weight decay times the learning rate, summed up by momentum.
    for made, rate in ((plain, 3e-4), (faster, 1e-3)):
        assert isinstance(made.base, SGD)
        assert made.base.first_lr * made.base.weight_decay / (1 - made.base.momentum) == pytest.approx(rate)
    assert math.isclose(plain.estimator.start or 0, 1e-7)
