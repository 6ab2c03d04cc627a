"""Weights of +-1 as bits: eight to a byte, the first in the least significant bit, every row in bytes of its own."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def row_bytes(count: int) -> int:
    """Bytes of a row of `count` weights."""
    return -(-count // 8)


def pack_signs(signs: NDArray[Any]) -> NDArray[np.uint8]:
    """Rows of +-1 as rows of bits: 0 for -1, 1 for +1, and 0 where no weight is left for the last byte."""
    if signs.ndim != 2 or not np.all(np.abs(signs) == 1):
        raise ValueError(f"only rows of -1 and +1 have one bit each, got an array of shape {signs.shape} with others")
    return np.packbits(signs > 0, axis=1, bitorder="little")


def unpack_signs(rows: NDArray[np.uint8], count: int) -> NDArray[np.int8]:
    """What `pack_signs` was given, `count` weights a row."""
    bits = np.unpackbits(rows, axis=1, count=count, bitorder="little").view(np.int8)
    return bits * np.int8(2) - np.int8(1)


def unused_bits_are_zero(rows: NDArray[np.uint8], count: int) -> bool:
    """Whether the bits behind the last of `count` weights of each row are 0, so that equal weights are equal bytes."""
    spare = 8 * rows.shape[1] - count
    return spare == 0 or not np.any(rows[:, -1] >> (8 - spare))
