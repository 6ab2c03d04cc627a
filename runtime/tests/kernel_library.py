"""The kernels one by one: the library of src/testing/convolve_once.cpp, built with CMake when it is first imported."""

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HOME = Path(__file__).parents[1]
BUILD = HOME / "build" / "testing"


def built() -> Path:
    """The library, compiled as the wheel's kernels are; only what changed is compiled again."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    cmake = shutil.which("cmake", path=path)
    if cmake is None:
        pytest.skip("CMake, which builds the library with single kernels, is missing", allow_module_level=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:  # tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            [cmake, "-S", HOME, "-B", BUILD, "-DADASTE_PYTHON=OFF", "-DADASTE_TESTING=ON"],
            [cmake, "--build", BUILD, "--target", "adaste_testing", "--parallel", "2"],
        ):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"the library with single kernels could not be built:\n{done.stdout[-5000:]}")
    return BUILD / "libadaste_testing.so"


LIBRARY = ctypes.CDLL(str(built()))


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
    assert result >= 0, f"there is no kernel {kernel!r}"
    return bool(result)
