"""Training neural networks whose weights are single bits.

    weights = adaste.binary_weights(model)
    optimizer = adaste.LatentOptimizer(weights, base=partial(torch.optim.SGD, lr=0.1), estimator=adaste.AdaSTE())
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    with optimizer.binarized(model, statistics_from=loader): evaluate(model)

All public names are listed in `adaste.public`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adaste.public import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The public names, imported when one of them is first used: `adaste --help` need not wait for torch."""
    if name == "__all__" or not name.startswith("_"):
        public = import_module("adaste.public")
        if name == "__all__" or name in public.__all__:
            return getattr(public, name)
    raise AttributeError(f"module 'adaste' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *import_module("adaste.public").__all__])
