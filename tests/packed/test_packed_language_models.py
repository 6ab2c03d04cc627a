"""Language models in files of version 2: tokens in, logits out, as torch computes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import adaste
from adaste.packed.nodes import Linear
from adaste.packed.safetensors import read_container
from support.language_models import binary, language_model

pytestmark = pytest.mark.slow

runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")

SCALES = [adaste.FanIn(), adaste.ChannelMean(), adaste.GroupMean(128, half_precision=True), adaste.GroupMean(96)]
MODELS = {
    "tied head": {"tie_word_embeddings": True},
    "binary head": {},
    "grouped queries": {"num_key_value_heads": 2},
    "biases": {"attention_bias": True, "mlp_bias": True},
}


def head(settings: dict[str, Any]) -> tuple[str, ...]:
    """A tied head is the embedding, and stays real."""
    return ("lm_head",) if settings.get("tie_word_embeddings") else ()


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_the_runtime_computes_the_logits_of_a_llama(settings: dict[str, Any], scale: Any, tmp_path: Path) -> None:
    model = language_model(hidden_size=192, intermediate_size=320, **settings)
    tokens = torch.randint(0, 257, (3, 20))
    with binary(model, scale), torch.no_grad():
        adaste.pack(model, tokens[:1], path=tmp_path / "llama.safetensors", float_layers=head(settings))
        wanted = model(input_ids=tokens).logits
    found = torch.from_numpy(runtime.load(tmp_path / "llama.safetensors")(tokens.numpy()))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))
    assert torch.equal(found.argmax(-1), wanted.argmax(-1))


def test_a_sequence_that_is_filled_up_at_its_end_has_the_logits_of_the_shorter_one(tmp_path: Path) -> None:
    model = language_model()
    tokens = torch.randint(0, 257, (2, 16))
    with binary(model), torch.no_grad():
        adaste.pack(model, tokens, path=tmp_path / "llama.safetensors")
        wanted = model(input_ids=tokens[:, :9]).logits
    found = torch.from_numpy(runtime.load(tmp_path / "llama.safetensors")(tokens.numpy()))[:, :9]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def test_groups_of_inputs_have_scales_of_their_own(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(200, 5))
    with binary(model, adaste.GroupMean(64)):
        weight = model[0].weight.detach().clone()
        content = adaste.pack(model, torch.randn(1, 3, 200), path=tmp_path / "layer.safetensors")
    nodes = adaste.load_packed(tmp_path / "layer.safetensors").graph.nodes
    parts = [node for node in nodes if isinstance(node, Linear)]
    assert [(part.in_features, part.kind, part.weight.shape) for part in parts] == [
        *[(64, "binary", (5, 8))] * 3,
        (8, "binary", (5, 1)),
    ]
    whole = np.concatenate([part.dense() * part.scale[:, None] for part in parts], axis=1)
    np.testing.assert_array_equal(whole.astype(np.float32), weight.numpy())
    assert [part.shift is None for part in parts] == [False, True, True, True]
    _, tensors = read_container(content)
    assert sum(each.nbytes for each in tensors.values()) == 5 * (3 * 8 + 1) + 4 * 5 * (4 + 1)


def test_groups_that_are_too_small_for_a_layer_each_are_refused() -> None:
    model = nn.Sequential(nn.Linear(64, 5))
    with binary(model, adaste.GroupMean(16)), pytest.raises(ValueError, match="from a size of 32 on"):
        adaste.pack(model, torch.randn(2, 64))


def test_an_embedding_and_the_head_that_is_tied_to_it_are_in_the_file_once() -> None:
    tokens = torch.randint(0, 257, (1, 8))
    sizes = []
    for tied in (True, False):
        model = language_model(tie_word_embeddings=tied)
        with binary(model, exclude=() if tied else "lm_head"):
            _, tensors = read_container(adaste.pack(model, tokens, float_layers="lm_head"))
        sizes.append(sum(each.nbytes for each in tensors.values()))
    assert sizes[1] - sizes[0] == 4 * 257 * 128
