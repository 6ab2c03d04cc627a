"""summary says per parameter how many bits it takes."""

from functools import partial

import torch
from torch import nn

import adaste


def test_summary_counts_bits_signs_and_bytes(capsys) -> None:
    model = nn.Sequential(nn.Linear(10, 9), nn.BatchNorm1d(9), nn.Linear(9, 2, bias=False))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[0].weight[0] = -1.0
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model), base=partial(torch.optim.SGD, lr=0.1), estimator=adaste.MirrorDescent()
    )
    before = model[0].weight.detach().clone()
    result = adaste.summary(model, optimizer)
    printed = capsys.readouterr().out
    first, bias = result.layers[0], result.layers[1]
    assert (first.name, first.shape, first.bits, first.float_bytes, first.packed_bytes) == (
        "0.weight",
        (9, 10),
        1,
        360,
        12,
    )
    assert abs(first.positive - 80 / 90) < 1e-6
    assert (bias.bits, bias.packed_bytes) == (32, 36)
    assert result.float_bytes == 4 * sum(parameter.numel() for parameter in model.parameters())
    assert result.packed_bytes == 12 + 36 + 36 + 36 + 3
    assert "0.weight" in printed and "9x10" in printed and "0.889" in printed
    assert torch.equal(model[0].weight, before), "the weights of training are back"


def test_scales_are_counted_once_per_layer_channel_or_group() -> None:
    def packed(scale: adaste.Estimator) -> int:
        model = nn.Linear(16, 4, bias=False)
        optimizer = adaste.LatentOptimizer(
            adaste.binary_weights(model), base=partial(torch.optim.SGD, lr=0.1), estimator=scale
        )
        return adaste.summary(model, optimizer).packed_bytes

    assert packed(adaste.Scaled(adaste.BinaryConnect(), adaste.FanIn())) == 8 + 4
    assert packed(adaste.Scaled(adaste.BinaryConnect(), adaste.ChannelMean())) == 8 + 16
    assert packed(adaste.Scaled(adaste.BinaryConnect(), adaste.GroupMean(6))) == 8 + 3 * 16
    assert packed(adaste.PARQ(scale=adaste.GroupMean(6))) == 8 + 3 * 16
    in_half = adaste.GroupMean(6, half_precision=True)
    assert packed(adaste.Scaled(adaste.BinaryConnect(), in_half)) == 8 + 3 * 8


def test_groups_whose_scales_are_equal_by_chance_are_still_counted() -> None:
    model = nn.Linear(8, 3, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0] * 4 + [1.0] * 4, [1.0] * 4 + [2.0] * 4, [3.0] * 4 + [4.0] * 4]))
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model),
        base=partial(torch.optim.SGD, lr=0.1),
        estimator=adaste.Scaled(adaste.BinaryConnect(), adaste.GroupMean(4, half_precision=True)),
    )
    assert adaste.inspect_model(model, optimizer).packed_bytes == 3 + 2 * 3 * 2


def test_weight_matrices_that_stay_real_are_named_with_the_reason(capsys) -> None:
    model = nn.ModuleDict(
        {
            "embed": nn.Embedding(7, 4),
            "rnn": nn.LSTM(4, 4),
            "first": nn.Linear(4, 4),
            "frozen": nn.Linear(4, 4).requires_grad_(False),
            "forgotten": nn.Linear(4, 4),
            "last": nn.Linear(4, 2),
        }
    )
    weights = adaste.binary_weights(model, exclude=["first", "rnn"])
    groups = [
        {**group, "params": [pair for pair in group["params"] if "forgotten" not in pair[0]]} for group in weights
    ]
    optimizer = adaste.LatentOptimizer(groups, base=torch.optim.SGD, estimator=adaste.BinaryConnect())
    result = adaste.summary(model, optimizer)
    reasons = {layer.name: layer.real_because for layer in result.layers if layer.real_because}
    words = {
        "embed.weight": "embedding",
        "rnn.weight_ih_l0": "recurrent",
        "rnn.weight_hh_l0": "recurrent",
        "first.weight": "full precision",
        "frozen.weight": "no gradient",
        "forgotten.weight": "does not have it",
    }
    assert reasons.keys() == words.keys()
    assert all(word in reasons[name] for name, word in words.items())
    _, table = capsys.readouterr().out.split("stay real:")
    assert all(name in table and reason in table for name, reason in reasons.items())


def test_a_network_without_real_matrices_has_nothing_below_its_table() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model), base=torch.optim.SGD, estimator=adaste.BinaryConnect()
    )
    assert str(adaste.inspect_model(model, optimizer)).splitlines()[-1].startswith("total")
