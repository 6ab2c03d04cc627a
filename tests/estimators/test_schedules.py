"""Schedules: numbers as pure functions of a step, the same for a step on the host and in a tensor."""

import dataclasses
import json
import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import adaste
from adaste._util.serial import describe, later_field
from adaste.estimators.schedules import (
    Constant,
    Cosine,
    Geometric,
    Linear,
    Schedule,
    Sigmoid,
    Steps,
    Triangle,
    at_step,
    now,
    schedules_in,
)

modest = settings(deadline=None, derandomize=True, max_examples=80)
RAMPS = (Linear, Geometric, Cosine, Sigmoid)

positive = st.floats(0.01, 100)
counts = st.integers(1, 40)
ramps = st.builds(
    lambda kind, **fields: kind(**fields),
    st.sampled_from(RAMPS),
    start=positive,
    stop=positive,
    length=counts,
    delay=st.integers(0, 20),
    every=st.integers(1, 7),
)
plans = st.dictionaries(st.integers(0, 60), st.floats(-5, 5), min_size=1, max_size=5).map(
    lambda later: Steps(values=(0.5, *(later[tick] for tick in sorted(later))), ticks=tuple(sorted(later)), every=3)
)
triangles = st.builds(
    lambda rise, fall, **fields: Triangle(rise=rise, length=rise + fall, **fields),
    rise=st.integers(0, 20),
    fall=counts,
    start=positive,
    peak=positive,
    stop=positive,
    every=st.integers(1, 7),
)
schedules = ramps | plans | triangles | st.builds(Constant, value=st.floats(-5, 5))


def literal(schedule: Schedule, step: int) -> float:
    """The formulas of the documentation in plain floats."""
    tick = math.floor(step / schedule.every)
    if isinstance(schedule, Constant):
        return schedule.value
    if isinstance(schedule, Steps):
        value = schedule.values[0]
        for boundary, later in zip(schedule.ticks, schedule.values[1:], strict=True):
            if tick >= boundary:
                value = later
        return value
    if isinstance(schedule, Triangle):
        if tick < schedule.rise:
            return schedule.start + (schedule.peak - schedule.start) * tick / schedule.rise
        fallen = min(1.0, (tick - schedule.rise) / (schedule.length - schedule.rise))
        return schedule.peak + (schedule.stop - schedule.peak) * fallen
    p = min(1.0, max(0.0, (tick - schedule.delay) / schedule.length))
    a, b = schedule.start, schedule.stop
    if isinstance(schedule, Linear):
        return a + (b - a) * p
    if isinstance(schedule, Geometric):
        return a * math.exp(p * math.log(b / a))
    if isinstance(schedule, Cosine):
        return b + (a - b) * (1 + math.cos(math.pi * p)) / 2
    low, high = 1 / (1 + math.exp(schedule.steepness / 2)), 1 / (1 + math.exp(-schedule.steepness / 2))
    return a + (b - a) * (1 / (1 + math.exp(-schedule.steepness * (p - 0.5))) - low) / (high - low)


@modest
@given(schedules, st.integers(0, 500))
def test_value_is_the_documented_formula(schedule, step):
    assert schedule.at(step) == pytest.approx(literal(schedule, step), rel=1e-12, abs=1e-15)


@modest
@given(schedules, st.integers(0, 500))
def test_value_at_a_step_in_a_tensor_is_the_one_at_the_integer(schedule, step):
    in_a_tensor = schedule.at(torch.tensor(step))
    largest = max(1.0, *map(abs, schedule.bounds()))  # float32 rounds values on the way as large as the ends
    assert float(in_a_tensor) == pytest.approx(schedule.at(step), rel=1e-6, abs=1e-6 * largest)


@modest
@given(ramps)
def test_ends_are_exactly_the_given_numbers(ramp):
    first, last = ramp.every * ramp.delay, ramp.every * (ramp.delay + ramp.length)
    for step in (0, first):
        assert ramp.at(step) == ramp.start
        assert float(ramp.at(torch.tensor(step))) == torch.tensor(ramp.start).item()
    for step in (last, last + 1000):
        assert ramp.at(step) == ramp.stop
        assert float(ramp.at(torch.tensor(step))) == torch.tensor(ramp.stop).item()


@modest
@given(schedules, st.integers(0, 500))
def test_value_stays_within_the_bounds(schedule, step):
    lowest, highest = schedule.bounds()
    assert lowest - 1e-12 <= schedule.at(step) <= highest + 1e-12


@modest
@given(schedules)
def test_bounds_are_reached(schedule):
    values = {schedule.at(step) for step in range(500)}
    lowest, highest = schedule.bounds()
    if not isinstance(schedule, Steps):
        assert {lowest, highest} <= values
    else:
        assert min(values) >= lowest
        assert set(schedule.values[1:]) <= values


@modest
@given(schedules, st.integers(1, 9), st.integers(0, 60))
def test_stretched_it_has_the_same_values_at_as_many_times_the_tick(schedule, factor, tick):
    stretched, step = schedule.stretched(factor), tick * schedule.every
    assert stretched.at(factor * step) == pytest.approx(schedule.at(step), rel=1e-12)
    assert stretched.bounds() == schedule.bounds()


@pytest.mark.parametrize("kind", RAMPS)
def test_a_stretched_ramp_moves_at_every_step(kind):
    ramp = kind(start=1.0, stop=9.0, length=5, delay=2).stretched(10)
    assert (ramp.length, ramp.delay, ramp.every) == (50, 20, 1)
    assert len({ramp.at(step) for step in range(20, 71)}) == 51


@pytest.mark.parametrize("kind", RAMPS)
def test_every_holds_a_value_for_that_many_steps(kind):
    ramp = kind(start=1.0, stop=9.0, length=5, every=10)
    fast = kind(start=1.0, stop=9.0, length=5)
    assert [ramp.at(step) for step in range(70)] == [fast.at(step // 10) for step in range(70)]
    assert len({ramp.at(step) for step in range(70)}) == 6


@pytest.mark.parametrize("kind", RAMPS)
def test_delay_postpones_the_ramp(kind):
    late, early = kind(start=1.0, stop=9.0, length=5, delay=3), kind(start=1.0, stop=9.0, length=5)
    assert [late.at(step) for step in range(12)] == [1.0] * 3 + [early.at(step) for step in range(9)]


def test_geometric_multiplies_by_the_same_factor_at_every_tick():
    mu = Geometric(start=1.0, stop=100.0, length=200)
    for step in range(199):
        assert mu.at(step + 1) / mu.at(step) == pytest.approx(100 ** (1 / 200), rel=1e-12)
    assert mu.at(200) == 100.0


@pytest.mark.parametrize("steepness", [1e-300, 1e-16, 1e-8, 1e-3, 10.0, 100.0, 5000.0, 1e300])
def test_sigmoid_is_monotone_and_symmetric_however_steep(steepness):
    ramp = Sigmoid(start=1.0, stop=0.0, length=10, steepness=steepness)
    values = [ramp.at(step) for step in range(11)]
    assert values == sorted(values, reverse=True)
    for step in range(11):
        assert values[step] + values[10 - step] == pytest.approx(1)


def test_a_flat_sigmoid_is_a_line_on_the_host_and_on_the_device():
    ramp, line = (kind(start=1.0, stop=0.0, length=10) for kind in (partial(Sigmoid, steepness=1e-9), Linear))
    for step in range(11):
        assert ramp.at(step) == pytest.approx(line.at(step))
        assert float(ramp.at(torch.tensor(step))) == pytest.approx(line.at(step), rel=1e-5)


def test_steps_take_each_value_from_its_tick_on():
    plan = Steps(values=(1.0, 5.0, 2.0), ticks=(2, 4), every=2)
    expected = [1.0] * 4 + [5.0] * 4 + [2.0] * 4
    assert [plan.at(step) for step in range(12)] == expected
    assert [float(plan.at(torch.tensor(step))) for step in range(12)] == expected


NUMBERS = (math.nan, math.inf, -math.inf, "x", None, True)


@pytest.mark.parametrize("kind", RAMPS)
@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *(("start", bad) for bad in NUMBERS),
        *(("stop", bad) for bad in NUMBERS),
        *(("length", bad) for bad in (0, -1, 2.0, "3", True, None)),
        *(("delay", bad) for bad in (-1, 0.5, None)),
        *(("every", bad) for bad in (0, -2, 1.0, None)),
    ],
)
def test_ramp_refuses_bad_input_by_name(kind, name, bad):
    fields = {"start": 1.0, "stop": 2.0, "length": 3, name: bad}
    with pytest.raises(ValueError, match=name) as caught:
        kind(**fields)
    assert str(bad) in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Geometric(start=0.0, stop=1.0, length=2), r"start > 0.*got 0\.0"),
        (lambda: Geometric(start=1.0, stop=-2.0, length=2), r"stop > 0.*-2\.0"),
        (lambda: Sigmoid(start=0.0, stop=1.0, length=2, steepness=0.0), r"steepness.*0\.0"),
        (lambda: Sigmoid(start=0.0, stop=1.0, length=2, steepness=math.inf), "steepness.*inf"),
        (lambda: Sigmoid(start=0.0, stop=1.0, length=2, steepness=math.nan), "steepness.*nan"),
        (lambda: Constant(value=math.nan), "value.*nan"),
        (lambda: Constant(value="x"), "value.*'x'"),
        (lambda: Triangle(start=0.0, peak=math.nan, stop=0.0, rise=1, length=2), "peak.*nan"),
        (lambda: Triangle(start=0.0, peak=1.0, stop=0.0, rise=2, length=2), "rise.*below length, 2, got 2"),
        (lambda: Triangle(start=0.0, peak=1.0, stop=0.0, rise=-1, length=2), "rise.*-1"),
        (lambda: Triangle(start=0.0, peak=1.0, stop=0.0, rise=0, length=0), "length.*0"),
        (lambda: Steps(values=(1.0,), ticks=(3,)), "1 values and 1 ticks"),
        (lambda: Steps(values=(1.0, 2.0, 3.0), ticks=(5, 3)), r"increase.*\(5, 3\)"),
        (lambda: Steps(values=(1.0, 2.0, 3.0), ticks=(3, 3)), r"increase.*\(3, 3\)"),
        (lambda: Steps(values=(1.0, math.nan), ticks=(3,)), "value.*nan"),
        (lambda: Steps(values=(1.0, 2.0), ticks=(-3,)), "tick.*-3"),
        (lambda: Steps(values=(1.0, 2.0), ticks=(1.5,)), r"tick.*1\.5"),
    ],
)
def test_schedule_refuses_bad_input_and_says_why(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_at_step_resolves_schedules_however_deep():
    estimator = adaste.Scaled(
        adaste.FiniteDifference(
            adaste.Tanh(Linear(start=1.0, stop=3.0, length=4)),
            adaste.FixedSpacing(Geometric(start=1.0, stop=16.0, length=4)),
        )
    )
    resolved = at_step(estimator, 2)
    assert resolved == adaste.Scaled(adaste.FiniteDifference(adaste.Tanh(2.0), adaste.FixedSpacing(4.0)))
    in_tensors = at_step(estimator, torch.tensor(2)).estimator
    assert float(in_tensors.map.temperature) == pytest.approx(2.0)
    assert float(in_tensors.spacing.beta) == pytest.approx(4.0)
    assert isinstance(estimator.estimator.map.temperature, Linear), "the original stays as it was"


def test_at_step_moves_nested_noise_to_the_step():
    estimator = at_step(adaste.Scaled(adaste.BayesBiNN(10.0, noise=adaste.Noise(4))), 7)
    assert estimator.estimator.noise == adaste.Noise(4, step=7)


def test_at_step_leaves_what_depends_on_no_step():
    estimator = adaste.Scaled(adaste.AdaSTE())
    assert at_step(estimator, 3) is estimator


def test_schedules_are_found_however_deep_and_at_step_takes_their_values_where_they_are_given():
    temperature, beta = Linear(start=1.0, stop=3.0, length=4), Geometric(start=1.0, stop=16.0, length=4)
    estimator = adaste.Scaled(adaste.FiniteDifference(adaste.Tanh(temperature), adaste.FixedSpacing(beta)))
    assert schedules_in(estimator) == [temperature, beta]
    given_values = at_step(estimator, 2, iter((7.0, 8.0))).estimator
    assert (given_values.map.temperature, given_values.spacing.beta) == (7.0, 8.0)


@pytest.mark.parametrize("kind", [Constant, Steps, *RAMPS])
def test_a_schedule_takes_its_numbers_by_name_alone(kind):
    with pytest.raises(TypeError, match="positional"):
        kind(1.0)


SCHEDULE = Linear(start=0.5, stop=1.0, length=4)


@pytest.mark.parametrize(
    "estimator",
    [
        adaste.AdaSTE(mu=SCHEDULE),
        adaste.FiniteDifference(adaste.HardTanh(SCHEDULE)),
        adaste.ProxQuant(frozen=SCHEDULE),
        adaste.PMF(SCHEDULE),
        adaste.MirrorDescent(beta=SCHEDULE),
        adaste.BayesBiNN(10.0, temperature=SCHEDULE),
        adaste.Bop(SCHEDULE),
        adaste.PARQ(SCHEDULE),
        adaste.BinaryRelax(SCHEDULE),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_method_used_before_its_schedule_is_resolved_says_so(estimator):
    latent = estimator.latent(torch.ones(2))
    with pytest.raises(TypeError, match="at_step"):
        estimator.weight(latent, torch.ones(2))
    assert torch.isfinite(at_step(estimator, 1).weight(latent, torch.ones(2))).all()


def test_now_gives_numbers_and_tensors_back_as_they_are():
    tensor = torch.tensor(2.0)
    assert now(1.5) == 1.5
    assert now(tensor) is tensor


def test_description_is_plain_data_that_names_every_kind():
    estimator = adaste.Scaled(
        adaste.AdaSTE(mu=Geometric(start=1.0, stop=100.0, length=200, every=391), slope=adaste.ReleasedSlope()),
        adaste.ChannelMean(),
    )
    described = describe(estimator)
    assert json.loads(json.dumps(described)) == described
    assert described["kind"] == "Scaled"
    assert described["scale"] == {"kind": "ChannelMean"}
    inner = described["estimator"]
    assert inner["mu"] == {
        "kind": "Geometric",
        "every": 391,
        "start": 1.0,
        "stop": 100.0,
        "length": 200,
        "delay": 0,
    }
    assert inner["slope"] == {"kind": "ReleasedSlope", "threshold": 1e-3}
    assert inner["start"] is None


def test_description_of_steps_and_noise_survives_json():
    described = describe(adaste.BayesBiNN(10.0, temperature=Steps(values=(1.0, 0.5), ticks=(3,))))
    assert json.loads(json.dumps(described)) == described
    assert described["temperature"]["values"] == [1.0, 0.5]
    assert described["noise"]["kind"] == "Noise"


def test_different_configurations_have_different_descriptions():
    assert describe(adaste.AdaSTE(mu=100.0)) != describe(adaste.AdaSTE(mu=99.0))
    assert describe(adaste.Tanh()) != describe(adaste.HardTanh())


@dataclasses.dataclass(frozen=True)
class Grown:
    old: int = 1
    new: int = later_field(2)


def test_a_field_that_a_class_has_gained_is_described_only_where_it_differs_from_its_default():
    assert describe(Grown(old=1, new=2)) == {"kind": "Grown", "old": 1}
    assert describe(Grown(old=1, new=3)) == {"kind": "Grown", "old": 1, "new": 3}
    assert "original" not in describe(adaste.PMF(released=True))
    assert describe(adaste.PMF(original=True))["original"] is True
