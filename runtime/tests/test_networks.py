import gc
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from networks import floats, forcible_kernels, residual_network, signs
from packing import Packing


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_network_computes_what_numpy_computes(loaded, rng, threads):
    packing, compute = residual_network(rng)
    images = floats(rng, 5, 3, 12, 10)
    np.testing.assert_allclose(loaded(packing, threads=threads)(images), compute(images), rtol=1e-4, atol=1e-4)


def test_any_number_of_threads_gives_the_same_bits(loaded, rng):
    packing, _ = residual_network(rng)
    images = floats(rng, 4, 3, 12, 10)
    first, *others = [loaded(packing, threads=threads)(images) for threads in (1, 2, 3, 8, 17, None)]
    assert all((other == first).all() for other in others)


def test_the_batch_may_change_from_call_to_call(loaded, rng):
    packing, _ = residual_network(rng)
    net = loaded(packing, threads=2)
    images = floats(rng, 200, 3, 12, 10)
    alone = np.concatenate([net(images[i : i + 1]) for i in range(20)])
    for batch in (3, 20, 1, 7, 200):
        np.testing.assert_array_equal(net(images[:batch])[:20], alone[:batch])
    assert net(images[:0]).shape == (0, 7)


def test_bytes_are_normalised_as_the_file_says(loaded, rng):
    packing, _ = residual_network(rng)
    net = loaded(packing)
    pixels = rng.integers(0, 256, (3, 12, 10, 3), np.uint8)
    images = (pixels.transpose(0, 3, 1, 2) / np.float32(255) - np.float32(0.5)) / np.float32(0.25)
    np.testing.assert_array_equal(net(pixels), net(images))


def test_bytes_become_shares_where_the_file_has_no_mean(loaded):
    packing = Packing((1, 1, 2))
    packing.node("flatten")
    np.testing.assert_array_equal(
        loaded(packing)(np.array([[[[51], [255]]]], np.uint8)), np.array([[0.2, 1.0]], np.float32)
    )


def test_a_network_says_what_it_is(loaded, rng):
    net = loaded(residual_network(rng)[0], threads=2)
    assert net.input_shape == (3, 12, 10)
    assert net.outputs == 7
    assert net.classes == [f"class {i}" for i in range(7)]
    assert net.threads == 2
    assert set(net.kernels) == {"t0", "t1", "t2", "t4", "t10", "t11"}
    assert net.kernels["t0"].startswith("float")
    assert repr(net) == "Network(input_shape=(3, 12, 10), outputs=7, threads=2)"


def test_classes_may_be_unnamed(loaded):
    packing = Packing()
    packing.node("flatten")
    assert loaded(packing).classes is None


def test_eight_bits_are_close_and_closer_to_themselves_when_calibrated(loaded, rng):
    packing, compute = residual_network(rng)
    images = floats(rng, 30, 3, 12, 10)
    exact = compute(images)
    net = loaded(packing, int8=True)
    eight_bit = ("int8", "amx", "vnni", "dot")
    assert all(any(word in net.kernels[name] for word in eight_bit) for name in ("t1", "t2", "t10"))
    spread = exact.std()
    dynamic = net(images)
    assert 0 < np.abs(dynamic - exact).max() < 0.1 * spread
    net.calibrate(images)
    assert 0 < np.abs(net(images) - exact).max() < 0.1 * spread
    calibrated = net(images[:1])
    net.calibrate(images[:1] * 0.1)
    assert (net(images[:1]) != calibrated).any(), "ranges come from the calibration images"


def test_a_calibration_that_fails_leaves_the_last_one(loaded, rng):
    net = loaded(residual_network(rng)[0], int8=True)
    images = floats(rng, 4, 3, 12, 10)
    dynamic = net(images)
    net.calibrate(images * np.float32(0.5))
    calibrated = net(images)
    assert (calibrated != dynamic).any()
    with pytest.raises(ValueError, match="not finite"):
        net.calibrate(images * np.float32(np.nan))
    np.testing.assert_array_equal(net(images), calibrated)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_a_network_is_not_calibrated_with_images_of_one_colour(loaded, rng, kind, count):
    net = loaded(residual_network(rng)[0], int8=True)
    colour = np.array([0, 2, 3], kind)
    images = np.tile(colour, (count, 12, 10, 1))
    images = images.transpose(0, 3, 1, 2) if kind == np.float32 else images
    sample = floats(rng, 2, 3, 12, 10)
    dynamic = net(sample)
    with pytest.raises(
        ValueError, match=r"ranges of values, which those of one colour do not: all pixels are \[0\.? 2"
    ):
        net.calibrate(images)
    np.testing.assert_array_equal(net(sample), dynamic)
    images = images.copy()
    images[-1, -1, -1, -1] += 1
    net.calibrate(images)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_network_is_not_calibrated_with_numbers_that_are_not_finite(loaded, rng, value):
    net = loaded(residual_network(rng)[0], int8=True)
    with pytest.raises(ValueError, match="not finite"):
        net.calibrate(np.full((2, 3, 12, 10), value, np.float32))


def test_only_8_bit_networks_are_calibrated(loaded, rng):
    net = loaded(residual_network(rng)[0])
    with pytest.raises(ValueError, match="only a network loaded with int8"):
        net.calibrate(floats(rng, 1, 3, 12, 10))


def test_calibration_needs_images(loaded, rng):
    net = loaded(residual_network(rng)[0], int8=True)
    with pytest.raises(ValueError, match="at least one image"):
        net.calibrate(floats(rng, 0, 3, 12, 10))


def test_a_kernel_can_be_forced(loaded, rng, monkeypatch):
    packing, _ = residual_network(rng)
    monkeypatch.setenv("ADASTE_RUNTIME_KERNEL", "scalar")
    assert loaded(packing).kernels["t1"] == "scalar"
    monkeypatch.setenv("ADASTE_RUNTIME_KERNEL", "slide rule")
    with pytest.raises(ValueError, match=r"ADASTE_RUNTIME_KERNEL must be one of .*scalar.*, got 'slide rule'"):
        loaded(packing)


def test_the_readme_names_every_kernel_that_can_be_forced(loaded, rng, monkeypatch):
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    for name in forcible_kernels(monkeypatch):
        assert f"`{name}`" in readme
        monkeypatch.setenv("ADASTE_RUNTIME_KERNEL", name)
        loaded(residual_network(rng)[0])
    assert "ADASTE_RUNTIME_KERNEL" in readme


def at_once(*functions):
    """Call each in a thread of its own."""
    workers = [threading.Thread(target=function) for function in functions]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_callers_get_what_one_gets(loaded, rng, threads, int8):
    net = loaded(residual_network(rng)[0], threads=threads, int8=int8)
    batches = [floats(rng, 1 + n % 5, 3, 12, 10) for n in range(12)]
    expected = [net(batch) for batch in batches]
    wrong = []

    def caller(batch, right):
        for _ in range(20):
            if not np.array_equal(net(batch), right):
                wrong.append(len(batch))

    at_once(*[lambda each=each: caller(*each) for each in zip(batches, expected, strict=True)])
    assert not wrong


def test_a_call_is_computed_before_a_calibration_or_after_it(loaded, rng):
    net = loaded(residual_network(rng)[0], threads=2, int8=True)
    images = floats(rng, 2, 3, 12, 10)
    ranges = [images, images * np.float32(0.2)]
    allowed = []
    for each in ranges:
        net.calibrate(each)
        allowed.append(net(images).tobytes())
    assert len(set(allowed)) == 2
    wrong = []

    def caller():
        for _ in range(50):
            if net(images).tobytes() not in allowed:
                wrong.append(1)

    def calibrating():
        for i in range(20):
            net.calibrate(ranges[i % 2])

    at_once(caller, calibrating, caller, caller)
    assert not wrong


DEFAULT = """
import os, sys, adaste_runtime
allowed = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, allowed[:1])
print(adaste_runtime.load(sys.argv[1]).threads, adaste_runtime.load(sys.argv[1], threads=3).threads)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes have no affinity on this system")
def test_without_a_number_there_is_a_thread_for_each_core_that_may_be_used(loaded, rng, tmp_path):
    packing, _ = residual_network(rng)
    assert 1 <= loaded(packing).threads <= len(os.sched_getaffinity(0))
    command = [sys.executable, "-c", DEFAULT, packing.write(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "3"], done.stderr


def test_python_goes_on_in_other_threads_while_a_network_runs(loaded, rng):
    net = loaded(residual_network(rng)[0])
    images = floats(rng, 1, 3, 12, 10).repeat(20000, axis=0)
    ended = threading.Event()

    def work():
        net(images)
        ended.set()

    worker = threading.Thread(target=work)
    worker.start()
    steps = 0
    while not ended.wait(0.001):
        steps += 1
    worker.join()
    assert steps > 20


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
def test_a_forked_process_starts_its_own_threads(loaded, rng):
    net = loaded(residual_network(rng)[0], threads=3)
    images = floats(rng, 2, 3, 12, 10)
    expected = net(images)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put(net(images)))
    child.start()
    found = queue.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0
    np.testing.assert_array_equal(found, expected)


LIMITED = """
import resource, sys, adaste_runtime
resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))  # room for some threads, not for a thousand
try:
    adaste_runtime.load(sys.argv[1], threads=1000)
except ValueError as error:
    print(error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are Linux's")
def test_threads_that_the_system_does_not_give_are_an_error(rng, tmp_path):
    path = residual_network(rng)[0].write(tmp_path)
    done = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "cannot start 1000 threads" in done.stdout, done.stderr


def test_values_share_memory(loaded, rng):
    """A chain of twenty layers needs no more memory than a pair of them, whatever a kernel rounds channels up to."""

    def memory_of_chain(layers: int) -> int:
        packing = Packing((16, 16, 16))
        for _ in range(layers):
            packing.convolution(signs(rng, 16, 16, 1, 1), relu=True)
        packing.node("flatten")
        net = loaded(packing, threads=1)
        net(floats(rng, 1, 16, 16, 16))
        return net.memory_bytes

    assert 2 * 4 * 16**3 <= memory_of_chain(20) == memory_of_chain(2) < 20 * 4 * 16**3


def test_networks_are_freed(loaded, rng):
    packing, _ = residual_network(rng)
    before = len(threading.enumerate())
    for _ in range(50):
        loaded(packing, threads=4)
    gc.collect()
    assert len(threading.enumerate()) == before
