"""Base optimizers as frozen descriptions: the settings of torch's own, under the same names, checked when made."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.optim import Optimizer

from adaste._util.checks import require
from adaste._util.serial import require_types
from adaste.estimators.schedules import Schedule

MakeOptimizer = Callable[[list[dict[str, Any]]], Optimizer]
"""The type of the `base` of LatentOptimizer."""


@dataclass(frozen=True)
class Base(ABC):
    """A kind of torch optimizer with its settings.

    Args:
        lr: May follow a schedule: whoever trains writes its value into the parameter groups before every step.
    """

    lr: float | Schedule

    def __post_init__(self) -> None:
        require_types(self)
        require("lr", self.lr, least=0)

    @abstractmethod
    def make(self) -> MakeOptimizer:
        """Return the function that makes the optimizer of parameter groups, with the first step's learning rate."""

    @property
    def first_lr(self) -> float:
        """The learning rate of the first step."""
        return rate_at(self.lr, 0)


@dataclass(frozen=True)
class SGD(Base):
    """torch.optim.SGD."""

    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require("momentum", self.momentum, least=0)
        require("weight_decay", self.weight_decay, least=0)
        require("dampening", self.dampening)
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ValueError(
                "nesterov needs momentum above 0 and no dampening, "
                f"got momentum {self.momentum} and dampening {self.dampening}"
            )

    def make(self) -> MakeOptimizer:
        return partial(
            torch.optim.SGD,
            lr=self.first_lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
            dampening=self.dampening,
        )


@dataclass(frozen=True)
class Adam(Base):
    """torch.optim.Adam: its weight decay is added to the gradient."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_adam(self.betas, self.eps, self.weight_decay)

    def make(self) -> MakeOptimizer:
        return partial(
            torch.optim.Adam, lr=self.first_lr, betas=_floats(self.betas), eps=self.eps, weight_decay=self.weight_decay
        )


@dataclass(frozen=True)
class AdamW(Base):
    """torch.optim.AdamW: its weight decay shrinks the latents themselves."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_adam(self.betas, self.eps, self.weight_decay)

    def make(self) -> MakeOptimizer:
        return partial(
            torch.optim.AdamW, lr=self.first_lr, betas=_floats(self.betas), eps=self.eps, weight_decay=self.weight_decay
        )


@dataclass(frozen=True)
class RMSprop(Base):
    """torch.optim.RMSprop."""

    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require("alpha", self.alpha, least=0, below=1)
        require("eps", self.eps, least=0)
        require("weight_decay", self.weight_decay, least=0)
        require("momentum", self.momentum, least=0)

    def make(self) -> MakeOptimizer:
        return partial(
            torch.optim.RMSprop,
            lr=self.first_lr,
            alpha=self.alpha,
            eps=self.eps,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            centered=self.centered,
        )


def rate_at(rate: float | Schedule, step: int) -> float:
    """Return a learning rate at one step."""
    return float(rate.at(step) if isinstance(rate, Schedule) else rate)


def _floats(betas: tuple[float, float]) -> tuple[float, float]:
    """Return both as floats: torch takes no whole numbers here, though 0 is a rate like others."""
    return float(betas[0]), float(betas[1])


def _check_adam(betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    for beta in betas:
        require("each of the betas", beta, least=0, below=1)
    require("eps", eps, least=0)
    require("weight_decay", weight_decay, least=0)
