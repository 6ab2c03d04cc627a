"""binary_weights: a total and disjoint partition of any model."""

import warnings
from collections import OrderedDict
from functools import partial

import pytest
import torch
from torch import nn

import adaste
from adaste.models import MLP, VGG, ImageShape, ResNet
from adaste.models.networks import Network


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


def nested() -> nn.Module:
    body = nn.Sequential(OrderedDict(conv=nn.Conv2d(8, 8, 3), tail=nn.Sequential(nn.Conv2d(8, 4, 1), nn.ReLU())))
    return nn.Sequential(OrderedDict(stem=nn.Conv2d(3, 8, 3), body=body, flat=nn.Flatten(), fc=nn.Linear(16, 5)))


PATTERNS = {
    "fc": {"fc"},
    "fc.weight": {"fc"},
    "body": {"body.conv", "body.tail.0"},
    "body.tail": {"body.tail.0"},
    "body.t*": {"body.tail.0"},
    "*.conv": {"body.conv"},
    "*.0.*": {"body.tail.0"},
    "*c*": {"fc", "body.conv"},
    "*": {"stem", "body.conv", "body.tail.0", "fc"},
}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_the_same_to_training_and_packing(pattern: str) -> None:
    model = nested()
    real = {f"{layer}.weight" for layer in PATTERNS[pattern]}
    every = set(adaste.binary_weights(model).binary)
    included = adaste.binary_weights(model, include=pattern)
    assert {name for name, parameter in included.binary.items() if parameter.dim() > 1} == real
    if real == every:
        return
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model, exclude=[pattern]), base=torch.optim.SGD, estimator=adaste.BinaryConnect()
    )
    assert {name for name, _ in optimizer.latents()} == every - real
    images = torch.randn(2, 3, 6, 6)
    with optimizer.binarized():
        adaste.pack(model, images, float_layers=[pattern])
        for other in every - real:
            with pytest.raises(ValueError, match="is not binary"):
                adaste.pack(model, images, float_layers=other)


def test_a_shared_layer_answers_to_each_of_its_names_in_training_and_packing() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    model = nn.Sequential(OrderedDict(flat=nn.Flatten(), one=layer, between=nn.ReLU(), other=layer, fc=nn.Linear(4, 2)))
    for name in ("one", "other"):
        weights = adaste.binary_weights(model, exclude=name)
        assert list(weights.binary) == ["fc.weight"]
        optimizer = adaste.LatentOptimizer(weights, base=torch.optim.SGD, estimator=adaste.BinaryConnect())
        with optimizer.binarized():
            adaste.pack(model, torch.randn(2, 1, 2, 2), float_layers=name)


def test_a_pattern_that_matches_nothing_is_answered_with_what_there_is() -> None:
    for pattern in ("classifier", "fc.w"):
        with pytest.raises(ValueError, match=r"exclude pattern .* there are stem\.weight, stem\.bias, .*fc\.bias"):
            adaste.binary_weights(nested(), exclude=pattern)
        with pytest.raises(ValueError, match=r"float_layers pattern .* there are stem\.weight, .*fc\.weight"):
            adaste.pack(nested(), torch.randn(2, 3, 6, 6), float_layers=pattern)


def test_something_else_than_patterns_and_functions_is_refused() -> None:
    model = nested()
    for wrong in (model.fc, model.fc.weight, [model.fc], [1]):
        with pytest.raises(TypeError, match=r"exclude takes patterns of names such as 'fc'"):
            adaste.binary_weights(model, exclude=wrong)


class Own(nn.Module):
    """A layer of one's own, with a table of positions that is no weight matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(4, 4))
        self.position_bias = nn.Parameter(torch.zeros(4, 4))
        self.shift = nn.Parameter(torch.zeros(1, 4, 4))


def with_unusual_layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "rnn": nn.LSTM(4, 4),
            "gru": nn.GRUCell(4, 4),
            "normed": nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
            "spectral": nn.utils.spectral_norm(nn.Conv2d(4, 4, 3)),
            "own": Own(),
            "embed": nn.Embedding(9, 4),
            "norm": nn.LayerNorm((4, 4)),
            "attention": nn.MultiheadAttention(4, 2, kdim=3),
            "bilinear": nn.Bilinear(4, 3, 2),
        }
    )


LEFT = {
    "rnn.weight_ih_l0": "recurrent",
    "rnn.weight_hh_l0": "recurrent",
    "gru.weight_ih": "recurrent",
    "gru.weight_hh": "recurrent",
    "normed.parametrizations.weight.original1": "weight_norm",
    "spectral.weight_orig": "spectral_norm",
    "own.kernel": "Own's own parameter",
}


def test_one_warning_names_the_weight_matrices_that_stay_real_and_why() -> None:
    model = with_unusual_layers()
    with pytest.warns(UserWarning, match="stay real") as warned:
        weights = adaste.binary_weights(model)
    assert [warning.filename for warning in warned] == [__file__]
    told = str(warned[0].message)
    for name, reason in LEFT.items():
        assert name in told and reason in told
    for name in set(weights.rest) - set(LEFT) | set(weights.binary):
        assert name not in told
    assert set(weights.binary) == {
        *(f"attention.{each}_proj_weight" for each in "qkv"),
        "attention.out_proj.weight",
        "bilinear.weight",
    }


def test_what_the_user_has_named_or_frozen_is_no_news() -> None:
    model = with_unusual_layers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adaste.binary_weights(model, exclude=["rnn", "gru", "normed", "spectral", "own"])
        included = adaste.binary_weights(model, include=["rnn.weight*", "attention.out_proj.weight"])
        assert set(included.binary) == {"rnn.weight_ih_l0", "rnn.weight_hh_l0", "attention.out_proj.weight"}
        for name in LEFT:
            model.get_parameter(name).requires_grad_(False)
        adaste.binary_weights(model)


def test_a_recurrent_layer_trains_with_binary_weights_if_it_is_named() -> None:
    torch.manual_seed(0)
    model = nn.LSTM(6, 8)
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model, include="weight*"),
        base=partial(torch.optim.Adam, lr=0.01),
        estimator=adaste.Scaled(adaste.BinaryConnect(), adaste.FanIn()),
    )
    inputs, losses = torch.randn(5, 16, 6), []
    for _ in range(40):
        optimizer.zero_grad()
        loss = (model(inputs)[0] - inputs.mean(2, keepdim=True).tanh()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[-5:]) < 0.8 * losses[0]
    assert len(model.weight_hh_l0.abs().unique()) == 1


def test_an_error_without_binary_weights_names_the_matrices_there_are() -> None:
    with pytest.raises(ValueError, match=r"no binary weights.*weight_ih_l0, weight_hh_l0 \(a recurrent layer"):
        adaste.binary_weights(nn.GRU(3, 3))


@pytest.mark.parametrize("network", [MLP(), VGG(bias=True), ResNet(depth=18, affine=True), ResNet(depth=50)], ids=str)
def test_networks_of_this_package_are_taken_without_a_word(network: Network) -> None:
    with torch.device("meta"):
        model = network.layers(ImageShape(3, 32, 32), 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adaste.binary_weights(model)
