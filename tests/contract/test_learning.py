"""Every method learns a small real problem, scikit-learn's handwritten digits, far above chance."""

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from support.methods import STEPS, Method, every_method

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)


@every_method
def test_binary_weights_learn_handwritten_digits(method: Method, digits: tuple[torch.Tensor, torch.Tensor]) -> None:
    images, labels = digits
    torch.manual_seed(3)
    order = torch.randperm(len(images))
    train, test = order[:1297], order[1297:]
    model = nn.Sequential(
        nn.Linear(64, 96, bias=False),
        nn.BatchNorm1d(96, affine=False),
        nn.ReLU(),
        nn.Linear(96, 10, bias=False),
        nn.BatchNorm1d(10, affine=False),
    )
    optimizer = method.optimizer(model)
    for _ in range(STEPS):
        chosen = train[torch.randint(0, len(train), (64,))]
        optimizer.zero_grad()
        F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    with torch.no_grad(), optimizer.binarized():
        for _ in range(20):  # BatchNorm's statistics must belong to the rounded weights
            model(images[train])
        model.eval()
        accuracy = float((model(images[test]).argmax(dim=1) == labels[test]).float().mean())
    assert accuracy > 0.8, f"{accuracy:.3f}; chance is 0.1"
