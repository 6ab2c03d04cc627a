"""Networks of other people, as they are."""

import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import adaste

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow


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


def gpt2() -> nn.Module:
    torch.manual_seed(0)
    configuration = transformers.GPT2Config(
        vocab_size=20,
        n_positions=12,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return transformers.GPT2LMHeadModel(configuration)


def bert() -> nn.Module:
    configuration = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    return transformers.BertForSequenceClassification(configuration)


@pytest.mark.parametrize("make", [vit, resnet, bert, gpt2])
def test_usual_networks_are_taken_without_a_word(make) -> None:
    model = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adaste.binary_weights(model).binary


def gpt2_of_linear_layers(model: nn.Module) -> nn.Module:
    """The same network with torch's linear layers."""
    other = gpt2()
    other.load_state_dict(model.state_dict())
    for block in other.transformer.h:
        for part in (block.attn, block.mlp):
            for name, layer in list(part.named_children()):
                if hasattr(layer, "nf"):
                    linear = nn.Linear(*layer.weight.shape)
                    with torch.no_grad():
                        linear.weight.copy_(layer.weight.T)
                        linear.bias.copy_(layer.bias)
                    setattr(part, name, linear)
    return other


@pytest.mark.parametrize("scale", [adaste.FanIn(), adaste.ChannelMean()])
def test_gpt2_learns_with_binary_weights_as_the_same_network_of_linear_layers_does(scale) -> None:
    model = gpt2()
    other = gpt2_of_linear_layers(model)
    weights, usual = adaste.binary_weights(model), adaste.binary_weights(other)
    assert set(weights.binary) == {
        f"transformer.h.{block}.{layer}.weight"
        for block in range(2)
        for layer in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    }
    tokens = torch.arange(48).view(4, 12) * 7 % 20
    losses: list[list[float]] = []
    optimizers = []
    for network, partition in ((model, weights), (other, usual)):
        optimizer = adaste.LatentOptimizer(
            partition, base=partial(torch.optim.SGD, lr=0.2), estimator=adaste.Scaled(adaste.StraightThrough(), scale)
        )
        losses.append([])
        for _ in range(20):
            optimizer.zero_grad()
            logits = network(input_ids=tokens).logits
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
        optimizers.append(optimizer)
    assert losses[0][:5] == pytest.approx(losses[1][:5], rel=1e-4)
    assert losses[0][-1] < 0.9 * losses[0][0]
    sizes = [
        {layer.name: layer.packed_bytes for layer in adaste.inspect_model(network, optimizer).layers}
        for network, optimizer in zip((model, other), optimizers, strict=True)
    ]
    assert sizes[0] == sizes[1]
