"""Which algorithms torch may choose during a run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def algorithms(deterministic: bool, device: torch.device) -> Iterator[None]:
    """The fastest that cuDNN can find by trying, or those that give the same bits every time. Afterwards as before.

    On a CPU, sums are taken in as many parts as there are threads, and rounded in another way for each number of them.
    One is the only number that every machine has: deterministic computation on a CPU takes one thread.

    But for CUBLAS_WORKSPACE_CONFIG, which stays: cuBLAS reads it once, to take it back would change nothing.
    """
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
    )
    threads = torch.get_num_threads()
    if deterministic and device.type == "cuda":
        # Read by cuBLAS when it starts; without it torch refuses to be deterministic.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        torch.use_deterministic_algorithms(deterministic or before[0], warn_only=before[1] and not deterministic)
        torch.backends.cudnn.benchmark = not deterministic
        torch.backends.cudnn.deterministic = deterministic
        if deterministic and device.type == "cpu":
            torch.set_num_threads(1)
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = before[2:]
        torch.set_num_threads(threads)
