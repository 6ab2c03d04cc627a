"""How a step is executed: eager, compiled or as a CUDA graph; in which precision; with which algorithms."""

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
from adaste.optim.fused import own_copy
from adaste.recipes.recipe import Recipe
from adaste.training.distributed import World

P = ParamSpec("P")
T = TypeVar("T")

WORTH_COMPILING = 1_000_000
"""Parameters from which on a compiled update on a CPU pays for the start of the compiler."""


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


def choose_execution(asked: str, *, device: torch.device, world: World, parameters: int) -> Execution:
    """Return the mode asked for if this machine has it, else the next best; "auto" asks for the fastest."""
    names = ["auto", *(mode.value for mode in ExecutionMode)]
    if asked not in names:
        raise ValueError(f"engine must be one of {', '.join(names)}, got {asked!r}")
    on_gpu = device.type == "cuda"
    if asked != "auto":
        wanted = ExecutionMode(asked)
    elif on_gpu:
        wanted = ExecutionMode.GRAPH
    else:
        worth_it = parameters >= WORTH_COMPILING and world.size == 1
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
