"""Compiled = eager: every method, every base optimizer that can be compiled, every type. `make test` takes a sample."""

import itertools
import warnings

import pytest
import torch

from adaste import AdaSTE, FullPrecision
from support.compiled_steps import (
    BASES,
    DEFAULT_TYPES,
    TYPES,
    Trained,
    assert_alike,
    default_type,
    give_gradients,
    optimizer_of,
)
from support.methods import METHODS

STEPS = 5
SAMPLE = [
    # The mass of an average of float64 gradients has no dimensions, ...
    ("full precision", "SGD", "float32"),
    ("AdaSTE, annealed", "SGD with momentum", "float32"),
    # ... and neither has a base optimizer's count of steps, which is float64 where that is torch's default.
    ("AdaSTE", "Adam", "float64"),
    ("PMF", "AdamW", "float64"),
    ("ProxQuant", "RMSprop", "float64"),
    # Means over channels.
    ("PARQ", "SGD", "float32"),
    ("PARQ", "RMSprop", "float64"),
    ("BinaryRelax", "SGD", "float64"),
    ("BinaryRelax", "RMSprop", "float32"),
    ("scaled by channel", "SGD", "float32"),
    ("scaled by channel", "Adam", "float32"),
    ("scaled by channel", "RMSprop", "float64"),
    # Means over groups of inputs, as they are and rounded to float16.
    ("scaled by group", "AdamW", "float32"),
    ("scaled by group, rounded", "Adam", "float32"),
    ("scaled by group, rounded", "SGD", "float64"),
]


def assert_compiled_is_eager(rows: list[Trained], base: str, default: str) -> None:
    torch.compiler.reset()
    with default_type(DEFAULT_TYPES[default]), warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*uncompiled")
        optimizers = [optimizer_of(rows, BASES[base], compile=compile) for compile in (True, False)]
        for optimizer in optimizers:
            for step in range(STEPS):
                give_gradients(optimizer, step)
                optimizer.step()
        assert_alike(*optimizers)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "base", "default"), SAMPLE)
def test_a_compiled_step_is_the_eager_one(method: str, base: str, default: str) -> None:
    kinds = [(0.0, torch.float32), (0.9, torch.float64), (0.9, torch.bfloat16)]
    assert_compiled_is_eager([Trained(METHODS[method].estimator, *kind) for kind in kinds], base, default)


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "base", "default"), list(itertools.product(METHODS, BASES, DEFAULT_TYPES)))
def test_a_compiled_step_is_the_eager_one_whatever_the_method_the_base_and_the_type(
    method: str, base: str, default: str
) -> None:
    kinds = itertools.product((0.0, 0.9), TYPES.values())
    assert_compiled_is_eager([Trained(METHODS[method].estimator, *kind) for kind in kinds], base, default)


@pytest.mark.slow
def test_parameters_without_dimensions_move_in_a_compiled_step() -> None:
    rows = [Trained(METHODS[name].estimator, 0.9, torch.float64, shape=()) for name in ("full precision", "PMF")]
    assert_compiled_is_eager(rows, "Adam", "float64")


def test_an_eager_step_goes_on_from_what_a_compiled_one_made_and_the_other_way_round() -> None:
    rows = [Trained(AdaSTE(), 0.9, torch.float64)]
    with default_type(torch.float64):
        compiled, eager = (optimizer_of(rows, BASES["Adam"], compile=compile) for compile in (True, False))
        for step in range(6):
            for optimizer in (compiled, eager):
                give_gradients(optimizer, step)
                optimizer.step()
            state = compiled.state_dict()
            compiled.load_state_dict(eager.state_dict())
            eager.load_state_dict(state)
        assert state["state"][0]["mass"].shape == state["state"][0]["base.step"].shape == ()
        assert float(state["state"][0]["mass"]) == pytest.approx(1 - 0.9**6)
        assert_alike(compiled, eager)


def test_a_step_that_torch_cannot_compile_goes_on_uncompiled_with_one_warning(monkeypatch) -> None:
    from torch._inductor.graph import GraphLowering

    def fail(*arguments: object, **options: object) -> None:
        raise KeyError("buf2")

    monkeypatch.setattr(GraphLowering, "run", fail)
    rows = [Trained(FullPrecision(), 0.9, torch.float32, shape=(3, 5))]
    compiled, eager = (optimizer_of(rows, BASES["SGD"], compile=compile) for compile in (True, False))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(STEPS):
            for optimizer in (compiled, eager):
                give_gradients(optimizer, step)
                optimizer.step()
    told = [warning for warning in caught if "buf2" in str(warning.message)]
    assert len(told) == 1 and told[0].filename == __file__
    assert_alike(compiled, eager)
