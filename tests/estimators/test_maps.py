"""Forward maps: each the minimiser of its inner objective, odd, increasing and bounded."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import adaste
from adaste.estimators.maps import DoubleWell, ForwardMap, HardTanh, Tanh, choose, same_sign, sign

modest = settings(deadline=None, derandomize=True, max_examples=60)
reals = st.floats(-20, 20, allow_subnormal=False)

MAPS = [
    Tanh(),
    Tanh(0.3),
    HardTanh(),
    HardTanh(2.5),
    DoubleWell(),
    DoubleWell(mu=0.2, alpha=0.5),
    DoubleWell(mu=1.0, alpha=0.01),
    DoubleWell(mu=10.0, alpha=0.05),
    DoubleWell(mu=3.0, alpha=0.9),
]


def objective(forward: ForwardMap, w: float) -> float:
    """G(w) as the paper prints it, with its temperature the right way round and the entropy with its sign."""
    if isinstance(forward, DoubleWell):
        return (1 + forward.mu) / 2 * w * w - forward.mu * (1 + forward.alpha) * abs(w)
    if isinstance(forward, HardTanh):
        return forward.temperature / 2 * w * w
    chances = ((1 - w) / 2, (1 + w) / 2)
    return forward.temperature * sum(p * math.log(p) for p in chances if p > 0)


@pytest.mark.parametrize("forward", MAPS, ids=str)
def test_map_is_the_minimiser_of_its_objective_over_a_grid(forward):
    grid = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    for theta in (-5.0, -1.7, -0.9, -0.31, -0.02, 0.02, 0.31, 0.9, 1.7, 5.0):
        best = grid[(forward.objective(grid) - grid * theta).argmin()].item()
        assert forward(torch.tensor(theta, dtype=torch.float64)).item() == pytest.approx(best, abs=5.1e-4)


@pytest.mark.parametrize("forward", MAPS, ids=str)
def test_objective_is_the_papers_up_to_a_constant(forward):
    grid = torch.linspace(-1, 1, 41, dtype=torch.float64)
    shift = forward.objective(grid[:1]).item() - objective(forward, -1.0)
    for w, value in zip(grid.tolist(), forward.objective(grid).tolist(), strict=True):
        assert value - shift == pytest.approx(objective(forward, w), abs=1e-12)


@pytest.mark.parametrize("forward", MAPS, ids=str)
@modest
@given(st.lists(reals, min_size=2, max_size=20))
def test_map_is_odd_increasing_and_inside_minus_one_to_one(forward, thetas):
    latent = torch.tensor(sorted(thetas), dtype=torch.float64)
    weight = forward(latent)
    assert (weight.diff() >= -1e-15).all()
    assert (weight.abs() <= 1).all()
    away = latent != 0
    assert torch.equal(forward(-latent)[away], -weight[away])


@pytest.mark.parametrize("forward", MAPS, ids=str)
@modest
@given(st.floats(0, 5, allow_subnormal=False), st.floats(0, 5, allow_subnormal=False))
def test_increase_is_the_difference_of_two_magnitudes(forward, size, by):
    size_, by_ = torch.tensor(size, dtype=torch.float64), torch.tensor(by, dtype=torch.float64)
    difference = torch.as_tensor(forward.magnitude(size_ + by_)) - torch.as_tensor(forward.magnitude(size_))
    assert float(forward.increase(size_, by_)) == pytest.approx(float(difference), abs=1e-14)


@pytest.mark.parametrize("forward", MAPS, ids=str)
def test_zero_counts_as_positive(forward):
    at_zero = forward(torch.tensor([0.0, -0.0], dtype=torch.float64))
    from_the_right = forward(torch.full((2,), 1e-18, dtype=torch.float64))
    assert torch.allclose(at_zero, from_the_right, rtol=0, atol=1e-16)


@modest
@given(st.floats(0.01, 50), st.floats(0.01, 0.99), st.floats(0, 3))
def test_double_well_is_binary_exactly_beyond_its_linear_part(mu, alpha, excess):
    reach = max(0.0, 1 - mu * alpha)
    forward = DoubleWell(mu=mu, alpha=alpha)
    beyond = torch.tensor([reach + excess + 1e-9, -reach - excess - 1e-9], dtype=torch.float64)
    assert forward(beyond).tolist() == [1.0, -1.0]
    if reach > 1e-6:
        assert (forward(torch.tensor([-0.99 * reach, 0.99 * reach], dtype=torch.float64)).abs() < 1).all()


@pytest.mark.parametrize("in_a_tensor", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_double_well_is_the_sign_function_from_one_over_alpha_on_whatever_the_rounding(in_a_tensor, dtype):
    latent = torch.tensor([-1.0, -1e-9, 0.0, 1e-9, 1.0], dtype=dtype)
    for thousandths in range(1, 1000):
        alpha = thousandths / 1000
        forward = DoubleWell(torch.tensor(1 / alpha, dtype=dtype) if in_a_tensor else 1 / alpha, alpha)
        assert torch.equal(forward(latent), sign(latent)), alpha
        assert float(forward.linear_reach) == 0, alpha
        assert float(forward.jump) == 1, alpha


@pytest.mark.parametrize("mu", [0.1, 1.0, 30.0, 99.0, 100.0, 150.0])
def test_double_well_is_the_same_with_mu_in_a_tensor(mu):
    latent, by = torch.linspace(-3, 3, 61, dtype=torch.float64), torch.full((61,), 0.7, dtype=torch.float64)
    plain, tensor = DoubleWell(mu), DoubleWell(torch.tensor(mu, dtype=torch.float64))
    assert torch.allclose(tensor(latent), plain(latent), rtol=1e-14)
    assert torch.allclose(
        tensor.increase(latent.abs(), by), torch.zeros(61).double() + plain.increase(latent.abs(), by), atol=1e-15
    )


def test_sign_is_never_zero_and_keeps_the_type():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = torch.tensor([-2.0, -0.0, 0.0, 3.0], dtype=dtype)
        assert sign(x).dtype == dtype
        assert sign(x).tolist() == [-1.0, 1.0, 1.0, 1.0]


def test_choose_takes_one_side_on_the_host_and_elements_on_the_device():
    ones, twos = torch.ones(2), 2 * torch.ones(2)

    def never() -> torch.Tensor:
        raise AssertionError("the other side was computed")

    assert choose(True, lambda: ones, never) is ones
    assert choose(False, never, lambda: twos) is twos
    assert choose(torch.tensor([True, False]), lambda: ones, lambda: twos).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("make", [Tanh, HardTanh])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_map_refuses_a_bad_temperature(make, bad):
    with pytest.raises(ValueError, match="temperature") as caught:
        make(bad)
    assert str(bad) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *(("mu", bad) for bad in (0.0, -1.0, math.nan, math.inf, "1", None)),
        *(("alpha", bad) for bad in (0.0, 1.0, -0.5, 1.5, math.nan, "x", None)),
    ],
)
def test_double_well_refuses_a_bad_shape(name, bad):
    with pytest.raises(ValueError, match=name) as caught:
        DoubleWell(**{name: bad})
    assert str(bad) in str(caught.value)


def test_map_with_a_schedule_that_leaves_its_range_is_refused():
    with pytest.raises(ValueError, match=r"temperature.*-1\.0"):
        Tanh(adaste.Linear(start=1.0, stop=-1.0, length=10))


def test_map_whose_schedule_is_not_resolved_says_so():
    forward = Tanh(adaste.Linear(start=1.0, stop=0.5, length=10))
    with pytest.raises(TypeError, match="at_step"):
        forward(torch.zeros(1))
    assert adaste.at_step(forward, 10)(torch.tensor(0.5)).item() == pytest.approx(math.tanh(1.0))


def test_signs_are_compared_with_zero_on_the_positive_side_and_without_a_product_that_underflows():
    x = torch.tensor([0.0, -0.0, 0.0, 1e-30, -1e-30, 1e-30, -1e-30, 1.0, 0.0])
    y = torch.tensor([1e-30, 1.0, -1.0, 1e-30, -1e-30, -1e-30, 1e-30, 0.0, 0.0])
    expected = [True, True, False, True, True, False, False, False, False]
    assert same_sign(x, y).tolist() == expected
