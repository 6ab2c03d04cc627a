"""The classes a recipe may be made of: the one place where names in JSON become objects."""

from types import MappingProxyType

from adaste import estimators, models
from adaste.data import augment
from adaste.estimators import maps, noise, schedules
from adaste.recipes import bases

_CLASSES: tuple[type, ...] = (
    *(schedules.Constant, schedules.Linear, schedules.Geometric, schedules.Cosine, schedules.Sigmoid, schedules.Steps),
    *(noise.Noise, maps.Tanh, maps.HardTanh, maps.DoubleWell),
    *(estimators.AdaSTE, estimators.PrintedSlope, estimators.ExactSlope, estimators.ReleasedSlope),
    *(estimators.FiniteDifference, estimators.FixedSpacing, estimators.AdaptiveSpacing),
    *(estimators.BinaryConnect, estimators.StraightThrough, estimators.FullPrecision),
    *(estimators.MirrorDescent, estimators.TanhMirror, estimators.SoftmaxMirror, estimators.PMF, estimators.ProxQuant),
    *(estimators.BayesBiNN, estimators.Bop, estimators.PARQ, estimators.BinaryRelax),
    *(estimators.Scaled, estimators.Unit, estimators.FanIn, estimators.ChannelMean),
    *(models.ResNet, models.VGG, models.MLP),
    *(bases.SGD, bases.Adam, bases.AdamW, bases.RMSprop),
    *(augment.Crop, augment.CenterCrop, augment.Flip, augment.RandomResizedCrop),
    *(augment.Cutout, augment.Mixup, augment.CutMix),
)

ADMITTED = MappingProxyType({kind.__name__: kind for kind in _CLASSES})
