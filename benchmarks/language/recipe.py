"""What determines a run: the recipe as plain data, and the optimizers that it describes."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

import adaste
from adaste.estimators import PARQ, Scaled, StraightThrough
from adaste.estimators.schedules import Sigmoid
from adaste.recipes.methods import METHODS, Plan, Treatment

SCALES = MappingProxyType(
    {
        "fan-in": adaste.FanIn(),
        "channel": adaste.ChannelMean(),
        "group": adaste.GroupMean(128, half_precision=True),
    }
)
BASES = ("adamw", "muon", "own")
BETAS = (0.9, 0.99)
"""Of AdamW, as nanoGPT has them for this text."""
EXAMPLES = 50_000
"""Training examples in the words of `adaste.setup`, which BayesBiNN alone uses."""


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a run but the text.

    Args:
        method: A method of `adaste list methods`, `parq`, or `straight-through` without decay; `straight-through-decay`
            is that of the list.
        scale: One of SCALES; `none` for full precision.
        base: The optimizer of the latents: `adamw`, `muon`, or the method's `own` one.
        rate: Its learning rate; of an own base a multiple of the rate that `adaste.setup` gives the method.
        decay: Its weight decay; an own base keeps its own.
        iterations: Optimizer steps.
        seed: Of the weights, the batches and dropout.
        held_out: Whether the last tenth of the training text is held out and measured, instead of the validation text.
        rest_rate: The rate of AdamW for embeddings and norms.
        rest_decay: Its weight decay, of matrices.
        warm_up: Steps in which rates grow; then they fall to zero along a cosine.
        clip: The norm that gradients are clipped to.
        batch: Sequences in a step.
        every: Steps between measurements.
        train_share: The share of the text that trains; the rest validates.
        vocabulary: `characters` or `bytes`.
        layers: See `Shape`, as all that follow.
        width: The hidden size.
        heads: Attention heads.
        intermediate: The width between the linear layers.
        context: Tokens in a sequence.
        dropout: The share of numbers that is dropped.
    """

    method: str
    scale: str = "none"
    base: str = "adamw"
    rate: float = 1e-3
    decay: float = 0.0
    iterations: int = 5000
    seed: int = 0
    held_out: bool = True
    rest_rate: float = 1e-3
    rest_decay: float = 0.1
    warm_up: int = 100
    clip: float = 1.0
    batch: int = 64
    every: int = 250
    train_share: float = 0.9
    vocabulary: str = "characters"
    layers: int = 6
    width: int = 384
    heads: int = 6
    intermediate: int = 1024
    context: int = 256
    dropout: float = 0.2

    def __post_init__(self) -> None:
        known = ("parq", "straight-through-decay", *METHODS)
        scales = ("none",) if self.method == "full-precision" else tuple(SCALES)
        for field, allowed in (("method", known), ("scale", scales), ("base", BASES)):
            if getattr(self, field) not in allowed:
                raise ValueError(
                    f"{field} must be one of {', '.join(allowed)} for {self.method}, got {getattr(self, field)!r}"
                )

    @property
    def name(self) -> str:
        """A name that no other recipe has."""
        plain = json.dumps(dataclasses.asdict(self), sort_keys=True)
        digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
        measured = "held-out" if self.held_out else "validation"
        settings = f"{self.method}-{self.scale}-{self.base}-{self.rate:g}-{self.iterations}"
        return f"{settings}-{measured}-s{self.seed}-{digest}"

    def rate_factor(self, iteration: int) -> float:
        """Return the share of the learning rates at an iteration: up along a line, then down to 0 along a cosine."""
        if iteration < self.warm_up:
            return (iteration + 1) / (self.warm_up + 1)
        done = (iteration - self.warm_up) / max(1, self.iterations - self.warm_up)
        return 0.5 * (1 + math.cos(math.pi * done))


def treatment_of(recipe: Recipe) -> Treatment:
    """Return the estimator, its own base and the averaging of gradients."""
    plan = Plan.of_steps(recipe.iterations, EXAMPLES)
    if recipe.method == "parq":
        schedule = Sigmoid(start=1.0, stop=0.0, length=recipe.iterations)
        return Treatment(PARQ(schedule, SCALES[recipe.scale]), plan.adam(1e-3))
    if recipe.method == "straight-through":
        return Treatment(Scaled(StraightThrough(), SCALES[recipe.scale]), plan.adam(1e-3))
    treatment = METHODS[recipe.method.removesuffix("-decay")].treat(plan)
    if not treatment.estimator.binary:
        return treatment
    return dataclasses.replace(treatment, estimator=Scaled(treatment.estimator, SCALES[recipe.scale]))


@dataclass
class Optimizers:
    """The optimizer of the linear layers, that of all other parameters, and their rates.

    Args:
        latents: Trains the linear layers.
        rest: Trains embeddings and norms.
        rates: The highest rate of each.
    """

    latents: adaste.LatentOptimizer
    rest: Optimizer
    rates: tuple[float, float]

    def set_rates(self, factor: float) -> None:
        """Multiply the highest rates by a factor, on the device where a CUDA graph reads them there."""
        for optimizer, rate in zip((self.latents, self.rest), self.rates, strict=True):
            for group in optimizer.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate * factor)
                else:
                    group["lr"] = rate * factor

    def step(self) -> None:
        """Make a step of both, and forget the gradients."""
        for optimizer in (self.latents, self.rest):
            optimizer.step()
            optimizer.zero_grad()


def optimizers_of(network: nn.Module, recipe: Recipe) -> Optimizers:
    """Return the optimizers of a network, for steps that a CUDA graph can hold where it is on a GPU."""
    binary, rest = adaste.binary_weights(network)
    on_gpu = next(network.parameters()).is_cuda
    treatment = treatment_of(recipe)
    base, rate = _base_of(recipe, treatment, on_gpu)
    latents = adaste.LatentOptimizer(
        [binary], base=base, estimator=treatment.estimator, averaging=treatment.averaging, capturable=on_gpu
    )
    parameters = [parameter for _, parameter in rest["params"]]
    groups = [
        {"params": [each for each in parameters if each.ndim > 1], "weight_decay": recipe.rest_decay},
        {"params": [each for each in parameters if each.ndim < 2], "weight_decay": 0.0},
    ]
    first = torch.tensor(recipe.rest_rate, device=parameters[0].device) if on_gpu else recipe.rest_rate
    return Optimizers(latents, AdamW(groups, lr=first, betas=BETAS, capturable=on_gpu), (rate, recipe.rest_rate))


def _base_of(recipe: Recipe, treatment: Treatment, on_gpu: bool) -> tuple[Callable[[Any], Optimizer], float]:
    if recipe.base == "muon":
        return partial(Muon, lr=recipe.rate, weight_decay=recipe.decay), recipe.rate
    if recipe.base == "adamw":
        settings = {"lr": recipe.rate, "betas": BETAS, "weight_decay": recipe.decay, "capturable": on_gpu}
        return partial(AdamW, **settings), recipe.rate
    made = treatment.base.make()
    return partial(made, **_on_device(made, on_gpu)), recipe.rate * treatment.base.first_lr


def _on_device(made: Any, on_gpu: bool) -> dict[str, bool]:
    """Return the setting with which an optimizer of torch can be held by a CUDA graph."""
    if not on_gpu:
        return {}
    return {"fused": True} if made.func is SGD else {"capturable": True}


class Muon(Optimizer):
    """torch.optim.Muon for all matrices of a shape at once, in a form that a CUDA graph can hold.

        buf <- momentum buf + (1 - momentum) g
        theta <- (1 - lr decay) theta - lr sqrt(max(1, rows / columns)) orthogonal((1 - momentum) g + momentum buf)

    Args:
        params: Matrices.
        lr: The learning rate, a number or a tensor.
        weight_decay: As of AdamW.
        momentum: The share of the average that is kept.
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, weight_decay: float = 0.0, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Make a step of all parameters that have a gradient."""
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike.setdefault(parameter.shape, []).append(parameter)
            for shape, same in alike.items():
                self._step(group, shape, same)

    def _step(self, group: dict[str, Any], shape: torch.Size, same: list[Tensor]) -> None:
        kept, lr = group["momentum"], group["lr"]
        grads = [each.grad for each in same]
        for each in same:
            self.state[each].setdefault("momentum_buffer", torch.zeros_like(each))
        buffers = [self.state[each]["momentum_buffer"] for each in same]
        torch._foreach_lerp_(buffers, grads, 1 - kept)
        update = torch.stack(torch._foreach_lerp(grads, buffers, kept))
        update = orthogonal(update).to(same[0].dtype) * (lr * math.sqrt(max(1, shape[0] / shape[1])))
        if group["weight_decay"]:
            torch._foreach_mul_(same, 1 - lr * group["weight_decay"])
        torch._foreach_sub_(same, list(update.unbind()))


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """Return nearly orthogonal matrices with the same singular vectors, by Newton-Schulz in bfloat16 (as torch has it).

    x <- a x + (b x x' + c (x x')^2) x, from x of norm 1.
    """
    a, b, c = 3.4445, -4.775, 2.0315
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
