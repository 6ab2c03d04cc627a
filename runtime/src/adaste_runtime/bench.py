"""How long a network takes."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste_runtime.network import Network

FEWEST = 20
"""Calls to measure, however long they take."""


def latencies(network: Network, batch: int, seconds: float) -> NDArray[np.float64]:
    """Seconds of single calls with `batch` random inputs, for `seconds` in all, after a few to warm up."""
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    random = np.random.default_rng(0)
    inputs = {
        name: random.standard_normal((batch, *shape), dtype=np.float32)
        if network.input_types[name] == "float32"
        else np.zeros((batch, *shape), np.int32)
        for name, shape in network.input_shapes.items()
    }
    for _ in range(3):
        network(**inputs)
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < FEWEST or time.perf_counter() - started < seconds:
        before = time.perf_counter()
        network(**inputs)
        times.append(time.perf_counter() - before)
    return np.array(times)


def summary(network: Network, times: NDArray[np.float64]) -> dict[str, Any]:
    """The percentiles of `times` in milliseconds, and what computed them, as JSON could hold it."""
    names = ("best", "50 %", "90 %", "99 %")
    values = (1e3 * np.percentile(times, [0, 50, 90, 99])).tolist()
    return {
        "calls": len(times),
        "threads": network.threads,
        "kernels": sorted(set(network.kernels.values())),
        "milliseconds": dict(zip(names, values, strict=True)),
    }


def report(network: Network, times: NDArray[np.float64]) -> str:
    """The same for people."""
    found = summary(network, times)
    kernels = ", ".join(found["kernels"]) or "none"
    lines = [f"{found['calls']} calls, {found['threads']} threads, kernels: {kernels}"]
    return "\n".join(lines + [f"  {name}  {value:9.3f} ms" for name, value in found["milliseconds"].items()])
