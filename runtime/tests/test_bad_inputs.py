import numpy as np
import pytest
from networks import floats, residual_network


@pytest.fixture
def net(loaded):
    return loaded(residual_network(np.random.default_rng(0))[0], threads=2)


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((3, 12, 10), np.float32),
        np.zeros((1, 3, 10, 12), np.float32),
        np.zeros((1, 12, 10, 3), np.float32),
        np.zeros((1, 3, 12, 10), np.float64),
        np.zeros((1, 3, 12, 10), np.uint8),
        np.zeros((1, 3, 12, 10), np.int8),
        np.zeros((1, 3, 12, 10), np.complex64),
        np.zeros((1, 3, 12, 10), object),
        np.float32(1),
        "picture",
        None,
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'shape', '')} {getattr(value, 'dtype', '')}",
)
def test_a_wrong_shape_or_type_is_refused(net, images):
    with pytest.raises(ValueError, match=r"images must be float32 \(N, 3, 12, 10\) or uint8 \(N, 12, 10, 3\), got"):
        net(images)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0, 0, 0), (4, 2, 11, 9), (2, 1, 5, 5)])
def test_numbers_that_are_not_finite_are_refused(net, value, place):
    images = np.zeros((5, 3, 12, 10), np.float32)
    images[place] = value
    with pytest.raises(ValueError, match="not finite"):
        net(images)
    images[place] = 0
    assert np.isfinite(net(images)).all(), "and the network can still be used"


def test_arrays_need_not_be_contiguous(net):
    images = floats(np.random.default_rng(1), 4, 3, 12, 10)
    expected = net(images)
    np.testing.assert_array_equal(net(np.asfortranarray(images)), expected)
    np.testing.assert_array_equal(net(images[::-2]), expected[::-2])
    images.setflags(write=False)
    np.testing.assert_array_equal(net(images), expected)


def test_bytes_of_the_other_order_are_refused_or_read(net):
    images = floats(np.random.default_rng(1), 2, 3, 12, 10)
    with pytest.raises(ValueError, match="images must be"):
        net(images.astype(">f4"))
