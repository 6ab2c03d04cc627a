"""Histograms of latents."""

import pytest
import torch

from adaste.training.evaluation import BINS, REACH, histogram


def test_every_latent_is_counted_once_and_outliers_at_the_ends():
    latents = [torch.tensor([0.0, 1.0, -1.0]), torch.tensor([[100.0]])]
    found = histogram(latents)
    assert found.reach == pytest.approx(REACH * (10002 / 4) ** 0.5)
    assert sum(found.counts) == 4
    assert found.counts[BINS // 2] == 3
    wide = histogram([torch.cat([torch.ones(1000), torch.tensor([-1e3, 1e3])])])
    assert wide.counts[0] == wide.counts[-1] == 1


def test_latents_that_change_their_sign_give_the_mirrored_histogram():
    latents = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    there, back = histogram([latents]), histogram([-latents])
    assert there.counts == back.counts[::-1]
    assert sum(there.counts) == 10_000


def test_zeros_alone_have_a_histogram_and_nothing_has_none():
    assert histogram([torch.zeros(5)]).counts[BINS // 2] == 5
    assert histogram([]) is None
