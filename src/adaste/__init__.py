"""Training neural networks whose weights are single bits.

weights = adaste.binary_weights(model)
optimizer = adaste.LatentOptimizer(weights, base=partial(torch.optim.SGD, lr=0.1), estimator=adaste.AdaSTE())
loss.backward(); optimizer.step(); optimizer.zero_grad()
with optimizer.binarized(): evaluate(model)
"""

from adaste.estimators import *  # noqa: F403
from adaste.estimators import __all__ as _estimators
from adaste.guard import NonFiniteGradientError
from adaste.maps import DoubleWell, HardTanh, Tanh, sign
from adaste.noise import Noise
from adaste.optim import LatentOptimizer
from adaste.schedules import Constant, Cosine, Geometric, Linear, Sigmoid, Steps, at_step
from adaste.summary import inspect_model, summary
from adaste.weights import Partition, binary_weights

__version__ = "0.1.0"

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
    "Partition",
    "Sigmoid",
    "Steps",
    "Tanh",
    "at_step",
    "binary_weights",
    "inspect_model",
    "sign",
    "summary",
]
