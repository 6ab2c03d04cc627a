"""A function of no arguments, run again and again: as it is, or captured once as a CUDA graph and replayed."""

from collections.abc import Callable

import torch

WARM_UP = 3
"""Calls before the capture: compilers and cuDNN choose their kernels in these."""


class Replayed:
    """`function` as a CUDA graph. The first calls run it as it is, so every call counts and nothing must be undone.

    It must change tensors in place, always the same ones, and never wait for the device.
    """

    def __init__(self, function: Callable[[], None], device: torch.device) -> None:
        self._function, self._device = function, device
        self._calls = 0
        self._stream: torch.cuda.Stream | None = None
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        with torch.cuda.device(self._device):  # streams, captures and Triton's kernels are those of the current device
            self._run()

    def _run(self) -> None:
        if self._graph is None and self._calls < WARM_UP:
            self._aside()
            self._calls += 1
            return
        if self._graph is None:
            self._graph = self._captured()
        self._graph.replay()

    def _aside(self) -> None:
        """On a side stream, as captures ask for what precedes them."""
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self._stream):
                self._function()
        finally:
            # Also after an error: what was begun still writes, and others may be given its memory.
            torch.cuda.current_stream().wait_stream(self._stream)

    def _captured(self) -> torch.cuda.CUDAGraph:
        """The whole function: after an error in the middle there is no graph, and the next call captures anew."""
        graph = torch.cuda.CUDAGraph()
        # torch's own stream for captures is one of the device that was first captured on, and no other.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        # Twice: torch leaves the stream of a capture that fails at its end in place. And other threads may go on
        # copying batches meanwhile.
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self._function()
        return graph
