"""A step as a CUDA graph, captured once and graphed, and a network that runs on this package's GPU kernels in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from adaste.models.base import Convolution, Norm
from adaste.models.kernels.side_stream import SideStream

WARM_UP = 3
"""Calls before the capture, in which compilers and cuDNN choose their kernels."""


class CudaGraphed:
    """A function captured once as a CUDA graph and replayed. Its first calls run it as it is: every call counts.

    The function changes tensors in place, always the same ones, and never waits for the device.
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
            self._run_on_side_stream()
            self._calls += 1
            return
        if self._graph is None:
            self._graph = self._capture()
        self._graph.replay()

    def _run_on_side_stream(self) -> None:
        """Run the function as it is on a side stream, as captures require of what precedes them."""
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self._stream):
                self._function()
        finally:
            # Also after an error: kernels that were started still write, and their memory may be given to others.
            torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Capture the whole function; after an error in the middle there is no graph, and the next call captures."""
        graph = torch.cuda.CUDAGraph()
        # torch's own stream for captures is one of the device that was first captured on, and no other.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        # Twice: torch leaves the stream of a capture that fails at its end in place. And other threads may go on
        # copying batches meanwhile.
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self._function()
        return graph


class Accelerator:
    """Inside `with accelerator():`, layers of `model` run fused kernels, and weight gradients run on a second stream.

    The backward pass must be in the same block as its forward pass. Outside, the model computes as before.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        from adaste.models.kernels.norm import FastNorm  # needs Triton, which only a GPU asks for

        self._side_stream = SideStream(device)
        modules = list(model.modules())
        norms = [module for module in modules if isinstance(module, Norm) and not module.batch_norm.affine]
        convolutions = [
            module
            for module in modules
            if isinstance(module, Convolution) and module.bias is None and module.groups == 1
        ]
        self._norms = [(module, FastNorm(device)) for module in norms]
        self._convolutions = convolutions

    @contextmanager
    def __call__(self) -> Iterator[None]:
        for norm, faster in self._norms:
            norm.faster = faster
        for convolution in self._convolutions:
            convolution.faster = self._side_stream.convolution
        try:
            yield
        finally:
            for norm, _ in self._norms:
                norm.faster = None
            for convolution in self._convolutions:
                convolution.faster = None
            self._side_stream.join()
