"""What the scripts of md-bnn and pmf set for each network: tuned numbers, by place."""

import math
from dataclasses import dataclass
from types import MappingProxyType

from adaste.estimators.schedules import Geometric

SCRIPT_ITERATIONS = 100_000
"""Of every md-bnn and pmf script."""

PMF_BETA_MOST = 1e4
"""Where beta stops to grow in the code of pmf. In md-bnn it is 1e35, which no script reaches."""


PMF_DECAY = 1e-4
"""Weight decay of pmf's script; its list of tuned numbers has none."""


def rounded(number: float) -> float:
    """To six digits: the last ones of a power differ between machines, and with them a recipe's digest would."""
    return float(f"{number:.6g}")


@dataclass(frozen=True)
class Tuned:
    """What a script of md-bnn or pmf sets: rate, its factor at a drop, that of beta, and the iterations between."""

    rate: float
    drop: float
    growth: float
    every: int

    def beta(self, epochs: int, most: float = math.inf) -> Geometric:
        """From 1, multiplied by the same factor until the run ends or beta is at its most."""
        stop = self.growth ** (SCRIPT_ITERATIONS / self.every)
        share = min(1.0, math.log(most) / math.log(stop))
        return Geometric(start=1.0, stop=rounded(min(stop, most)), length=max(1, round(share * epochs)))


MD_TANH_S = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.3, 1.02, 200),
        "cifar10-vgg16": Tuned(1e-3, 0.2, 1.2, 2000),
        "cifar100-resnet18": Tuned(1e-3, 0.2, 1.2, 500),
        "cifar100-vgg16": Tuned(1e-3, 0.5, 1.05, 500),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.1, 1.2, 500),
    }
)
MD_SOFTMAX_S = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.3, 1.02, 200),
        "cifar10-vgg16": Tuned(1e-3, 0.3, 1.2, 2000),
        "cifar100-resnet18": Tuned(1e-3, 0.2, 1.1, 200),
        "cifar100-vgg16": Tuned(1e-4, 0.2, 1.2, 500),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.1, 1.02, 100),
    }
)
MD_TANH = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.3, 1.01, 100),
        "cifar10-vgg16": Tuned(1e-3, 0.3, 1.1, 1000),
        "cifar100-resnet18": Tuned(1e-3, 0.3, 1.05, 500),
        "cifar100-vgg16": Tuned(1e-3, 0.3, 1.05, 500),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.5, 1.2, 2000),
    }
)
MD_SOFTMAX = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.2, 1.02, 200),
        "cifar10-vgg16": Tuned(1e-2, 0.2, 1.05, 500),
        "cifar100-resnet18": Tuned(1e-3, 0.2, 1.05, 500),
        "cifar100-vgg16": Tuned(1e-4, 0.3, 1.01, 100),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.2, 1.02, 200),
    }
)
PMF_SCRIPTS = MappingProxyType(
    {
        "cifar10-resnet18": Tuned(1e-3, 0.3, 1.1, 1000),
        "cifar10-vgg16": Tuned(1e-3, 0.5, 1.05, 500),
        "cifar100-resnet18": Tuned(1e-3, 0.3, 1.01, 100),
        "cifar100-vgg16": Tuned(1e-4, 0.5, 1.02, 200),
        "tiny-imagenet-resnet18": Tuned(1e-3, 0.5, 1.01, 100),
    }
)
