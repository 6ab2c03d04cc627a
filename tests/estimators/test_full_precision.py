"""Full precision through the latent optimizer is the base optimizer alone."""

import pytest
import torch
from torch import nn

import adaste
from support.estimators import Training


@pytest.mark.parametrize(
    "base",
    [
        lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda params: torch.optim.Adam(params, lr=0.02),
        lambda params: torch.optim.AdamW(params, lr=0.02),
    ],
    ids=["SGD", "Adam", "AdamW"],
)
def test_training_is_bit_for_bit_that_of_the_base_optimizer(base):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(20, generator=generator)
    training = Training(start, adaste.FullPrecision(), base)
    alone = nn.Parameter(start.clone())
    optimizer = base([alone])
    for _ in range(30):
        grad = torch.randn(20, generator=generator)
        alone.grad = grad.clone()
        optimizer.step()
        assert torch.equal(training.step(grad), alone.detach())
    assert not torch.equal(alone.detach(), start)


def test_binarizing_leaves_the_weights_real():
    latent = torch.tensor([0.3, -2.0])
    assert adaste.FullPrecision().binary is False
    assert torch.equal(adaste.FullPrecision().binarize(latent, latent), latent)
    assert torch.equal(adaste.FullPrecision().weight(latent, latent), latent)
