"""Three ways to run the same step, and which of them a machine can go."""

import importlib.util
import os
import shutil
from dataclasses import dataclass
from enum import Enum

import torch

from adaste.training.distributed import World

WORTH_COMPILING = 1_000_000
"""On a CPU the uncompiled update of fewer parameters takes less than a compiler's start."""


class Way(Enum):
    """How a step is run."""

    EAGER = "eager"
    COMPILED = "compiled"
    GRAPH = "graph"


@dataclass(frozen=True)
class Choice:
    """The way taken and, where it is not the one asked for, why."""

    way: Way
    reason: str | None = None


def choose_way(asked: str, *, device: torch.device, world: World, parameters: int) -> Choice:
    """The way to go: the one asked for if this machine can, else the next best; "auto" asks for the fastest."""
    names = ["auto", *(way.value for way in Way)]
    if asked not in names:
        raise ValueError(f"engine must be one of {', '.join(names)}, got {asked!r}")
    if asked == "auto" and device.type != "cuda" and (parameters < WORTH_COMPILING or world.size > 1):
        return Choice(Way.EAGER)
    wanted = Way(asked) if asked != "auto" else (Way.GRAPH if device.type == "cuda" else Way.COMPILED)
    if wanted is Way.EAGER:
        return Choice(wanted)
    missing = missing_compiler(device)
    if missing is not None:
        return Choice(Way.EAGER, f"the {wanted.value} engine needs {missing}: going on with the eager one")
    if wanted is Way.GRAPH and device.type != "cuda":
        return Choice(Way.COMPILED, f"CUDA graphs need a CUDA device, not {device}: going on with the compiled engine")
    if wanted is Way.GRAPH and world.size > 1:
        return Choice(Way.COMPILED, "several processes exchange gradients: going on with the compiled engine")
    return Choice(wanted)


def missing_compiler(device: torch.device) -> str | None:
    """What torch.compile would miss on this machine; None where it can run."""
    if device.type != "cuda":
        return None if _found(os.environ.get("CXX"), "g++", "clang++") else "a C++ compiler, and none was found"
    if importlib.util.find_spec("triton") is None:
        return "triton, which is not installed"
    # Triton compiles what starts its kernels.
    return None if _found(os.environ.get("CC"), "gcc", "clang") else "a C compiler, and none was found"


def _found(*programs: str | None) -> bool:
    return any(program and shutil.which(program) for program in programs)
