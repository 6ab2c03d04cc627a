"""How a step is executed: eager, compiled or as a CUDA graph; in which precision; with which algorithms and kernels."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import MethodType
from typing import ParamSpec, TypeVar

import torch
from torch import nn

from adaste.data.augment import Augmentation
from adaste.models import ImageShape
from adaste.models.kernels.side_stream import SideStream
from adaste.models.networks import Convolution, Norm
from adaste.optim.fused import own_copy
from adaste.recipes.recipe import Recipe
from adaste.training.distributed import World

P = ParamSpec("P")
T = TypeVar("T")

WORTH_COMPILING = 1_000_000
"""Parameters from which on a compiled update on a CPU is faster."""

ENOUGH_UPDATES = 5_000_000_000
"""Parameters times steps from which on that also pays for the start of the compiler.

The compiler takes about half a minute to a minute, once. Close to the limit, whichever is chosen costs little.
"""


class ExecutionMode(Enum):
    """The engines: uncompiled, compiled by torch, or captured as a CUDA graph."""

    EAGER = "eager"
    COMPILED = "compiled"
    GRAPH = "graph"


@dataclass(frozen=True)
class Execution:
    """The mode in which steps are run and, if it is not the one asked for, the reason."""

    mode: ExecutionMode
    reason: str | None = None


def choose_execution(asked: str, *, device: torch.device, world: World, parameters: int, steps: int) -> Execution:
    """Return the mode asked for if this machine has it, else the next best; "auto" asks for the fastest.

    Args:
        asked: A mode, or "auto".
        device: Where the steps are computed.
        world: The processes that compute them.
        parameters: Those of the network.
        steps: Those of the whole run, and not those that are left: a run that goes on keeps its mode.
    """
    names = ["auto", *(mode.value for mode in ExecutionMode)]
    if asked not in names:
        raise ValueError(f"engine must be one of {', '.join(names)}, got {asked!r}")
    on_gpu = device.type == "cuda"
    if asked != "auto":
        wanted = ExecutionMode(asked)
    elif on_gpu:
        wanted = ExecutionMode.GRAPH
    else:
        worth_it = parameters >= WORTH_COMPILING and parameters * steps >= ENOUGH_UPDATES and world.size == 1
        wanted = ExecutionMode.COMPILED if worth_it else ExecutionMode.EAGER
    if wanted is ExecutionMode.EAGER:
        return Execution(wanted)
    missing = missing_compiler(device)
    if missing is not None:
        reason = f"the {wanted.value} engine needs {missing}: going on with the eager one"
        return Execution(ExecutionMode.EAGER, reason)
    if wanted is ExecutionMode.GRAPH and not on_gpu:
        reason = f"CUDA graphs need a CUDA device, not {device}: going on with the compiled engine"
        return Execution(ExecutionMode.COMPILED, reason)
    if wanted is ExecutionMode.GRAPH and world.size > 1:
        reason = "several processes exchange gradients: going on with the compiled engine"
        return Execution(ExecutionMode.COMPILED, reason)
    return Execution(wanted)


def missing_compiler(device: torch.device) -> str | None:
    """Return what torch.compile lacks on this machine; None if it can run."""
    if device.type != "cuda":
        return None if _found(os.environ.get("CXX"), "g++", "clang++") else "a C++ compiler, and none was found"
    if importlib.util.find_spec("triton") is None:
        return "triton, which is not installed"
    # Triton compiles the launchers of its kernels.
    return None if _found(os.environ.get("CC"), "gcc", "clang") else "a C compiler, and none was found"


def _found(*programs: str | None) -> bool:
    return any(program and shutil.which(program) for program in programs)


def build_network(
    recipe: Recipe, augmentation: Augmentation, image_shape: tuple[int, ...], classes: int, device: torch.device
) -> nn.Module:
    """Return the network of `recipe` for images (height, width, channels), with the initial weights of its seed."""
    height, width, channels = image_shape
    height, width = augmentation.output_size((height, width))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = recipe.network.build(ImageShape(channels, height, width), classes)
    return in_precision(model, dtype_of(recipe)).to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def dtype_of(recipe: Recipe) -> torch.dtype:
    """Return the type of the images and weights a network computes with."""
    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[recipe.precision]


def in_precision(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Convert weights and biases of layers to `dtype`; the statistics and scales of norms stay float32."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.to(dtype)
    return model


@contextmanager
def algorithms(deterministic: bool, device: torch.device) -> Iterator[None]:
    """Inside, torch uses the fastest algorithms that cuDNN finds, or those that give the same bits every time.

    On a CPU, sums are taken in as many parts as there are threads, and their rounding depends on that number. One is
    the only number that every machine has: deterministic computation on a CPU takes one thread.

    Afterwards all is as before except CUBLAS_WORKSPACE_CONFIG, which cuBLAS reads only once.
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


def compiled_method(method: Callable[P, T]) -> Callable[P, T]:
    """Return a bound method compiled for its object alone."""
    assert isinstance(method, MethodType)
    return torch.compile(MethodType(own_copy(method.__func__), method.__self__), dynamic=False)


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
