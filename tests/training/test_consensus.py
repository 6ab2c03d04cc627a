"""Processes of a run agree to save or to stop after the same steps, however long these take."""

from dataclasses import dataclass, field

import pytest

from adaste.training import distributed
from adaste.training.distributed import MOST_SECONDS, MOST_STEPS, RankConsensus, World
from support.small_runs import CPU


@dataclass(frozen=True)
class Two(World):
    """This process and another, whose steps take `others` milliseconds; it notes every question."""

    size: int = 2
    others: int = 0
    asked: list[int] = field(default_factory=list)

    def largest(self, value, device):
        self.asked.append(value)
        return max(value, self.others if len(self.asked) % 2 == 0 else 0)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(distributed.time, "monotonic", lambda: now[0])
    return now


def heard_after(clock, seconds, world, asked_in=40, steps=100):
    """How long after a signal came, in the middle of step `asked_in`, all processes know of it."""
    consensus, came = RankConsensus(world, CPU), 0.0
    for step in range(1, steps + 1):
        clock[0] += seconds
        if step == asked_in:
            came = clock[0] - seconds / 2
        if consensus.largest(7 if came else 0, step) == 7:
            return clock[0] - came
    pytest.fail("nobody has heard of it")


@pytest.mark.parametrize("asked_in", range(33, 50))
@pytest.mark.parametrize("seconds", [0.001, 0.3, 1.0, 2.5, 3.9, 10.0])
def test_a_wish_is_known_to_all_within_a_few_seconds_or_the_step_it_came_in(clock, seconds, asked_in):
    assert heard_after(clock, seconds, Two(), asked_in) <= max(MOST_SECONDS, seconds)


def test_short_steps_are_interrupted_seldom(clock):
    world = Two()
    consensus = RankConsensus(world, CPU)
    for step in range(1, 161):
        clock[0] += 0.01
        consensus.largest(0, step)
    assert len(world.asked) == 2 * (1 + 160 // MOST_STEPS), "after the first step, to learn how long they are"


def test_the_slowest_process_decides_after_which_steps_all_ask(clock):
    world = Two(others=1000)
    consensus = RankConsensus(world, CPU)
    found = []
    for step in range(1, 13):
        clock[0] += 0.01
        before = len(world.asked)
        consensus.largest(0, step)
        found += [step] if len(world.asked) > before else []
    assert found == [1, 4, 8, 12]


def test_a_step_that_was_long_once_does_not_slow_down_the_others(clock):
    world = Two()
    consensus = RankConsensus(world, CPU)
    for step in range(1, 65):
        clock[0] += 60.0 if step == 1 else 0.01
        consensus.largest(0, step)
    assert len(world.asked) == 2 * (2 + 64 // MOST_STEPS)


def test_a_process_alone_need_not_ask(clock):
    consensus = RankConsensus(World(), CPU)
    assert [consensus.largest(wish, step=3) for wish in (0, 1, 7)] == [0, 1, 7]
