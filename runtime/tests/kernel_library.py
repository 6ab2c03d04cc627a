"""The kernels one by one: the library of src/testing, built with CMake when it is first imported."""

import ctypes

import numpy as np
from cmake_build import build

LIBRARY = ctypes.CDLL(str(build("adaste_testing") / "libadaste_testing.so"))


def names(function):
    function.restype = ctypes.c_char_p
    return function().decode().split()


BINARY = names(LIBRARY.adaste_binary_kernels)
INT8 = names(LIBRARY.adaste_int8_kernels)
FLOAT = names(LIBRARY.adaste_float_kernels)


def pointer(array, dtype):
    if array is None:
        return None
    assert array.dtype == dtype and array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.c_void_p)


def convolve_once(kernel, sizes, x, rows, scale, shift, residual, relu, range_, threads, y):
    """Write a convolution to y; False where the kernel does not support its shape."""
    assert len(sizes) == 14
    result = LIBRARY.adaste_convolve_once(
        kernel.encode(), (ctypes.c_int * 14)(*sizes), pointer(x, np.float32), pointer(rows, np.uint8),
        *(pointer(values, np.float32) for values in (scale, shift, residual)), int(relu),
        None if range_ is None else (ctypes.c_float * 2)(*range_), threads, pointer(y, np.float32),
    )  # fmt: skip
    assert result != -1, f"there is no kernel {kernel!r}"
    assert result != -2, f"{kernel} wrote behind its scratch memory"
    return bool(result)
