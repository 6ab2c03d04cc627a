"""One weight under noise: the simulation against the optimizer, and against what the closed forms predict."""

import math

import pytest
import torch

import adaste
from adaste.paper.mathematics import drift
from adaste.paper.mathematics.drift import (
    RULES,
    Rule,
    compare,
    follow,
    noisy_gradients,
    share_flipped,
    share_right,
)

pytestmark = pytest.mark.slow

MEAN = -0.1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_followed_weight_is_one_of_the_latent_optimizer(rule):
    gradients = noisy_gradients(MEAN, 1.0, steps=60, weights=5, seed=2)
    start = torch.tensor([0.3, -0.3, 0.05, -2.5, 1.0], dtype=torch.float64)
    parameter = torch.nn.Parameter(start.clone())
    optimizer = adaste.LatentOptimizer(
        [parameter],
        base=lambda latent: torch.optim.SGD(latent, lr=rule.lr),
        estimator=rule.estimator,
        averaging=rule.averaging,
    )
    for grad in gradients:
        parameter.grad = grad.clone()
        optimizer.step()
    found = follow(rule, gradients, start)
    torch.testing.assert_close(found[-1], optimizer.state[parameter]["latent"].detach(), rtol=1e-5, atol=1e-6)


def test_same_seed_gives_the_same_trajectories_and_another_gives_others():
    once, again, other = (compare(steps=20, weights=4, seed=seed) for seed in (5, 5, 6))
    for rule in RULES:
        assert torch.equal(once[rule.name], again[rule.name])
        assert not torch.equal(once[rule.name], other[rule.name])
        assert once[rule.name].shape == (21, 4)
        assert once[rule.name][0].tolist() == [1, -1, 1, -1]


def test_printed_rule_shrinks_right_and_wrong_latents_alike_at_the_predicted_rate(courses):
    rule = RULES[0]
    sizes = courses[rule.name][150]
    for side, weights in ((1.0, sizes[::2]), (-1.0, sizes[1::2])):
        one = torch.tensor(side, dtype=torch.float64)
        fallen = side - 150 * rule.lr * float(drift.expected_update(one, torch.tensor(MEAN, dtype=torch.float64), 1.0))
        assert float(weights.mean()) == pytest.approx(fallen, abs=0.02)


def test_printed_rule_ends_close_to_guessing_and_the_averages_near_the_right_sign(courses):
    last = {name: float(share_right(course, MEAN)[-1000:].mean()) for name, course in courses.items()}
    printed, on_average, decayed = (last[rule.name] for rule in RULES)
    assert 0.5 < printed < 0.6
    assert on_average > 0.95
    # The decayed latent is a Gaussian of mean -m and the noise of its average.
    chance = 0.5 * math.erfc(MEAN / drift.averaged_noise(1.0, 1 - RULES[2].lr) / math.sqrt(2))
    assert decayed == pytest.approx(chance, abs=0.01)


def test_printed_rule_leaves_latents_near_zero_where_an_averaged_gradient_keeps_them(courses):
    right = {name: course[-1, ::2] for name, course in courses.items()}
    assert float(right[RULES[0].name].abs().max()) < 10 * RULES[0].lr
    assert float(right[RULES[1].name].min()) > 0, "all have kept their sign"
    assert float(right[RULES[1].name].median()) > 0.9


def test_flips_are_counted_between_one_step_and_the_next():
    latents = torch.tensor([[1.0, -1.0], [0.5, 0.1], [-0.5, 0.2]])
    assert share_flipped(latents).tolist() == [0.5, 0.5]
    assert share_right(latents, mean=-0.3).tolist() == [0.5, 1.0, 0.5]


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="lr must be above 0"):
        Rule("none", adaste.AdaSTE(), lr=0.0)
    with pytest.raises(ValueError, match="averaging must be"):
        Rule("none", adaste.AdaSTE(), lr=0.1, averaging=1.0)
    with pytest.raises(ValueError, match="steps must be a whole number"):
        noisy_gradients(0.0, 1.0, steps=0, weights=1, seed=0)
