"""Bop against its published loop: an average of gradients that flips bits."""

import pytest
import torch

import adaste
from support.estimators import Training, column


@pytest.mark.parametrize(("gamma", "threshold"), [(0.1, 0.0), (0.1, 0.15), (0.02, 0.05), (1.0, 0.5)])
def test_training_is_the_published_loop(gamma, threshold):
    generator = torch.Generator().manual_seed(4)
    start = torch.randn(40, generator=generator, dtype=torch.float64)
    training = Training(start, adaste.Bop(threshold), lambda groups: torch.optim.SGD(groups, lr=gamma))
    w = [1.0 if x >= 0 else -1.0 for x in start.tolist()]
    m = [0.0] * 40
    flips = 0
    assert training.weight.tolist() == w
    for _ in range(150):
        grad = torch.randn(40, generator=generator, dtype=torch.float64)
        for i, g in enumerate(grad.tolist()):
            m[i] = (1 - gamma) * m[i] + gamma * g
            if w[i] * m[i] > threshold:
                w[i] = -w[i]
                flips += 1
        assert training.step(grad).tolist() == w
        assert (-training.latent).tolist() == pytest.approx(m, rel=1e-9, abs=1e-14)
    assert 40 < flips < 40 * 150 * 0.6


def test_weight_survives_an_average_that_turned_against_it_but_stays_under_the_threshold():
    training = Training(column([1.0, 1.0]), adaste.Bop(0.5), lambda groups: torch.optim.SGD(groups, lr=1.0))
    assert training.step(column([0.5, 0.5 + 1e-9])).tolist() == [1.0, -1.0]
    with training.optimizer.binarized():
        assert training.weight.tolist() == [1.0, -1.0]


def test_threshold_zero_is_the_sign_of_the_negative_average():
    generator = torch.Generator().manual_seed(5)
    training = Training(torch.ones(30).double(), adaste.Bop(0.0), lambda groups: torch.optim.SGD(groups, lr=0.2))
    for _ in range(20):
        weight = training.step(torch.randn(30, generator=generator, dtype=torch.float64))
        assert torch.equal(weight, training.latent.sign())
