"""The classes a recipe may be made of: the one place where names in JSON become objects.

They are ours and those that installed packages bring as entry points of the groups `adaste.estimators` and
`adaste.networks`, under the name of the class (docs/plugins.md).
"""

from functools import partial
from types import MappingProxyType
from typing import Any

from adaste import estimators, models
from adaste._util.checks import add_article
from adaste._util.packages import Registry
from adaste.data import augment
from adaste.estimators import maps, noise, schedules
from adaste.recipes import bases
from adaste.recipes.distillation import Distillation

_CLASSES: tuple[type, ...] = (
    *(
        schedules.Constant,
        schedules.Linear,
        schedules.Geometric,
        schedules.Cosine,
        schedules.Sigmoid,
        schedules.Triangle,
    ),
    schedules.Steps,
    *(noise.Noise, maps.Tanh, maps.HardTanh, maps.DoubleWell),
    *(estimators.AdaSTE, estimators.PrintedSlope, estimators.ExactSlope, estimators.ReleasedSlope),
    *(estimators.FiniteDifference, estimators.FixedSpacing, estimators.AdaptiveSpacing),
    *(estimators.BinaryConnect, estimators.StraightThrough, estimators.FullPrecision),
    *(estimators.MirrorDescent, estimators.TanhMirror, estimators.SoftmaxMirror, estimators.PMF, estimators.ProxQuant),
    *(estimators.BayesBiNN, estimators.Bop, estimators.PARQ, estimators.BinaryRelax),
    *(estimators.Scaled, estimators.Unit, estimators.FanIn, estimators.ChannelMean, estimators.GroupMean),
    *(models.ResNet, models.VGG, models.MLP),
    *(bases.SGD, bases.Adam, bases.AdamW, bases.RMSprop),
    *(augment.Crop, augment.CenterCrop, augment.Flip, augment.RandomResizedCrop),
    *(augment.Cutout, augment.Mixup, augment.CutMix, augment.MixupOrCutMix),
    Distillation,
)


def _check_class(kind: type, name: str, found: Any) -> str:
    """Return why recipes cannot hold a class: it must be read back from its name and its fields."""
    if not isinstance(found, type) or not issubclass(found, kind):
        return f"it must be a class derived from {kind.__module__}.{kind.__name__}, got {found!r}"
    if found.__name__ != name:
        return f"the entry point must have the name of its class, {found.__name__}"
    own = vars(found).get("__dataclass_params__")  # a class without the decorator has the fields of its base alone
    if own is None or not own.frozen:
        return f"{name} must be a frozen dataclass, whose fields are its settings: put @dataclass(frozen=True) above it"
    missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
    if missing:
        return f"{add_article(name)} cannot be made, it lacks {missing}"
    return ""


ADMITTED: Registry[type] = Registry(
    MappingProxyType({kind.__name__: kind for kind in _CLASSES}),
    {
        "adaste.estimators": partial(_check_class, estimators.Estimator),
        "adaste.networks": partial(_check_class, models.Network),
    },
)
"""Classes by name."""
