"""One optimizer step, twice: as it is defined, and as one fused pass over memory. Tests hold the two equal.

Both are called where no gradients are recorded.
"""

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from adaste.estimators import Estimator
from adaste.rules import Rule
from adaste.schedules import Scalar, Schedule, at_step, value_at
from adaste.shards import like_shard


class Method(NamedTuple):
    """How the weights of one group are trained."""

    estimator: Estimator
    averaging: float | Schedule


class Job(NamedTuple):
    """One parameter's part of a step; tensors are the shards of this rank and are changed in place."""

    group: int
    slot: int
    first_element: int
    weight: Tensor
    grad: Tensor
    latent: Tensor
    owner: Tensor
    """The parameter of the base optimizer whose shard `latent` is."""
    average: Tensor | None
    mass: Tensor | None
    norm: Tensor | None
    """On a GPU: the largest |g|, to tell whether the gradient is finite. None where that is known."""

    def keep(self, old: Tensor | float, new: Tensor) -> Tensor:
        """`new`, but `old` where the gradient of this parameter is not finite."""
        return new if self.norm is None else torch.where(self.norm.isfinite(), new, old)


def averaged(grad: Tensor, average: Tensor, mass: Tensor, rate: Scalar) -> tuple[Tensor, Tensor]:
    """The exponential average of the gradient, free of bias at every step, also where the rate changes:

    mass <- rate mass + (1 - rate), average <- average + (g - average) (1 - rate) / mass.
    """
    mass = rate * mass + (1 - rate)
    return average + (grad - average) * ((1 - rate) / mass), mass


def reference_step(base: Optimizer, methods: list[Method], step: int | Tensor, jobs: list[Job]) -> None:
    """The step as it is defined, one function after the other, for any base optimizer."""
    now = _estimators(methods, step, jobs)
    before = [job.latent if job.norm is None else job.latent.clone() for job in jobs]
    for estimator, job in zip(now, jobs, strict=True):
        weight = job.weight.to(job.latent.dtype)
        grad = _averaged_in_place(job, methods[job.group].averaging, step)
        job.latent.copy_(estimator.carry(job.latent, weight))
        # Here and not in backward: the slope is not linear, it must see the gradient of the whole batch.
        slope = estimator.gradient(grad, job.latent, weight)
        job.owner.grad = like_shard(job.keep(0.0, slope), job.owner)
    base.step()
    base.zero_grad()
    after = _estimators(methods, step + 1, jobs)
    for estimator, following, job, old in zip(now, after, jobs, before, strict=True):
        weight = job.weight.to(job.latent.dtype)
        job.latent.copy_(job.keep(old, estimator.settle(job.latent, weight)))
        job.weight.copy_(following.weight(job.latent, weight))


def fused_step(
    rule: Rule,
    settings: list[dict[str, Any]],
    states: list[dict[str, Tensor]],
    methods: list[Method],
    step: Tensor,
    jobs: list[Job],
) -> None:
    """The same with the base optimizer's rule as a pure function, so that the compiler sees all of it at once."""
    now, after = _estimators(methods, step, jobs), _estimators(methods, step + 1, jobs)
    for estimator, following, state, job in zip(now, after, states, jobs, strict=True):
        weight = job.weight.to(job.latent.dtype)
        grad = _averaged_in_place(job, methods[job.group].averaging, step)
        start = estimator.carry(job.latent, weight)
        slope = estimator.gradient(grad, start, weight)
        moved, advanced = rule.advance(start, slope, state, settings[job.group])
        job.latent.copy_(job.keep(job.latent, estimator.settle(moved, weight)))
        job.weight.copy_(following.weight(job.latent, weight))
        for name, value in advanced.items():
            state[name].copy_(job.keep(state[name], value))


def compiled_step() -> Callable[..., None]:
    """`fused_step`, compiled for one optimizer."""
    # The compiler remembers by code object, and gives up after a few different uses of one: each optimizer has its own.
    own = FunctionType(fused_step.__code__.replace(), globals())
    # The parameters are independent of each other: on a GPU a few kernels can serve them all.
    return torch.compile(own, fullgraph=True, dynamic=False, options={"combo_kernels": True})


def _estimators(methods: list[Method], step: int | Tensor, jobs: Sequence[Job]) -> list[Estimator]:
    """The method of every job at `step`."""
    of_group = [at_step(method.estimator, step) for method in methods]
    return [of_group[job.group].on_parameter(job.slot, job.first_element) for job in jobs]


def _averaged_in_place(job: Job, averaging: float | Schedule, step: int | Tensor) -> Tensor:
    grad = job.grad.to(job.latent.dtype)
    if job.average is None or job.mass is None:
        return grad
    average, mass = averaged(grad, job.average, job.mass, value_at(averaging, step))
    job.average.copy_(job.keep(job.average, average))
    job.mass.copy_(job.keep(job.mass, mass))
    return average
