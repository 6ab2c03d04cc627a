"""The names a user meets first, all at `adaste.<name>`."""

from adaste.estimators import *  # noqa: F403
from adaste.estimators import __all__ as _estimators
from adaste.inspection import inspect_model, summary
from adaste.maps import DoubleWell, HardTanh, Tanh, sign
from adaste.noise import Noise
from adaste.norm_statistics import reestimate_norms
from adaste.optimizer.guard import NonFiniteGradientError
from adaste.optimizer.latent_optimizer import LatentOptimizer
from adaste.output_axis import OutputAxis
from adaste.own_loop import setup
from adaste.packed import load_packed, pack
from adaste.schedules import Constant, Cosine, Geometric, Linear, Sigmoid, Steps, at_step
from adaste.weights import Partition, binary_weights

__all__ = [
    *_estimators,
    "Constant",
    "Cosine",
    "DoubleWell",
    "Geometric",
    "HardTanh",
    "LatentOptimizer",
    "Linear",
    "Noise",
    "NonFiniteGradientError",
    "OutputAxis",
    "Partition",
    "Sigmoid",
    "Steps",
    "Tanh",
    "at_step",
    "binary_weights",
    "inspect_model",
    "load_packed",
    "pack",
    "reestimate_norms",
    "setup",
    "sign",
    "summary",
]
