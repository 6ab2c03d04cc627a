"""After the first call a network allocates nothing: counted with an allocator in front of the system's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import adaste_runtime
import numpy as np
import pytest
from adaste_runtime import _runtime
from networks import residual_network

COUNTER = r"""
#include <stddef.h>
static long count;
long allocation_count(void) { return __atomic_load_n(&count, __ATOMIC_SEQ_CST); }
extern void* __libc_malloc(size_t);
extern void* __libc_memalign(size_t, size_t);
static void note(void) { __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST); }
void* malloc(size_t size) { note(); return __libc_malloc(size); }
void* aligned_alloc(size_t alignment, size_t size) { note(); return __libc_memalign(alignment, size); }
"""

PROGRAM = r"""
import ctypes, sys
counter = ctypes.CDLL(sys.argv[1])
library = ctypes.CDLL(sys.argv[2])
library.adaste_load_file.restype = ctypes.c_void_p
network = ctypes.c_void_p(library.adaste_load_file(sys.argv[3].encode(), 2, int(sys.argv[4])))
images = (ctypes.c_float * (100 * 3 * 12 * 10))()
outputs = (ctypes.c_float * (100 * 7))()
counts = []
for batch in (1, 100, 1, 100, 70, 100):
    size = ctypes.c_size_t(batch)
    before = counter.allocation_count()
    assert library.adaste_run(network, images, size, outputs) == 0
    counts.append(counter.allocation_count() - before)
print(*counts)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not shutil.which("cc"), reason="needs Linux and a C compiler"
)
@pytest.mark.parametrize("int8", [0, 1])
def test_nothing_is_allocated_after_the_largest_batch(tmp_path, int8):
    counter = tmp_path / "counter.so"
    (tmp_path / "counter.c").write_text(COUNTER)
    built = subprocess.run(["cc", "-shared", "-fPIC", "-o", counter, tmp_path / "counter.c"], capture_output=True)
    if built.returncode:
        pytest.skip("this C library has another allocator")
    model = residual_network(np.random.default_rng(0))[0].write(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, counter, _runtime.__file__, model, str(int8)],
        capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": str(counter)}, timeout=60,
    )  # fmt: skip
    first, largest, *later = map(int, done.stdout.split())
    assert first > 0 and largest > 0, "the counter counts"
    assert later == [0, 0, 0, 0], done.stderr


def test_repeated_calls_do_not_need_more_memory(tmp_path):
    net = adaste_runtime.load(residual_network(np.random.default_rng(0))[0].write(Path(tmp_path)))
    images = np.zeros((40, 3, 12, 10), np.float32)
    net(images)
    held = net.memory_bytes
    for count in (1, 40, 7, 40):
        net(images[:count])
    assert net.memory_bytes == held
