"""Optimizers whose steps are compiled, beside their eager twins: what tests on the CPU and on a GPU share."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from adaste import Estimator, LatentOptimizer

# Rates that float32 holds exactly: a compiled step has them in float32.
BASES = {
    "SGD": partial(torch.optim.SGD, lr=0.125),
    "SGD with momentum": partial(torch.optim.SGD, lr=0.125, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=2.0**-7),
    "AdamW": partial(torch.optim.AdamW, lr=2.0**-7),
    "RMSprop": partial(torch.optim.RMSprop, lr=2.0**-7),
}
DEFAULT_TYPES = {"float32": torch.float32, "float64": torch.float64}
TYPES = {**DEFAULT_TYPES, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Trained:
    """One weight, how it is trained, and its type."""

    estimator: Estimator
    averaging: float
    dtype: torch.dtype
    shape: tuple[int, ...] = (4, 3, 3, 3)


@contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    """Torch's default type, in which it makes the count of steps of its optimizers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def numbers(shape: tuple[int, ...], seed: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def optimizer_of(rows: Sequence[Trained], base: Any, *, device: str = "cpu", **options: Any) -> LatentOptimizer:
    """An optimizer with a group for every weight."""
    groups = [
        {
            "params": [nn.Parameter(numbers(row.shape, seed, row.dtype).to(device))],
            "estimator": row.estimator,
            "averaging": row.averaging,
        }
        for seed, row in enumerate(rows)
    ]
    return LatentOptimizer(groups, base=base, estimator=rows[0].estimator, **options)


def give_gradients(optimizer: LatentOptimizer, step: int) -> None:
    """Those of a step, which do not depend on the weights, always in the same memory."""
    for place, group in enumerate(optimizer.param_groups):
        for weight in group["params"]:
            grad = numbers(tuple(weight.shape), 1000 * (step + 1) + place, weight.dtype).to(weight.device)
            weight.grad = grad if weight.grad is None else weight.grad.copy_(grad)


def assert_alike(compiled: LatentOptimizer, eager: LatentOptimizer) -> None:
    """Weights' latents and averages and the base optimizer's own state agree, up to rounding."""
    assert compiled.steps == eager.steps
    one, other = (optimizer.state_dict()["state"] for optimizer in (compiled, eager))
    for slot, wanted in other.items():
        _assert_state_alike(one[slot], wanted, slot)
    for one_group, other_group in zip(compiled.param_groups, eager.param_groups, strict=True):
        for weight, twin in zip(one_group["params"], other_group["params"], strict=True):
            torch.testing.assert_close(weight, twin, rtol=1e-2, atol=1e-2)


def _assert_state_alike(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor], slot: int) -> None:
    assert state.keys() == wanted.keys()
    tolerance = 1e-6 if wanted["latent"].dtype == torch.float64 else 1e-4
    for name, tensor in wanted.items():
        assert (state[name].shape, state[name].dtype) == (tensor.shape, tensor.dtype)
        torch.testing.assert_close(
            state[name].cpu().double(),
            tensor.cpu().double(),
            rtol=tolerance,
            atol=tolerance * float(tensor.abs().max()),
            msg=lambda text, name=name: f"{name} of weight {slot}: {text}",
        )
