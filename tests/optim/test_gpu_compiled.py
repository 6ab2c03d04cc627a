"""On a CUDA device: a compiled step and its CUDA graph do what the eager one does, in every type, over every base."""

import warnings

import pytest
import torch

from adaste import PARQ, AdaSTE, BinaryRelax, ChannelMean, Scaled
from support.compiled_steps import (
    BASES,
    DEFAULT_TYPES,
    Trained,
    assert_alike,
    default_type,
    give_gradients,
    optimizer_of,
)

pytestmark = pytest.mark.gpu

# Every method with and without an average would take a minute each: the tests of the CPU have all combinations.
ROWS = [
    Trained(AdaSTE(), 0.9, torch.float64),
    Trained(AdaSTE(), 0.0, torch.bfloat16),
    Trained(PARQ(), 0.0, torch.float32),
    Trained(BinaryRelax(), 0.9, torch.bfloat16),
    Trained(Scaled(AdaSTE(), ChannelMean()), 0.9, torch.float64),
    Trained(Scaled(AdaSTE(), ChannelMean()), 0.0, torch.float32),
]


@pytest.mark.parametrize("default", DEFAULT_TYPES)
@pytest.mark.parametrize("base", BASES)
def test_compiled_and_captured_steps_are_the_eager_ones(base: str, default: str) -> None:
    torch.compiler.reset()
    with default_type(DEFAULT_TYPES[default]), warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*uncompiled")
        compiled, eager = (optimizer_of(ROWS, BASES[base], device="cuda", compile=each) for each in (True, False))

        def follow(step: int) -> None:
            for optimizer in (compiled, eager):
                give_gradients(optimizer, step)
            eager.step()
            torch.cuda.synchronize()

        stream = torch.cuda.Stream()
        for step in range(3):
            follow(step)
            with torch.cuda.stream(stream):
                compiled.step()
            torch.cuda.synchronize()
        assert_alike(compiled, eager)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            compiled.step()
        for step in range(3, 6):
            follow(step)
            graph.replay()
        torch.cuda.synchronize()
        assert_alike(compiled, eager)
