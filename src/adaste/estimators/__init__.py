"""The methods, one per file; `base` says what a method is."""

from adaste.estimators.adaste import (
    AdaptiveSpacing,
    AdaSTE,
    ExactSlope,
    FiniteDifference,
    FixedSpacing,
    PrintedSlope,
    ReleasedSlope,
)
from adaste.estimators.base import Estimator, FullPrecision
from adaste.estimators.bayes_binn import BayesBiNN
from adaste.estimators.bop import Bop
from adaste.estimators.mirror_descent import MirrorDescent, SoftmaxMirror, TanhMirror
from adaste.estimators.parq import PARQ, BinaryRelax
from adaste.estimators.pmf import PMF
from adaste.estimators.prox_quant import ProxQuant
from adaste.estimators.scaled import ChannelMean, FanIn, GroupMean, Scaled, Unit
from adaste.estimators.straight_through import BinaryConnect, StraightThrough

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
    "Estimator",
    "ExactSlope",
    "FanIn",
    "FiniteDifference",
    "FixedSpacing",
    "FullPrecision",
    "GroupMean",
    "MirrorDescent",
    "PrintedSlope",
    "ProxQuant",
    "ReleasedSlope",
    "Scaled",
    "SoftmaxMirror",
    "StraightThrough",
    "TanhMirror",
    "Unit",
]
