"""Each operation alone, against plain numpy."""

import numpy as np
import plain
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from networks import floats
from packing import Packing

quickly = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def flat(loaded, packing, images):
    packing.node("flatten")
    return loaded(packing, threads=2)(images)


@st.composite
def pools(draw):
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    size = tuple(max(draw(st.integers(1, 9)), k - 2 * p) for k, p in zip(kernel, padding, strict=True))
    return kernel, draw(st.tuples(st.integers(1, 3), st.integers(1, 3))), padding, size


@quickly
@given(pools(), st.sampled_from(["max", True, False]), st.integers(1, 20))
def test_pools_take_the_most_or_the_mean_of_what_their_kernel_covers(loaded, pool, kind, channels):
    kernel, stride, padding, size = pool
    images = floats(np.random.default_rng(0), 2, channels, *size) - np.float32(3)
    packing = Packing((channels, *size))
    sizes = {"kernel": list(kernel), "stride": list(stride), "padding": list(padding)}
    if kind == "max":
        packing.node("max_pool", **sizes)
        expected = plain.max_pool(images, kernel, stride, padding)
    else:
        packing.node("average_pool", **sizes, count_padding=kind)
        expected = plain.average_pool(images, kernel, stride, padding, kind)
    np.testing.assert_allclose(flat(loaded, packing, images), expected.reshape(2, -1), rtol=1e-5, atol=1e-6)


@quickly
@given(st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_affine_scales_shifts_adds_and_rectifies_in_this_order(loaded, scaled, shifted, residual, relu, is_flat):
    rng = np.random.default_rng(1)
    images = floats(rng, 3, 5, 4, 3)
    packing = Packing((5, 4, 3))
    x = images
    if is_flat:
        packing.node("flatten")
        x = images.reshape(3, -1)
    channels = x.shape[1]
    scale = floats(rng, channels) if scaled else None
    shift = floats(rng, channels) if shifted else None
    inputs = [packing.facts["output"]] * (2 if residual else 1)
    packing.node("affine", inputs, channels=channels, scale=scale, shift=shift, relu=relu)
    expected = plain.finished(x, scale, shift, x if residual else None, relu)
    found = loaded(packing)(images) if is_flat else flat(loaded, packing, images)
    np.testing.assert_allclose(found, expected.reshape(3, -1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("relu", [False, True])
def test_add_gives_the_sum_rectified_where_that_is_asked_for(loaded, relu):
    images = floats(np.random.default_rng(2), 3, 5, 40, 30)
    packing = Packing((5, 40, 30))
    rectified = packing.node("relu")
    packing.node("add", ["input", rectified], relu=relu)
    total = images + np.maximum(images, 0)
    np.testing.assert_array_equal(
        flat(loaded, packing, images), (np.maximum(total, 0) if relu else total).reshape(3, -1)
    )


def test_relu_works_on_a_flat_value_too(loaded):
    images = floats(np.random.default_rng(2), 3, 5, 40, 30)
    packing = Packing((5, 40, 30))
    packing.node("flatten")
    packing.node("relu")
    np.testing.assert_array_equal(loaded(packing)(images), np.maximum(images.reshape(3, -1), 0))


@pytest.mark.parametrize("is_flat", [False, True])
def test_concatenate_lines_up_channels_or_flat_values_in_the_order_given(loaded, is_flat):
    images = floats(np.random.default_rng(2), 3, 5, 4, 6)
    packing = Packing((5, 4, 6))
    x, name = images, "input"
    if is_flat:
        name = packing.node("flatten")
        x = images.reshape(3, -1)
    rectified = packing.node("relu", [name])
    packing.node("concatenate", [name, rectified, name])
    expected = np.concatenate([x, np.maximum(x, 0), x], axis=1).reshape(3, -1)
    np.testing.assert_array_equal(loaded(packing)(images) if is_flat else flat(loaded, packing, images), expected)


def test_flatten_is_in_the_order_of_torch(loaded):
    images = floats(np.random.default_rng(2), 3, 5, 4, 6)
    np.testing.assert_array_equal(flat(loaded, Packing((5, 4, 6)), images), images.reshape(3, -1))


def test_values_may_be_used_again_and_the_output_may_be_used_on_the_way(loaded):
    """What is still needed is not overwritten."""
    images = floats(np.random.default_rng(2), 2, 4, 5, 5)
    packing = Packing((4, 5, 5))
    first = packing.node("flatten")
    second = packing.node("relu", [first])
    third = packing.node("add", [first, second], relu=False)
    packing.node("add", [third, first], relu=False)
    packing.facts["output"] = third
    x = images.reshape(2, -1)
    np.testing.assert_array_equal(loaded(packing)(images), x + np.maximum(x, 0))
