"""The engine a step is run with; all engines give the same results."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from adaste.data.augment import Crop, Flip
from adaste.models import VGG
from adaste.runs.evaluate import evaluate, network_of_run
from adaste.runs.run import Options
from adaste.training.distributed import ALONE, World
from adaste.training.execution import (
    ENOUGH_UPDATES,
    WORTH_COMPILING,
    Execution,
    ExecutionMode,
    algorithms,
    choose_execution,
)
from adaste.training.trainer import Training
from support.small_runs import (
    CONVOLUTIONAL,
    InterruptedTrainingError,
    Listener,
    outcome,
    small_data,
    small_recipe,
    small_run,
    small_training,
    weights_of,
)

CPU, CUDA, MANY = torch.device("cpu"), torch.device("cuda"), WORTH_COMPILING
LONG = ENOUGH_UPDATES // MANY
TWO = World(0, 2)


@pytest.mark.parametrize(
    ("asked", "device", "world", "parameters", "mode", "reason"),
    [
        ("auto", CPU, ALONE, MANY, ExecutionMode.COMPILED, None),
        ("auto", CPU, ALONE, MANY - 1, ExecutionMode.EAGER, None),
        ("auto", CPU, TWO, MANY, ExecutionMode.EAGER, None),
        ("auto", CUDA, ALONE, 1, ExecutionMode.GRAPH, None),
        ("auto", CUDA, TWO, 1, ExecutionMode.COMPILED, "several processes"),
        ("eager", CPU, ALONE, MANY, ExecutionMode.EAGER, None),
        ("eager", CUDA, TWO, MANY, ExecutionMode.EAGER, None),
        ("compiled", CPU, ALONE, 1, ExecutionMode.COMPILED, None),
        ("compiled", CUDA, TWO, 1, ExecutionMode.COMPILED, None),
        ("graph", CPU, ALONE, 1, ExecutionMode.COMPILED, "CUDA graphs need a CUDA device, not cpu"),
        ("graph", CUDA, ALONE, 1, ExecutionMode.GRAPH, None),
        ("graph", CUDA, TWO, 1, ExecutionMode.COMPILED, "several processes"),
    ],
)
def test_the_engine_and_why_it_is_not_the_one_asked_for(asked, device, world, parameters, mode, reason, monkeypatch):
    monkeypatch.setattr("adaste.training.execution.missing_compiler", lambda device: None)
    execution = choose_execution(asked, device=device, world=world, parameters=parameters, steps=LONG)
    assert execution.mode is mode
    assert (execution.reason is None) if reason is None else (reason in execution.reason)


def test_a_run_on_a_cpu_that_ends_before_a_compiler_has_paid_for_its_start_is_eager(monkeypatch) -> None:
    monkeypatch.setattr("adaste.training.execution.missing_compiler", lambda device: None)

    def mode(asked: str, device: torch.device, parameters: int, steps: int) -> ExecutionMode:
        return choose_execution(asked, device=device, world=ALONE, parameters=parameters, steps=steps).mode

    assert mode("auto", CPU, MANY, LONG) is mode("auto", CPU, 2 * MANY, LONG // 2) is ExecutionMode.COMPILED
    assert mode("auto", CPU, MANY, LONG - 1) is mode("auto", CPU, MANY - 1, 2 * LONG) is ExecutionMode.EAGER
    assert mode("compiled", CPU, MANY, 1) is ExecutionMode.COMPILED
    assert mode("auto", CUDA, MANY, 1) is ExecutionMode.GRAPH


@pytest.mark.parametrize(("holdout", "steps_of_epoch"), [(0, 6), (20, 5)])
def test_a_run_keeps_its_engine_when_it_goes_on_and_when_it_is_evaluated(
    holdout, steps_of_epoch, monkeypatch, tmp_path
) -> None:
    """Engines round differently: the steps that count are those of the whole run."""
    asked = list[tuple[str, int, int]]()

    def note(engine: str, *, parameters: int, steps: int, **where: object) -> Execution:
        asked.append((engine, parameters, steps))
        return Execution(ExecutionMode.EAGER)

    for module in ("training.trainer", "runs.evaluate"):
        monkeypatch.setattr(f"adaste.{module}.choose_execution", note)

    def stop(training: Training) -> None:
        if (training.epoch, training.step) == (1, 2):
            raise InterruptedTrainingError

    made = small_recipe(epochs=2, holdout=holdout)
    with pytest.raises(InterruptedTrainingError):
        small_run(made, tmp_path, observer=Listener(stop))
    small_run(made, tmp_path)
    evaluate(network_of_run(tmp_path), small_data(), device=CPU)
    assert [steps for _, _, steps in asked] == [2 * steps_of_epoch] * 3 and len(set(asked)) == 1


@pytest.mark.parametrize("asked", ["auto", "compiled", "graph"])
def test_without_a_compiler_steps_are_eager(asked, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    execution = choose_execution(asked, device=CPU, world=ALONE, parameters=MANY, steps=LONG)
    assert execution.mode is ExecutionMode.EAGER
    assert "needs a C++ compiler, and none was found: going on with the eager one" in execution.reason


def test_a_compiler_named_by_the_environment_is_found(monkeypatch, tmp_path) -> None:
    compiler = tmp_path / "my-compiler"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CXX", str(compiler))
    assert choose_execution("compiled", device=CPU, world=ALONE, parameters=1, steps=LONG) == Execution(
        ExecutionMode.COMPILED
    )


def test_on_a_gpu_triton_and_a_c_compiler_are_needed(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    execution = choose_execution("auto", device=CUDA, world=ALONE, parameters=1, steps=LONG)
    assert (execution.mode, "triton" in execution.reason) == (ExecutionMode.EAGER, True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: SimpleNamespace(name=name))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    execution = choose_execution("auto", device=CUDA, world=ALONE, parameters=1, steps=LONG)
    assert (execution.mode, "a C compiler" in execution.reason) == (ExecutionMode.EAGER, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("adaste-printed-annealed", {"network": CONVOLUTIONAL, "augmentation": (Crop(1), Flip())}),
        ("binaryconnect", {"label_smoothing": 0.1}),
    ],
    ids=["annealed convolutions", "adam"],
)
def test_compiled_and_eager_steps_give_the_same_up_to_rounding(method, changes) -> None:
    made = small_recipe(method, epochs=2, **changes)
    made = dataclasses.replace(made, batch=32, seed=1)
    eager, compiled = small_training(made, engine="eager"), small_training(made, engine="compiled")
    # Objects of one class do not share what is compiled, so that many trainings in a process stay compiled.
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        records = list(zip(eager.run(), compiled.run(), strict=True))
    for one, other in records:
        assert other.loss == pytest.approx(one.loss, rel=1e-4)
        assert other.lr == pytest.approx(one.lr, rel=1e-5)
        assert other.test_loss == pytest.approx(one.test_loss, rel=1e-3)
        assert other.method == pytest.approx(one.method, rel=1e-5)
        assert other.latent == pytest.approx(one.latent, rel=1e-3)
    for one, other in zip(weights_of(eager), weights_of(compiled), strict=True):
        assert (one - other).abs().gt(1e-3).float().mean() <= 0.01, "but for a few signs of latents near zero"


@contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Inside, torch has so many threads, and afterwards it must have them still."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
        assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)


def test_deterministic_runs_on_a_cpu_are_the_same_for_any_number_of_threads(tmp_path: Path) -> None:
    data, options = small_data(train=300, side=16), Options(deterministic=True)
    made = small_recipe("adaste", epochs=2, batch=100, network=VGG(stages=((32,), (64,)), hidden_widths=()))
    found = []
    for count in (1, 2):
        with with_threads(count):
            small_run(made, tmp_path / str(count), data, options)
        (start,) = json.loads((tmp_path / str(count) / "environment.json").read_text())
        assert start["threads"] == 1
        found.append(outcome(tmp_path / str(count)))
    assert found[0] == found[1]


def test_algorithms_are_as_before_afterwards() -> None:
    before = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with with_threads(2), algorithms(True, CPU):
            assert torch.get_num_threads() == 1  # of which every machine has one: the number decides on rounding
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
            assert torch.backends.cudnn.deterministic
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
    with algorithms(False, CPU):
        assert torch.backends.cudnn.benchmark
        assert not torch.are_deterministic_algorithms_enabled()
    assert (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic) == before
