"""Noise: uniform, independent, and a pure function of seed, step, parameter and element."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import adaste
from adaste.estimators.noise import Noise
from adaste.optim.parameters import parts_in

modest = settings(deadline=None, derandomize=True, max_examples=60)
MANY = 100_000


def draws(noise: Noise, count: int = MANY) -> torch.Tensor:
    return noise.uniform(torch.empty(count, dtype=torch.float64))


def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    return torch.corrcoef(torch.stack((one, other)))[0, 1].item()


NOISES = [
    Noise(),
    Noise(seed=1),
    Noise(seed=2**40 + 7, step=12),
    Noise(seed=3, step=390_000, parameter=60),
    Noise(seed=5, parameter=2, first_element=2**31),
]


@pytest.mark.parametrize("noise", NOISES)
def test_numbers_are_uniform(noise):
    numbers = draws(noise)
    assert numbers.mean().item() == pytest.approx(0.5, abs=4.5 * math.sqrt(1 / 12 / MANY))
    assert numbers.var().item() == pytest.approx(1 / 12, abs=4.5 * math.sqrt(1 / 180 / MANY))
    bins = torch.histc(numbers, bins=100, min=0, max=1)
    statistic = ((bins - MANY / 100) ** 2 / (MANY / 100)).sum().item()
    # 99 degrees of freedom: mean 99, standard deviation 14.07; too even is as wrong as too uneven.
    assert 99 - 4.5 * 14.07 < statistic < 99 + 4.5 * 14.07


@pytest.mark.parametrize("noise", NOISES)
def test_pairs_of_neighbours_are_uniform_over_the_square(noise):
    numbers = draws(noise).view(-1, 2)
    cells = (numbers[:, 0] * 10).long() * 10 + (numbers[:, 1] * 10).long()
    bins = torch.bincount(cells, minlength=100).double()
    expected = MANY / 2 / 100
    statistic = ((bins - expected) ** 2 / expected).sum().item()
    assert 99 - 4.5 * 14.07 < statistic < 99 + 4.5 * 14.07


@pytest.mark.parametrize("lag", [1, 2, 3, 16, 27, 64, 576])
def test_elements_are_uncorrelated(lag):
    numbers = draws(Noise(seed=9))
    assert abs(correlation(numbers[:-lag], numbers[lag:])) < 4.5 / math.sqrt(MANY)


BASE = Noise(seed=6, step=10, parameter=1)


@pytest.mark.parametrize(
    "other",
    [
        BASE.at(11),
        BASE.at(9),
        BASE.at(10 + 2**16),
        BASE.on(2, 0),
        BASE.on(0, 0),
        Noise(seed=7, step=10, parameter=1),
        Noise(seed=6 + 2**32, step=10, parameter=1),
        Noise(seed=6, step=1, parameter=10),
        Noise(seed=10, step=6, parameter=1),
        Noise(seed=1, step=10, parameter=6),
    ],
)
def test_other_steps_seeds_and_parameters_have_uncorrelated_numbers(other):
    one, two = draws(BASE), draws(other)
    assert abs(correlation(one, two)) < 4.5 / math.sqrt(MANY)
    # Mirrored numbers would pass the line above.
    assert abs(correlation((one - 0.5).abs(), (two - 0.5).abs())) < 4.5 / math.sqrt(MANY)
    assert (one == two).sum() < 10
    # The same numbers in another order would too. Of 2^16 draws from 2^23 values about 510 meet one of 2^16 others.
    assert torch.isin(one[: 2**16], two[: 2**16]).sum() < 1000


@pytest.mark.slow
def test_one_element_over_many_steps_is_uniform_and_uncorrelated():
    numbers = torch.cat([draws(Noise(seed=2).at(step), 1) for step in range(5000)])
    assert numbers.mean().item() == pytest.approx(0.5, abs=4.5 * math.sqrt(1 / 12 / 5000))
    bins = torch.histc(numbers, bins=20, min=0, max=1)
    assert ((bins - 250) ** 2 / 250).sum().item() < 19 + 4.5 * math.sqrt(38)
    assert abs(correlation(numbers[:-1], numbers[1:])) < 4.5 / math.sqrt(5000)


@modest
@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31), st.integers(0, 5000))
def test_step_in_a_tensor_gives_the_numbers_of_the_integer(seed, step, parameter):
    like = torch.empty(3, 5)
    host = Noise(seed, step, parameter).uniform(like)
    device = Noise(seed, torch.tensor(step), parameter).uniform(like)
    assert torch.equal(host, device)


@modest
@given(st.integers(0, 100), st.integers(0, 6), st.integers(1, 6))
def test_shard_has_the_numbers_of_its_slice_of_the_whole(seed, first, rows):
    whole = Noise(seed).on(3, 0).uniform(torch.empty(12, 4, 3))
    shard = Noise(seed).on(3, first * 12).uniform(torch.empty(rows, 4, 3))
    assert torch.equal(shard, whole[first : first + rows])


def test_numbers_do_not_depend_on_the_shape_or_the_precision():
    flat = Noise(8).uniform(torch.empty(24))
    assert torch.equal(Noise(8).uniform(torch.empty(2, 3, 4)).flatten(), flat)
    assert torch.equal(Noise(8).uniform(torch.empty(24, dtype=torch.float64)).float(), flat)


def test_numbers_are_those_that_earlier_runs_have_drawn():
    """A run that resumes under a later version draws on; the numbers were written down once, in units of 2^-24."""
    assert (draws(Noise(), 3) * 2**24).tolist() == [2202007.0, 4822279.0, 9863071.0]
    other = Noise(seed=2**40 + 7, step=12, parameter=3)
    assert (draws(other, 3) * 2**24).tolist() == [12161381.0, 11858831.0, 4241145.0]


def test_same_noise_gives_the_same_numbers_and_leaves_torchs_generator_alone():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    assert torch.equal(draws(Noise(4, 2)), draws(Noise(4, 2)))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_lie_strictly_inside_zero_and_one(dtype):
    numbers = Noise(12).uniform(torch.empty(3_000_000, dtype=dtype))
    assert numbers.min() > 0
    assert numbers.max() < 1
    # The extremes are met as closely as so many draws should.
    assert numbers.min() < 1e-5
    assert numbers.max() > 1 - 1e-5
    assert torch.isfinite(torch.logit(numbers)).all()


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float16, 10), (torch.bfloat16, 7)])
def test_numbers_of_a_small_type_are_all_it_can_hold_strictly_inside_and_even(dtype, bits):
    numbers = Noise(12).uniform(torch.empty(300_000, dtype=dtype))
    assert numbers.dtype == dtype
    values, counts = numbers.double().unique(return_counts=True)
    assert torch.equal(values, (torch.arange(2**bits, dtype=torch.float64) + 0.5) / 2**bits)
    expected = 300_000 / 2**bits
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    assert abs(statistic - 2**bits) < 4.5 * math.sqrt(2 * 2**bits)
    assert torch.isfinite(torch.logit(numbers)).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_compiled_draw_of_a_small_type_gives_the_same_numbers(dtype):
    like = torch.empty(64, dtype=dtype)
    compiled = torch.compile(lambda like: Noise(3).uniform(like), fullgraph=True)
    assert torch.equal(compiled(like), Noise(3).uniform(like))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_every_possible_word_of_bits_maps_strictly_inside(dtype, monkeypatch):
    for word in (0, 2**32 - 1):
        monkeypatch.setattr("adaste.estimators.noise._scramble", lambda x, word=word: torch.as_tensor(x) * 0 + word)
        number = Noise().uniform(torch.empty(1, dtype=dtype)).item()
        assert 0 < number < 1


def test_estimator_gives_every_parameter_its_own_numbers():
    latent = torch.zeros(1000, dtype=torch.float64)
    estimator = adaste.Scaled(adaste.BinaryConnect(Noise(1)), adaste.Unit())
    one, two = (estimator.on_parameter(index, 0).weight(latent, latent) for index in (0, 1))
    assert (one != two).double().mean().item() == pytest.approx(0.5, abs=0.08)
    shard = estimator.on_parameter(0, 400).weight(latent[400:], latent[400:])
    assert torch.equal(shard, one[400:])


def test_optimizer_gives_a_parameter_the_numbers_of_its_slot_from_its_first_element_on():
    weights = [torch.nn.Parameter(torch.zeros(3)) for _ in range(3)]
    estimator = adaste.BinaryConnect(Noise(4))
    optimizer = adaste.LatentOptimizer(weights, base=partial(torch.optim.SGD, lr=0.1), estimator=estimator)
    *_, part = parts_in(optimizer.param_groups, optimizer.state)
    assert part.specialise(estimator).noise == Noise(4, parameter=2, first_element=0)
