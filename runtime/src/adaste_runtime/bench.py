"""How long a network takes."""

import time

import numpy as np
from numpy.typing import NDArray

from adaste_runtime.network import Network

FEWEST = 20
"""Calls to measure, however long they take."""


def latencies(network: Network, batch: int, seconds: float) -> NDArray[np.float64]:
    """Seconds of single calls with `batch` random images, for `seconds` in all, after a few to warm up."""
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    images = np.random.default_rng(0).standard_normal((batch, *network.input_shape), dtype=np.float32)
    for _ in range(3):
        network(images)
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < FEWEST or time.perf_counter() - started < seconds:
        before = time.perf_counter()
        network(images)
        times.append(time.perf_counter() - before)
    return np.array(times)


def report(network: Network, times: NDArray[np.float64]) -> str:
    """The percentiles of `times`, and what computed them."""
    kernels = ", ".join(sorted(set(network.kernels.values()))) or "none"
    best, *percentiles = (1e3 * np.array([times.min(), *np.percentile(times, [50, 90, 99])])).tolist()
    names = ("50 %", "90 %", "99 %")
    lines = [f"{len(times)} calls, {network.threads} threads, kernels: {kernels}", f"  best  {best:9.3f} ms"]
    return "\n".join(lines + [f"  {name}  {value:9.3f} ms" for name, value in zip(names, percentiles, strict=True)])
