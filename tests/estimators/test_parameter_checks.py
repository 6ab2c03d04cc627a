"""Every bad parameter is refused when an estimator is made, with its name and its value."""

import dataclasses
import math
from functools import partial

import pytest

import adaste
from support.estimators import refused

NOT_NUMBERS = (math.nan, "1", None, True, [1.0])
POSITIVE = (0.0, -1.0, math.inf, *NOT_NUMBERS)
NOT_NEGATIVE = (-1e-9, math.inf, *NOT_NUMBERS)
SHARE = (-0.1, 1.1, *NOT_NUMBERS)
OPTIONAL_POSITIVE = tuple(bad for bad in POSITIVE if bad is not None)

CHECKS = {
    (adaste.AdaSTE, "mu"): POSITIVE,
    (adaste.AdaSTE, "alpha"): (0.0, 1.0, -0.5, 1.5, math.inf, *NOT_NUMBERS),
    (adaste.AdaSTE, "unit"): POSITIVE,
    (adaste.AdaSTE, "start"): OPTIONAL_POSITIVE,
    (adaste.ReleasedSlope, "threshold"): NOT_NEGATIVE,
    (adaste.FixedSpacing, "beta"): POSITIVE,
    (adaste.AdaptiveSpacing, "reach"): POSITIVE,
    (adaste.StraightThrough, "decay"): NOT_NEGATIVE,
    (adaste.StraightThrough, "window"): OPTIONAL_POSITIVE,
    (adaste.StraightThrough, "start"): OPTIONAL_POSITIVE,
    (adaste.ProxQuant, "strength"): NOT_NEGATIVE,
    (adaste.ProxQuant, "frozen"): SHARE,
    (adaste.PMF, "beta"): POSITIVE,
    (adaste.MirrorDescent, "beta"): POSITIVE,
    (adaste.BayesBiNN, "train_size"): POSITIVE,
    (partial(adaste.BayesBiNN, 100), "temperature"): POSITIVE,
    (partial(adaste.BayesBiNN, 100), "prior"): (math.inf, -math.inf, *NOT_NUMBERS),
    (partial(adaste.BayesBiNN, 100), "start"): OPTIONAL_POSITIVE,
    (adaste.Bop, "threshold"): NOT_NEGATIVE,
    (adaste.PARQ, "rho"): SHARE,
    (adaste.BinaryRelax, "share"): SHARE,
    (adaste.Noise, "seed"): (-1, 1.5, *NOT_NUMBERS),
}


def label(value: object) -> str:
    return getattr(getattr(value, "func", value), "__name__", str(value))


@pytest.mark.parametrize(
    ("make", "name", "bad"),
    [(make, name, bad) for (make, name), values in CHECKS.items() for bad in values],
    ids=label,
)
def test_bad_value_is_refused_with_its_name_and_value(make, name, bad):
    refused(lambda: make(**{name: bad}), name=name, value=bad)


SCHEDULED = [
    (adaste.AdaSTE, "mu"),
    (adaste.FixedSpacing, "beta"),
    (adaste.PMF, "beta"),
    (adaste.MirrorDescent, "beta"),
    (partial(adaste.BayesBiNN, 100), "temperature"),
]


@pytest.mark.parametrize(("make", "name"), SCHEDULED, ids=label)
@pytest.mark.parametrize(
    "schedule",
    [
        adaste.Linear(start=1.0, stop=0.0, length=10),
        adaste.Linear(start=-2.0, stop=1.0, length=10),
        adaste.Cosine(start=1.0, stop=-1e-9, length=10),
        adaste.Steps(values=(1.0, 0.0, 2.0), ticks=(3, 5)),
        adaste.Constant(value=0.0),
    ],
    ids=label,
)
def test_schedule_that_touches_zero_anywhere_is_refused_where_a_positive_value_is_needed(make, name, schedule):
    refused(lambda: make(**{name: schedule}), name=name, value=schedule)


@pytest.mark.parametrize(("make", "name"), SCHEDULED, ids=label)
def test_schedule_that_stays_positive_is_accepted(make, name):
    schedule = adaste.Geometric(start=1.0, stop=1e-6, length=10)
    made = make(**{name: schedule})
    assert getattr(made, name) is schedule
    assert getattr(adaste.at_step(made, 10), name) == 1e-6


@pytest.mark.parametrize(
    ("make", "name"),
    [(adaste.PARQ, "rho"), (adaste.BinaryRelax, "share"), (adaste.ProxQuant, "frozen")],
    ids=label,
)
def test_schedule_that_leaves_zero_to_one_is_refused_where_a_share_is_needed(make, name):
    for schedule in (adaste.Linear(start=0.0, stop=1.01, length=5), adaste.Linear(start=-0.01, stop=1.0, length=5)):
        refused(lambda schedule=schedule: make(**{name: schedule}), name=name, value=schedule)
    assert make(**{name: adaste.Linear(start=0.0, stop=1.0, length=5)})


def test_message_says_what_is_allowed_and_why():
    with pytest.raises(ValueError, match=r"alpha must be above 0 and below 1 \(.*1/alpha.*\), got 1\.5"):
        adaste.AdaSTE(alpha=1.5)


def test_what_is_left_out_is_what_the_method_has_by_itself():
    assert adaste.HardTanh() == adaste.HardTanh(1.0)
    assert adaste.Tanh() == adaste.Tanh(1.0)
    assert adaste.FixedSpacing() == adaste.FixedSpacing(1.0)
    assert adaste.AdaptiveSpacing() == adaste.AdaptiveSpacing(2.0)
    assert adaste.PARQ() == adaste.PARQ(1.0, adaste.ChannelMean())


ESTIMATORS = [
    adaste.AdaSTE(),
    adaste.AdaSTE(mu=adaste.Geometric(start=1.0, stop=100.0, length=9), slope=adaste.ExactSlope(steepest=True)),
    adaste.AdaSTE(slope=adaste.ReleasedSlope(), unit=0.5, start=3.0),
    adaste.FiniteDifference(adaste.Tanh(0.5), adaste.FixedSpacing(0.1)),
    adaste.BinaryConnect(adaste.Noise(3)),
    adaste.StraightThrough(window=1.0),
    adaste.ProxQuant.linear(learning_rate=0.1, steps_per_epoch=10, epochs=5, freeze=3),
    adaste.PMF(2.0),
    adaste.MirrorDescent(adaste.SoftmaxMirror(), stable=False),
    adaste.BayesBiNN(100.0),
    adaste.Bop(),
    adaste.PARQ(),
    adaste.BinaryRelax(),
    adaste.Scaled(adaste.AdaSTE()),
    adaste.FullPrecision(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=label)
def test_estimator_cannot_be_changed_once_made_and_equals_its_copy(estimator):
    for field in dataclasses.fields(estimator):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(estimator, field.name, None)
    copy = dataclasses.replace(estimator)
    assert copy == estimator
    assert hash(copy) == hash(estimator)
