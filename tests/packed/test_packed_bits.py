"""+-1 as bits and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaste.packed.nodes import pack_signs, row_bytes, unpack_signs, unused_bits_are_zero

modest = settings(deadline=None, derandomize=True, max_examples=80)
sizes = st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**32 - 1))


@modest
@given(sizes)
def test_signs_come_back_from_their_bits(size):
    rows, count, seed = size
    signs = np.random.default_rng(seed).choice([-1, 1], (rows, count))
    bits = pack_signs(signs)
    assert bits.dtype == np.uint8 and bits.shape == (rows, row_bytes(count))
    assert np.array_equal(unpack_signs(bits, count), signs)
    assert unused_bits_are_zero(bits, count)


def test_weight_number_i_is_bit_i_modulo_8_of_byte_i_over_8():
    for place in range(19):
        signs = -np.ones((1, 19))
        signs[0, place] = 1
        bits = pack_signs(signs)[0]
        assert bits[place // 8] == 1 << place % 8 and bits.sum() == 1 << place % 8


@pytest.mark.parametrize("count", range(1, 9))
def test_every_bit_behind_the_last_weight_is_noticed(count):
    for bit in range(8):
        assert unused_bits_are_zero(np.array([[0], [1 << bit]], np.uint8), count) == (bit < count)


def test_what_is_not_plus_or_minus_one_has_no_bit():
    with pytest.raises(ValueError, match="only rows of -1 and"):
        pack_signs(np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError, match="only rows of -1 and"):
        pack_signs(np.ones(3))
