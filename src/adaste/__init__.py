"""Train neural networks whose weights are single bits.

optimizer, scheduler = adaste.setup(model, steps=epochs * len(loader))
loss.backward(); optimizer.step(); scheduler.step(); optimizer.zero_grad()
with optimizer.binarized(model, statistics_from=loader): evaluate(model)
"""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; at run time a name is imported when it is first used, see __getattr__
    from adaste.estimators import (
        PARQ,
        PMF,
        AdaptiveSpacing,
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
        PrintedSlope,
        ProxQuant,
        ReleasedSlope,
        Scaled,
        SoftmaxMirror,
        StraightThrough,
        TanhMirror,
        Unit,
    )
    from adaste.estimators.base import OutputAxis
    from adaste.estimators.maps import DoubleWell, HardTanh, Tanh, sign
    from adaste.estimators.noise import Noise
    from adaste.estimators.schedules import Constant, Cosine, Geometric, Linear, Sigmoid, Steps, Triangle, at_step
    from adaste.optim.guards import NonFiniteGradientError
    from adaste.optim.latent_optimizer import LatentOptimizer
    from adaste.optim.norm_statistics import reestimate_norms
    from adaste.optim.partition import Partition, binary_weights
    from adaste.optim.summary import inspect_model, summary
    from adaste.packed.gguf import export_gguf
    from adaste.packed.pack import pack
    from adaste.packed.state import load_into, save_packed
    from adaste.packed.torch_module import load_packed
    from adaste.recipes.setup import setup

__version__ = "0.1.0"

__all__ = [
    "PARQ",
    "PMF",
    "AdaSTE",
    "AdaptiveSpacing",
    "BayesBiNN",
    "BinaryConnect",
    "BinaryRelax",
    "Bop",
    "ChannelMean",
    "Constant",
    "Cosine",
    "DoubleWell",
    "Estimator",
    "ExactSlope",
    "FanIn",
    "FiniteDifference",
    "FixedSpacing",
    "FullPrecision",
    "Geometric",
    "GroupMean",
    "HardTanh",
    "LatentOptimizer",
    "Linear",
    "MirrorDescent",
    "Noise",
    "NonFiniteGradientError",
    "OutputAxis",
    "Partition",
    "PrintedSlope",
    "ProxQuant",
    "ReleasedSlope",
    "Scaled",
    "Sigmoid",
    "SoftmaxMirror",
    "Steps",
    "StraightThrough",
    "Tanh",
    "TanhMirror",
    "Triangle",
    "Unit",
    "at_step",
    "binary_weights",
    "export_gguf",
    "inspect_model",
    "load_into",
    "load_packed",
    "pack",
    "reestimate_norms",
    "save_packed",
    "setup",
    "sign",
    "summary",
]

_HOMES = MappingProxyType(
    {
        "DoubleWell": "estimators.maps",
        "HardTanh": "estimators.maps",
        "Tanh": "estimators.maps",
        "sign": "estimators.maps",
        "Noise": "estimators.noise",
        "OutputAxis": "estimators.base",
        "Constant": "estimators.schedules",
        "Cosine": "estimators.schedules",
        "Geometric": "estimators.schedules",
        "Linear": "estimators.schedules",
        "Sigmoid": "estimators.schedules",
        "Steps": "estimators.schedules",
        "Triangle": "estimators.schedules",
        "at_step": "estimators.schedules",
        "NonFiniteGradientError": "optim.guards",
        "LatentOptimizer": "optim.latent_optimizer",
        "reestimate_norms": "optim.norm_statistics",
        "Partition": "optim.partition",
        "binary_weights": "optim.partition",
        "inspect_model": "optim.summary",
        "summary": "optim.summary",
        "export_gguf": "packed.gguf",
        "load_into": "packed",
        "load_packed": "packed",
        "pack": "packed",
        "save_packed": "packed",
        "setup": "recipes.setup",
    }
)
"""The module of a public name; all others are in `estimators`."""


def __getattr__(name: str) -> Any:
    """The public names, imported when one of them is first used: `adaste --help` need not wait for torch."""
    if name in __all__:
        return getattr(import_module(f"adaste.{_HOMES.get(name, 'estimators')}"), name)
    raise AttributeError(f"module 'adaste' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
