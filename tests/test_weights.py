"""binary_weights: a total and disjoint partition of any model."""

import pytest
import torch
from torch import nn

import adaste


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.position = nn.Parameter(torch.zeros(1, 5, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight


def convolutional() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8, 10))


@pytest.mark.parametrize("model", [convolutional(), Transformer(), nn.LSTM(4, 4).train()], ids=["conv", "vit", "lstm"])
def test_the_partition_is_total_and_disjoint(model: nn.Module) -> None:
    partition = adaste.binary_weights(model, include="*weight*")
    names = set(dict(model.named_parameters()))
    assert set(partition.binary) | set(partition.rest) == names
    assert not set(partition.binary) & set(partition.rest)


def test_weights_of_layers_are_binary_and_norms_biases_and_embeddings_are_not() -> None:
    assert set(adaste.binary_weights(convolutional()).binary) == {"0.weight", "4.weight"}
    assert set(adaste.binary_weights(Transformer()).binary) == {
        "block.self_attn.in_proj_weight",
        "block.self_attn.out_proj.weight",
        "block.linear1.weight",
        "block.linear2.weight",
    }


def test_patterns_and_predicates_include_and_exclude() -> None:
    model = convolutional()
    assert set(adaste.binary_weights(model, exclude="0.*").binary) == {"4.weight"}
    assert set(adaste.binary_weights(model, include=["0.weight", "4.*"]).binary) == {"0.weight", "4.weight", "4.bias"}
    large = adaste.binary_weights(model, include=lambda name, parameter: parameter.numel() > 100)
    assert set(large.binary) == {"0.weight"}
    tied = adaste.binary_weights(Transformer(), include="head.weight")
    assert set(tied.binary) == {"embed.weight"}, "a shared weight answers to each of its names"


def test_what_is_not_trained_is_in_the_rest_and_not_in_the_groups() -> None:
    model = convolutional()
    model[0].weight.requires_grad_(False)
    partition = adaste.binary_weights(model)
    assert set(partition.binary) == {"4.weight"}
    assert "0.weight" in partition.rest
    names = [name for group in partition for name, _ in group["params"]]
    assert sorted(names) == ["0.bias", "1.bias", "1.weight", "4.bias", "4.weight"]


def test_a_pattern_that_matches_nothing_is_named_with_what_is_near_it() -> None:
    with pytest.raises(ValueError, match=r"include pattern 'conv\.weight' matches none of the 6 parameters"):
        adaste.binary_weights(convolutional(), include=["*.weight", "conv.weight"])
    with pytest.raises(ValueError, match=r"exclude pattern '0\.weigth' matches none.*near it: 0\.weight"):
        adaste.binary_weights(convolutional(), exclude="0.weigth")


def test_a_model_without_binary_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="no binary weights found among the 2 parameters of BatchNorm1d"):
        adaste.binary_weights(nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="no binary weights"):
        adaste.binary_weights(convolutional(), exclude="*")
