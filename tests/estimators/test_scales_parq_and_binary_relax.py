"""Magnitudes of binary weights, and the two methods that carry one: PARQ and BinaryRelax."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import adaste
from adaste.estimators.scaled import Scale
from support.estimators import Training, column, few

rows = st.lists(st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=3, max_size=3), min_size=1, max_size=4)


def channel_means(latent: list[list[float]]) -> list[float]:
    return [sum(abs(x) for x in row) / len(row) or 1.0 for row in latent]


def sgn(x: float) -> float:
    return 1.0 if x >= 0 else -1.0


def table(latent: list[list[float]]) -> Tensor:
    return torch.tensor(latent, dtype=torch.float64)


@few
@given(rows, st.floats(0.01, 1))
def test_parq_clips_the_steepened_latent_at_the_channel_mean(latent, rho):
    weight = adaste.PARQ(rho).weight(table(latent), table(latent)).tolist()
    for row, level, got in zip(latent, channel_means(latent), weight, strict=True):
        assert got == pytest.approx([max(-level, min(level, x / rho)) for x in row], rel=1e-12, abs=1e-15)


@few
@given(rows)
def test_parq_ends_in_the_sign_at_rho_zero(latent):
    for rho in (0.0, torch.tensor(0.0, dtype=torch.float64)):
        weight = adaste.PARQ(rho).weight(table(latent), table(latent)).tolist()
        for row, level, got in zip(latent, channel_means(latent), weight, strict=True):
            assert got == pytest.approx([level * sgn(x) for x in row], rel=1e-12)


def test_parq_passes_the_gradient_and_follows_its_schedule():
    schedule = adaste.Sigmoid(start=1.0, stop=0.0, length=10)
    training = Training(
        column([0.2, -0.6]), adaste.PARQ(schedule, adaste.Unit()), lambda groups: torch.optim.SGD(groups, lr=0.1)
    )
    theta = [0.2, -0.6]
    for step in range(1, 15):
        theta = [x - 0.1 * g for x, g in zip(theta, (0.3, -0.2), strict=True)]
        weight = training.step(column([0.3, -0.2])).tolist()
        low, high = 1 / (1 + math.exp(5)), 1 / (1 + math.exp(-5))
        share = (1 / (1 + math.exp(-10 * (min(step, 10) / 10 - 0.5))) - low) / (high - low)
        rho = 1 - share
        expected = [max(-1.0, min(1.0, x / rho)) if rho > 1e-9 else sgn(x) for x in theta]
        assert weight == pytest.approx(expected, rel=1e-9)


@few
@given(rows, st.floats(0, 1))
def test_binary_relax_blends_the_latent_with_its_scaled_sign(latent, share):
    weight = adaste.BinaryRelax(share).weight(table(latent), table(latent)).tolist()
    for row, level, got in zip(latent, channel_means(latent), weight, strict=True):
        assert got == pytest.approx([(1 - share) * x + share * level * sgn(x) for x in row], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("make", [adaste.PARQ, adaste.BinaryRelax])
def test_binarized_weights_carry_the_scale(make):
    latent = table([[0.5, -1.5], [0.0, -0.2]])
    assert make().binarize(latent, latent).tolist() == [[1.0, -1.0], [pytest.approx(0.1), pytest.approx(-0.1)]]
    assert make(scale=adaste.Unit()).binarize(latent, latent).tolist() == [[1.0, -1.0], [1.0, -1.0]]
    grad = table([[0.3, 0.1], [-0.2, 0.4]])
    assert make().gradient(grad, latent, latent).tolist() == grad.tolist()


@pytest.mark.parametrize("shape", [(6,), (4, 5), (3, 2, 3, 3)])
def test_scales_are_their_formulas_for_vectors_matrices_and_kernels(shape):
    latent = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fan_in = math.prod(shape[1:])
    assert adaste.Unit().of(latent) == 1.0
    assert adaste.FanIn().of(latent) == pytest.approx(math.sqrt(2 / fan_in))
    flat = latent.reshape(1, -1) if len(shape) == 1 else latent.reshape(shape[0], -1)
    means = [sum(abs(x) for x in row) / len(row) for row in flat.tolist()]
    assert adaste.ChannelMean().of(latent).flatten().tolist() == pytest.approx(means)
    assert (adaste.ChannelMean().of(latent) * latent).shape == latent.shape


def test_channel_mean_of_a_channel_of_zeros_is_one():
    assert adaste.ChannelMean().of(table([[0.0, 0.0], [1.0, -3.0]])).tolist() == [[1.0], [2.0]]


def literal_group_means(values: list[float], size: int) -> list[float]:
    """One number for every value: the mean size of its group."""
    sizes = []
    for first in range(0, len(values), size):
        group = [abs(x) for x in values[first : first + size]]
        sizes += [sum(group) / len(group) or 1.0] * len(group)
    return sizes


@few
@given(st.sampled_from([(7,), (2, 6), (3, 5), (1, 1), (2, 3, 2, 1)]), st.integers(1, 9), st.data())
def test_group_mean_is_the_mean_over_consecutive_inputs_and_the_last_group_may_be_short(shape, size, data):
    count = math.prod(shape)
    values = data.draw(st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=count, max_size=count))
    latent = torch.tensor(values, dtype=torch.float64).view(shape)
    inputs = math.prod(shape[1:]) if len(shape) > 1 else count
    wanted = [each for row in latent.reshape(-1, inputs).tolist() for each in literal_group_means(row, size)]
    scale = adaste.GroupMean(size)
    assert scale.of(latent).flatten().tolist() == pytest.approx(wanted, rel=1e-12)
    weight = adaste.Scaled(adaste.BinaryConnect(), scale).binarize(latent, latent)
    assert weight.flatten().tolist() == pytest.approx(
        [s * sgn(x) for s, x in zip(wanted, values, strict=True)], rel=1e-12
    )


def test_a_group_of_a_whole_row_is_the_mean_of_the_channel():
    latent = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
    wanted = adaste.ChannelMean().of(latent).expand(3, 7)
    torch.testing.assert_close(adaste.GroupMean(7).of(latent), wanted)
    torch.testing.assert_close(adaste.GroupMean(1000).of(latent), wanted)


@pytest.mark.parametrize("shape", [(0, 300), (0, 100), (0, 2, 3, 3), (0,)], ids=str)
@pytest.mark.parametrize("scale", [adaste.FanIn(), adaste.ChannelMean(), adaste.GroupMean(128), adaste.GroupMean(3)])
def test_a_shard_without_outputs_has_no_weights_to_scale(scale, shape):
    latent = torch.empty(shape)
    assert adaste.Scaled(adaste.BinaryConnect(), scale).binarize(latent, latent).shape == shape


@pytest.mark.parametrize("size", [1e-12, 2.0**-25, 1e-7, 3e-5, 0.01234567, 1.0, 777.7777, 1e7])
def test_a_scale_in_half_precision_is_the_nearest_number_of_float16_that_is_not_zero(size):
    latent = torch.full((2, 6), size)
    found = adaste.GroupMean(4, half_precision=True).of(latent)
    nearest = min(max(size, 2.0**-24), 65504.0)
    assert found.flatten().tolist() == [float(torch.tensor(nearest).half())] * 12
    assert (adaste.GroupMean(4, half_precision=True).of(torch.zeros(2, 6)) == 1).all()


@pytest.mark.slow
def test_a_compiled_scale_in_half_precision_is_rounded_too():
    latent = torch.randn(5, 300, generator=torch.Generator().manual_seed(0))
    scale = adaste.GroupMean(128, half_precision=True)
    found = torch.compile(lambda x: scale.of(x) * 1.0, fullgraph=True)(latent)
    assert torch.equal(found, scale.of(latent))
    assert torch.equal(found, found.half().float())


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_the_size_of_a_group_is_a_positive_whole_number(size):
    with pytest.raises(ValueError, match="size"):
        adaste.GroupMean(size)


INNER = [
    adaste.AdaSTE(mu=1.0),
    adaste.StraightThrough(decay=0.3),
    adaste.BinaryConnect(),
    adaste.MirrorDescent(beta=2.0),
    adaste.PMF(beta=2.0),
    adaste.Bop(threshold=0.01),
    adaste.Scaled(adaste.StraightThrough(), adaste.Unit()),
]


def test_a_scale_per_group_lies_in_memory_as_the_weights_do() -> None:
    latent = torch.randn(4, 6, 3, 3)
    moved = latent.contiguous(memory_format=torch.channels_last)
    scale = adaste.GroupMean(5)
    assert scale.of(moved).stride() == moved.stride()
    assert torch.equal(scale.of(moved), scale.of(latent))


@pytest.mark.parametrize("inner", INNER, ids=lambda inner: type(inner).__name__)
@pytest.mark.parametrize("scale", [adaste.FanIn(), adaste.ChannelMean(), adaste.GroupMean(3), adaste.Unit()])
def test_scaled_method_is_the_inner_one_on_the_unscaled_weight_with_the_scaled_gradient(
    inner: adaste.Estimator, scale: Scale
):
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    grad = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    estimator = adaste.Scaled(inner, scale)
    latent = estimator.latent(start)
    assert torch.equal(latent, inner.latent(start))
    position = inner.position(latent)
    if isinstance(scale, adaste.ChannelMean):
        sizes = table([[mean] for mean in channel_means(position.tolist())])
    elif isinstance(scale, adaste.GroupMean):
        sizes = table([literal_group_means(row, 3) for row in position.tolist()])
    else:
        sizes = table([[math.sqrt(2 / 4) if isinstance(scale, adaste.FanIn) else 1.0]] * 3)
    weight = estimator.weight(latent, start)
    unscaled = inner.weight(latent, start)
    assert torch.allclose(weight, sizes * unscaled, rtol=1e-12)
    expected = inner.gradient(sizes * grad, latent, unscaled)
    assert torch.allclose(estimator.gradient(grad, latent, weight), expected, rtol=1e-12)
    assert torch.allclose(estimator.binarize(latent, weight).abs(), sizes.expand(3, 4), rtol=1e-12)
    assert torch.equal(estimator.binarize(latent, weight).sign(), inner.binarize(latent, unscaled))


def test_scaled_primal_mirror_descent_moves_as_the_unscaled_one_with_the_scaled_gradient():
    start = torch.linspace(-0.8, 0.8, 8, dtype=torch.float64).view(2, 4)
    inner = adaste.MirrorDescent(stable=False, beta=2.0)
    base = lambda groups: torch.optim.SGD(groups, lr=0.1)  # noqa: E731
    scaled, plain = Training(start, adaste.Scaled(inner), base), Training(start, inner, base)
    size = math.sqrt(2 / 4)
    for step in range(10):
        grad = torch.sin(torch.arange(8, dtype=torch.float64) + step).view(2, 4)
        assert torch.allclose(scaled.step(grad), size * plain.step(size * grad), rtol=1e-9)


@pytest.mark.parametrize("mirror", [adaste.TanhMirror(), adaste.SoftmaxMirror()])
@pytest.mark.parametrize("absorbing", [False, True])
def test_scaled_primal_mirror_descent_takes_its_scale_from_the_dual_point_inside_its_reach(mirror, absorbing):
    """theta <- r(theta) - beta lr a g, a = mean |r(theta)| per channel, where r ends at the mirror's reach."""
    beta, rate, reach = 20.0, 0.01, mirror.reach
    start = torch.linspace(-1.5, 1.5, 12, dtype=torch.float64).view(3, 4)
    start[1, 2], start[2, 0] = 2 * reach, -3 * reach
    inner = adaste.MirrorDescent(mirror, stable=False, beta=beta, absorbing=absorbing)
    training = Training(
        start, adaste.Scaled(inner, adaste.ChannelMean()), lambda groups: torch.optim.SGD(groups, lr=rate)
    )

    def scaled(dual: Tensor) -> tuple[Tensor, Tensor]:
        size = dual.clamp(-reach, reach).abs().mean(dim=1, keepdim=True)
        return size, size * torch.tanh(dual)

    dual, absorbed = start, torch.zeros_like(start, dtype=torch.bool)
    for step in range(12):
        size, expected = scaled(dual)
        torch.testing.assert_close(training.weight, expected, rtol=1e-9, atol=1e-12)
        absorbed |= absorbing & (dual.abs() >= reach)
        grad = torch.sin(torch.arange(12, dtype=torch.float64) + step).view(3, 4)
        moved = dual.clamp(-reach, reach) - beta * rate * size * grad
        dual = torch.where(absorbed, dual.sign() * 2 * reach, moved)
        training.step(grad)
    assert absorbed.sum() == (2 if absorbing else 0)
    with training.optimizer.binarized():
        torch.testing.assert_close(training.weight, scaled(dual)[0] * torch.where(dual >= 0, 1.0, -1.0))
        assert training.weight.abs().max() < reach


def test_magnitude_is_the_size_of_the_exported_weights_also_where_scales_multiply():
    latent = table([[0.5, -1.5], [0.1, -0.2]])
    scaled = adaste.Scaled(adaste.PARQ(scale=adaste.ChannelMean()), adaste.ChannelMean())
    assert scaled.magnitude(latent).flatten().tolist() == pytest.approx([1.0, 0.15**2])
    exported = scaled.binarize(latent, latent).abs()
    assert torch.allclose(exported, scaled.magnitude(latent).expand(2, 2), rtol=1e-12)


def test_scale_refuses_a_method_without_binary_weights():
    with pytest.raises(ValueError, match="FullPrecision"):
        adaste.Scaled(adaste.FullPrecision())
