"""The one table of all methods. A new method is a new row, and every sentence of the contract holds for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import adaste
from adaste.estimators import (
    PARQ,
    PMF,
    AdaSTE,
    BayesBiNN,
    BinaryConnect,
    BinaryRelax,
    Bop,
    ChannelMean,
    Estimator,
    ExactSlope,
    FanIn,
    FiniteDifference,
    FixedSpacing,
    FullPrecision,
    GroupMean,
    MirrorDescent,
    ProxQuant,
    ReleasedSlope,
    Scaled,
    SoftmaxMirror,
    StraightThrough,
)
from adaste.estimators.schedules import Geometric, Linear, Sigmoid


@dataclass(frozen=True)
class Method:
    """A method with settings under which it learns the small problem of the contract in a few hundred steps."""

    estimator: Estimator
    base: Callable[..., torch.optim.Optimizer]
    averaging: float = 0.0

    def optimizer(self, model: nn.Module, **options: Any) -> adaste.LatentOptimizer:
        weights = adaste.binary_weights(model)
        return adaste.LatentOptimizer(
            weights, base=self.base, estimator=self.estimator, averaging=self.averaging, **options
        )


STEPS = 300
SGD = partial(torch.optim.SGD, lr=0.5, momentum=0.9)
ADAM = partial(torch.optim.Adam, lr=0.01)
ANNEALED = Geometric(start=1.0, stop=100.0, length=STEPS)
SHARPENED = Geometric(start=1.0, stop=300.0, length=STEPS)

METHODS = {
    "full precision": Method(FullPrecision(), SGD),
    "BinaryConnect": Method(BinaryConnect(), ADAM),
    "BinaryConnect, stochastic": Method(BinaryConnect(noise=adaste.Noise(seed=5)), ADAM),
    "straight-through": Method(StraightThrough(), ADAM),
    "straight-through, decay": Method(StraightThrough(decay=1.0), partial(torch.optim.SGD, lr=0.03)),
    "straight-through, window": Method(StraightThrough(window=1.0), partial(torch.optim.AdamW, lr=0.01)),
    "straight-through, stochastic": Method(StraightThrough(noise=adaste.Noise(seed=6)), ADAM),
    "general form, tanh": Method(
        FiniteDifference(adaste.Tanh(Geometric(start=1.0, stop=0.01, length=STEPS)), FixedSpacing(0.1)), ADAM
    ),
    "general form, hard tanh": Method(FiniteDifference(adaste.HardTanh(0.05), adaste.AdaptiveSpacing()), ADAM, 0.9),
    "general form, double well": Method(FiniteDifference(adaste.DoubleWell(mu=50.0), FixedSpacing(5.0)), ADAM, 0.9),
    "AdaSTE": Method(AdaSTE(), partial(torch.optim.SGD, lr=20.0), 0.97),
    "AdaSTE, annealed": Method(AdaSTE(mu=ANNEALED), partial(torch.optim.SGD, lr=20.0), 0.97),
    "AdaSTE, exact": Method(AdaSTE(mu=ANNEALED, slope=ExactSlope()), partial(torch.optim.SGD, lr=20.0), 0.97),
    "AdaSTE, steepest": Method(
        AdaSTE(mu=ANNEALED, slope=ExactSlope(steepest=True)), partial(torch.optim.SGD, lr=20.0), 0.97
    ),
    "AdaSTE, released": Method(
        AdaSTE(slope=ReleasedSlope(), unit=1e-7, start=1e-6),
        partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.03),
    ),
    "AdaSTE, released and annealed": Method(
        AdaSTE(mu=ANNEALED, slope=ReleasedSlope(), unit=1e-7, start=1e-6),
        partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.03),
    ),
    "ProxQuant": Method(ProxQuant(strength=Linear(start=0.0, stop=0.02, length=STEPS)), ADAM),
    "PMF": Method(PMF(beta=SHARPENED), ADAM),
    "PMF, released": Method(PMF(beta=SHARPENED, released=True), ADAM),
    "PMF, original": Method(PMF(beta=SHARPENED, original=True), ADAM),
    "MD-tanh-s": Method(MirrorDescent(beta=SHARPENED), ADAM),
    "MD-softmax-s": Method(MirrorDescent(SoftmaxMirror(), beta=SHARPENED), ADAM),
    "MD-tanh": Method(MirrorDescent(stable=False, beta=Geometric(start=1.0, stop=20.0, length=STEPS)), ADAM),
    "MD-softmax": Method(
        MirrorDescent(SoftmaxMirror(), stable=False, beta=Geometric(start=1.0, stop=20.0, length=STEPS)), ADAM
    ),
    "BayesBiNN": Method(BayesBiNN(train_size=10_000.0, noise=adaste.Noise(seed=7)), partial(torch.optim.SGD, lr=3e-2)),
    "Bop": Method(Bop(threshold=1e-6), partial(torch.optim.SGD, lr=0.03)),
    "PARQ": Method(PARQ(rho=Sigmoid(start=1.0, stop=0.0, length=STEPS)), ADAM),
    "BinaryRelax": Method(BinaryRelax(share=Linear(start=0.0, stop=1.0, length=STEPS)), ADAM),
    "scaled by fan-in": Method(Scaled(StraightThrough(), FanIn()), ADAM),
    "scaled by channel": Method(Scaled(AdaSTE(), ChannelMean()), partial(torch.optim.SGD, lr=20.0), 0.97),
    "scaled by group": Method(Scaled(StraightThrough(), GroupMean(5)), ADAM),
    "scaled by group, rounded": Method(Scaled(BinaryConnect(), GroupMean(5, half_precision=True)), ADAM),
    "PARQ, scaled by group": Method(PARQ(Sigmoid(start=1.0, stop=0.0, length=STEPS), GroupMean(5)), ADAM),
    "MD-tanh, scaled by channel": Method(
        Scaled(
            MirrorDescent(stable=False, beta=Geometric(start=1.0, stop=20.0, length=STEPS), absorbing=True),
            ChannelMean(),
        ),
        ADAM,
    ),
}

every_method = pytest.mark.parametrize("method", list(METHODS.values()), ids=list(METHODS))


def small_model(seed: int = 0) -> nn.Module:
    """Two layers without BatchNorm, so that a batch is exactly the mean of its parts."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3))


def batch(step: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 + step)
    return torch.randn(16, 12, generator=generator, dtype=dtype), torch.randint(0, 3, (16,), generator=generator)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, dtype: torch.dtype = torch.float32) -> None:
    for step in steps:
        inputs, labels = batch(step, dtype)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def latents(optimizer: adaste.LatentOptimizer) -> list[torch.Tensor]:
    return [optimizer.state[weight]["latent"] for group in optimizer.param_groups for weight in group["params"]]
