"""One optimizer step, twice: as it is defined, and as one fused pass over memory. Tests hold the two equal.

Both are called where no gradients are recorded.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from adaste.estimators import Estimator
from adaste.rules import Rule
from adaste.schedules import Scalar
from adaste.shards import like_shard


class Job(NamedTuple):
    """One parameter's part of a step; tensors are the shards of this rank and are changed in place."""

    now: Estimator
    """The method with its parameters at this step."""
    after: Estimator
    """The same at the next step, whose forward pass will see the weights."""
    weight: Tensor
    grad: Tensor
    latent: Tensor
    owner: Tensor
    """The parameter of the base optimizer whose shard `latent` is."""
    average: Tensor | None
    mass: Tensor | None
    rate: Scalar
    finite: Tensor | None
    """On a GPU: whether the gradient is finite. None where that is known."""


def averaged(grad: Tensor, average: Tensor, mass: Tensor, rate: Scalar) -> tuple[Tensor, Tensor]:
    """The exponential average of the gradient, free of bias at every step, also where the rate changes:

    mass <- rate mass + (1 - rate), average <- average + (g - average) (1 - rate) / mass.
    """
    mass = rate * mass + (1 - rate)
    return average + (grad - average) * ((1 - rate) / mass), mass


def reference_step(base: Optimizer, jobs: list[Job]) -> None:
    """The step as it is defined, one function after the other, for any base optimizer."""
    before = [job.latent if job.finite is None else job.latent.clone() for job in jobs]
    for job in jobs:
        weight = job.weight.to(job.latent.dtype)
        grad = _averaged_in_place(job, job.grad.to(job.latent.dtype))
        job.latent.copy_(job.now.carry(job.latent, weight))
        # Here and not in backward: the slope is not linear, it must see the gradient of the whole batch.
        slope = job.now.gradient(grad, job.latent, weight)
        job.owner.grad = like_shard(slope if job.finite is None else torch.where(job.finite, slope, 0.0), job.owner)
    base.step()
    base.zero_grad()
    for job, old in zip(jobs, before, strict=True):
        weight = job.weight.to(job.latent.dtype)
        _store(job.latent, job.now.settle(job.latent, weight), job.finite, old)
        job.weight.copy_(job.after.weight(job.latent, weight))


def fused_step(rule: Rule, settings: list[dict[str, Any]], states: list[dict[str, Tensor]], jobs: list[Job]) -> None:
    """The same with the base optimizer's rule as a pure function, so that the compiler sees all of it at once."""
    for h, state, job in zip(settings, states, jobs, strict=True):
        weight = job.weight.to(job.latent.dtype)
        grad = _averaged_in_place(job, job.grad.to(job.latent.dtype))
        start = job.now.carry(job.latent, weight)
        moved, advanced = rule.advance(start, job.now.gradient(grad, start, weight), state, h)
        _store(job.latent, job.now.settle(moved, weight), job.finite, job.latent)
        job.weight.copy_(job.after.weight(job.latent, weight))
        for name, value in advanced.items():
            _store(state[name], value, job.finite, state[name])


def compiled_step() -> Callable[..., None]:
    """`fused_step`, compiled for one optimizer."""
    # The compiler remembers by code object, and gives up after a few different uses of one: each optimizer has its own.
    own = FunctionType(fused_step.__code__.replace(), globals())
    return torch.compile(own, fullgraph=True, dynamic=False)


def _averaged_in_place(job: Job, grad: Tensor) -> Tensor:
    if job.average is None or job.mass is None:
        return grad
    average, mass = averaged(grad, job.average, job.mass, job.rate)
    _store(job.average, average, job.finite, job.average)
    _store(job.mass, mass, job.finite, job.mass)
    return average


def _store(target: Tensor, value: Tensor, finite: Tensor | None, old: Tensor) -> None:
    target.copy_(value if finite is None else torch.where(finite, value, old))
