"""The step as it is defined, one function and one parameter after the other: what every step must equal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.optim import Optimizer

from adaste.estimators.schedules import now
from adaste.optim.parameters import StepInputs
from adaste.optim.state import shard_like
from adaste.optim.step import EagerStep, average_gradient


def literal_step(base: Optimizer, inputs: StepInputs) -> None:
    moments, parts = inputs.moments, inputs.in_parts()
    before = [part.latent.clone() for part in parts]
    for part in parts:
        method = moments[part.moment].now
        weight = part.weight.to(part.latent.dtype)
        grad = part.grad.to(part.latent.dtype)
        if part.average is not None:
            average, mass = average_gradient(grad, part.average, part.mass, now(method.averaging))
            part.average.copy_(part.keep(part.average, average))
            part.mass.copy_(part.keep(part.mass, mass))
            grad = average
        part.latent.copy_(method.estimator.carry(part.latent, weight))
        slope = method.estimator.gradient(grad, part.latent, weight)
        part.owner.grad = shard_like(part.keep(0.0, slope), part.owner)
    base.step()
    base.zero_grad()
    for part, old in zip(parts, before, strict=True):
        moment = moments[part.moment]
        weight = part.weight.to(part.latent.dtype)
        part.latent.copy_(part.keep(old, moment.now.estimator.settle(part.latent, weight)))
        part.weight.copy_(moment.after.estimator.weight(part.latent, weight))


@contextmanager
def taken_literally() -> Iterator[None]:
    """Inside, optimizers that are not compiled make the literal step."""
    with mock.patch.object(EagerStep, "step", lambda _, *arguments: literal_step(*arguments)):
        yield


def bits(optimizer: Any) -> list[torch.Tensor]:
    """All weights, latents, averages and states of the base optimizer as whole numbers: floats would hide some bits."""
    own = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    kept = [value for each in optimizer.state.values() for value in each.values()]
    base = [value for each in optimizer.base.state.values() for value in each.values() if torch.is_tensor(value)]
    kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return [tensor.detach().contiguous().clone().view(kinds[tensor.element_size()]) for tensor in (*own, *kept, *base)]
