"""A LatentOptimizer as most tests of it need one, and the base optimizers it is held against."""

from functools import partial

import pytest
import torch
from torch import nn

import adaste
from adaste import BinaryConnect, LatentOptimizer

SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)

BASES = {
    "SGD": SGD,
    "SGD, Nesterov and decay": partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "SGD, dampened": partial(torch.optim.SGD, lr=0.1, momentum=0.9, dampening=0.9),
    "SGD, fused": partial(torch.optim.SGD, lr=0.1, momentum=0.9, fused=True),
    "SGD, foreach, maximize": partial(torch.optim.SGD, lr=0.1, foreach=True, maximize=True),
    "Adam": partial(torch.optim.Adam, lr=0.01, weight_decay=1e-2),
    "Adam, amsgrad": partial(torch.optim.Adam, lr=0.01, amsgrad=True),
    "Adam, fused": partial(torch.optim.Adam, lr=0.01, fused=True),
    "AdamW": partial(torch.optim.AdamW, lr=0.01, weight_decay=0.1),
    "RMSprop": partial(torch.optim.RMSprop, lr=0.01),
    "RMSprop, centered, momentum": partial(torch.optim.RMSprop, lr=0.01, centered=True, momentum=0.9),
}
every_base = pytest.mark.parametrize("base", list(BASES.values()), ids=list(BASES))


def make(model: nn.Module, estimator: adaste.Estimator | None = None, **options) -> LatentOptimizer:
    settings = {"base": SGD, "estimator": estimator or BinaryConnect(), **options}
    return LatentOptimizer(adaste.binary_weights(model), **settings)
