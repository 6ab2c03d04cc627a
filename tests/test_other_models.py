"""Networks of other people, as they are."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import adaste

transformers = pytest.importorskip("transformers")


def vit() -> nn.Module:
    configuration = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=10,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.ViTForImageClassification(configuration)


def resnet() -> nn.Module:
    configuration = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", num_labels=10
    )
    return transformers.ResNetForImageClassification(configuration)


@pytest.mark.parametrize(
    ("make", "layers"), [(vit, nn.Linear | nn.Conv2d), (resnet, nn.Linear | nn.Conv2d)], ids=["ViT", "ResNet"]
)
def test_a_transformers_model_trains_with_binary_weights(make, layers) -> None:
    torch.manual_seed(0)
    model = make()
    weights = adaste.binary_weights(model)
    expected = {name + ".weight" for name, module in model.named_modules() if isinstance(module, layers)}
    assert set(weights.binary) == expected
    assert set(weights.binary) | set(weights.rest) == {name for name, _ in model.named_parameters()}
    binary, rest = weights
    optimizer = adaste.LatentOptimizer(
        [binary, {**rest, "lr": 1e-3}], base=partial(torch.optim.Adam, lr=3e-3), estimator=adaste.BinaryConnect()
    )
    images, labels = torch.randn(32, 3, 32, 32), torch.arange(32) % 10
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pixel_values=images).logits, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[-5:]) < 0.5 * losses[0]
    assert all(bool((weight.abs() == 1).all()) for weight in weights.binary.values())


def test_parts_of_a_vit_can_stay_real() -> None:
    weights = adaste.binary_weights(vit(), exclude=["*patch_embeddings*", "classifier.weight"])
    assert all(".layers." in name for name in weights.binary)
