"""Language models as GGUF files: read again by gguf's own reader, compared with a literal packer, refused clearly."""

import builtins
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

import adaste
from adaste._util.files import NotWrittenError
from adaste._util.packages import MissingPackageError
from adaste.packed.gguf import pack_q1_0
from support.language_models import (
    MODELS,
    binary,
    byte_level_tokenizer,
    language_model,
    sentence_piece_tokenizer,
    transformers,
)

gguf = pytest.importorskip("gguf")


def literal_q1_0(weight: list[list[float]]) -> bytes:
    """The definition: per 128 inputs a float16, then bit i % 8 of byte i / 8 for input i, 1 for what is positive."""
    packed = b""
    for row in weight:
        for first in range(0, len(row), 128):
            group = row[first : first + 128]
            packed += struct.pack("<e", abs(group[0]))
            for byte in range(16):
                packed += bytes([sum(1 << bit for bit in range(8) if group[8 * byte + bit] > 0)])
    return packed


def literally_unpacked(packed: bytes, rows: int, inputs: int) -> list[list[float]]:
    values = []
    for block in range(rows * inputs // 128):
        (scale,) = struct.unpack_from("<e", packed, 18 * block)
        bits = packed[18 * block + 2 : 18 * block + 18]
        values += [scale if bits[i // 8] >> (i % 8) & 1 else -scale for i in range(128)]
    return [values[row * inputs : (row + 1) * inputs] for row in range(rows)]


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields and the tensors of a file, as gguf reads them."""
    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    return fields, {tensor.name: tensor for tensor in reader.tensors}


def as_matrix(tensor: Any) -> np.ndarray:
    if tensor.tensor_type.name != "Q1_0":
        return np.asarray(tensor.data, np.float32)
    inputs, rows = map(int, tensor.shape)
    return np.array(literally_unpacked(bytes(tensor.data.tobytes()), rows, inputs), np.float32)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 4),
    groups=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
    scales=st.lists(st.floats(2.0**-14, 60000, width=16), min_size=12, max_size=12),
)
def test_packed_bits_are_those_of_the_definition_and_give_the_weights_back(rows, groups, seed, scales):
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (rows, groups, 128))
    sizes = np.array(scales[: rows * groups]).reshape(rows, groups, 1)
    weight = (signs * sizes).reshape(rows, -1).astype(np.float32)
    packed = pack_q1_0(weight)
    assert packed.shape == (rows, groups * 18)
    assert packed.tobytes() == literal_q1_0(weight.tolist())
    assert literally_unpacked(packed.tobytes(), rows, 128 * groups) == weight.tolist()


@pytest.mark.parametrize("scale", [adaste.FanIn(), adaste.ChannelMean(), adaste.GroupMean(), adaste.Unit()], ids=str)
def test_a_scale_that_float16_lacks_is_rounded_to_the_nearest(scale: Any, tmp_path: Path) -> None:
    with binary(model := language_model(), scale):
        adaste.export_gguf(model, None, tmp_path / "model.gguf")
        weight = model.model.layers[0].mlp.down_proj.weight.detach().numpy()
    _, tensors = read(tmp_path / "model.gguf")
    found = as_matrix(tensors["blk.0.ffn_down.weight"])
    assert np.array_equal(found, weight.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("name", list(MODELS))
def test_every_tensor_of_a_model_is_in_its_file_with_its_values(name: str, tmp_path: Path) -> None:
    kind, changes = MODELS[name]
    with binary(model := language_model(kind, **changes)):
        adaste.export_gguf(model, None, tmp_path / "model.gguf", name="small")
        weights = {name: each.detach().clone().numpy() for name, each in model.named_parameters()}
    fields, tensors = read(tmp_path / "model.gguf")
    config, arch = model.config, fields["general.architecture"]
    assert arch == ("llama" if kind in ("Llama", "Mistral") else kind.lower())
    assert (fields["general.name"], fields["general.file_type"]) == ("small", 40)
    head = weights["model.layers.0.self_attn.q_proj.weight"].shape[0] // config.num_attention_heads
    wanted = {
        "context_length": 256,
        "embedding_length": 128,
        "feed_forward_length": 256,
        "block_count": 2,
        "attention.head_count": 4,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": head,
        "rope.freq_base": config.rope_parameters["rope_theta"],
    }
    assert {field: fields[f"{arch}.{field}"] for field in wanted} == wanted
    rope = [each for each in tensors if each == "rope_freqs.weight"]
    assert len(tensors) == len(weights) + len(rope)
    assert ("output.weight" in tensors) != config.tie_word_embeddings
    for mine, its in (("model.embed_tokens", "token_embd"), ("model.layers.1.mlp.up_proj", "blk.1.ffn_up")):
        assert np.array_equal(as_matrix(tensors[f"{its}.weight"]), weights[f"{mine}.weight"].astype(np.float16))
    for layer, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads)):
        found = as_matrix(tensors[f"blk.0.attn_{layer}.weight"]).reshape(heads, head, -1)
        real = weights[f"model.layers.0.self_attn.{layer}_proj.weight"].reshape(heads, head, -1)
        if arch == "llama":  # numbers 2 i and 2 i + 1 of a head turn together, where transformers has i and i + d / 2
            assert np.array_equal(found[:, 0::2], real[:, : head // 2])
            assert np.array_equal(found[:, 1::2], real[:, head // 2 :])
        else:
            assert np.array_equal(found, real)
    assert all(tensor.tensor_type.name == "F32" for tensor in tensors.values() if len(tensor.shape) == 1)


def test_a_file_is_less_than_a_ninth_of_that_in_float16(tmp_path: Path) -> None:
    model = language_model(vocab_size=256, hidden_size=384, intermediate_size=1024, num_attention_heads=6)
    adaste.export_gguf(model, None, tmp_path / "real.gguf", float_layers="*")
    with binary(model):
        adaste.export_gguf(model, None, tmp_path / "binary.gguf")
    real, one_bit = ((tmp_path / name).stat().st_size for name in ("real.gguf", "binary.gguf"))
    assert real / one_bit > 9
    assert read(tmp_path / "real.gguf")[0]["general.file_type"] == 1


def test_layers_that_are_not_binary_are_named_and_written_in_float16(tmp_path: Path) -> None:
    with (
        binary(model := language_model(), exclude=["lm_head", "*.down_proj"]),
        pytest.warns(UserWarning, match=r"0\.mlp\.down_proj\.weight.*, lm_head\.weight\.") as caught,
    ):
        adaste.export_gguf(model, None, tmp_path / "model.gguf")
    assert len(caught) == 1 and caught[0].filename == __file__
    _, tensors = read(tmp_path / "model.gguf")
    kinds = {name: tensor.tensor_type.name for name, tensor in tensors.items()}
    assert (kinds["output.weight"], kinds["blk.1.ffn_down.weight"], kinds["blk.1.ffn_up.weight"]) == (
        *("F16", "F16"),
        "Q1_0",
    )


def test_groups_of_another_size_are_not_binary_there(tmp_path: Path) -> None:
    with binary(model := language_model(), adaste.GroupMean(64)), pytest.warns(UserWarning, match="groups of 128"):
        adaste.export_gguf(model, None, tmp_path / "model.gguf")


def test_a_window_that_would_slide_ends_the_context(tmp_path: Path) -> None:
    model = language_model("Mistral", sliding_window=64)
    with binary(model), pytest.warns(UserWarning, match="its context is 64"):
        adaste.export_gguf(model, None, tmp_path / "model.gguf")
    assert read(tmp_path / "model.gguf")[0]["llama.context_length"] == 64


def test_byte_level_bpe_has_its_merges_and_special_tokens(tmp_path: Path) -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = "{{ messages }}"
    with binary(model := language_model(vocab_size=len(tokenizer) + 2)):
        adaste.export_gguf(model, tokenizer, tmp_path / "model.gguf")
    fields, _ = read(tmp_path / "model.gguf")
    tokens = fields["tokenizer.ggml.tokens"]
    assert tokens[:-2] == tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert tokens[-2:] == [f"[PAD{len(tokenizer)}]", f"[PAD{len(tokenizer) + 1}]"]
    assert fields["tokenizer.ggml.token_type"] == [3, *[1] * (len(tokenizer) - 1), 5, 5]
    assert (fields["tokenizer.ggml.model"], fields["tokenizer.ggml.pre"]) == ("gpt2", "gpt-2")
    assert fields["tokenizer.ggml.eos_token_id"] == 0
    assert not fields["tokenizer.ggml.add_bos_token"]
    assert fields["tokenizer.chat_template"] == "{{ messages }}"
    assert len(fields["tokenizer.ggml.merges"]) == len(tokenizer) - 257


@pytest.mark.parametrize(("digits", "name"), [("{1,3}", "llama-bpe"), ("", "qwen2")])
def test_the_expressions_of_llama_3_and_qwen2_are_known(digits: str, name: str, tmp_path: Path) -> None:
    from tokenizers import Regex, pre_tokenizers

    expression = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    tokenizer = byte_level_tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(expression), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    with binary(model := language_model(vocab_size=len(tokenizer))):
        adaste.export_gguf(model, tokenizer, tmp_path / "model.gguf")
    assert read(tmp_path / "model.gguf")[0]["tokenizer.ggml.pre"] == name


def test_sentence_piece_has_scores_in_the_order_of_its_merges(tmp_path: Path) -> None:
    tokenizer = sentence_piece_tokenizer()
    with binary(model := language_model(vocab_size=len(tokenizer))):
        adaste.export_gguf(model, tokenizer, tmp_path / "model.gguf")
    fields, _ = read(tmp_path / "model.gguf")
    assert fields["tokenizer.ggml.model"] == "llama"
    kinds = fields["tokenizer.ggml.token_type"]
    assert kinds[:4] == [2, 3, 3, 6] and kinds.count(6) == 256
    assert fields["tokenizer.ggml.add_bos_token"] and fields["tokenizer.ggml.add_space_prefix"]
    scores = dict(zip(fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.scores"], strict=True))
    merges = ["".join(pair) for pair in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]]
    assert len(set(merges)) > 20
    assert {token: scores[token] for token in merges} == {token: -merges.index(token) for token in merges}


def prefixed() -> Any:
    from tokenizers import pre_tokenizers

    tokenizer = byte_level_tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def without_end() -> Any:
    tokenizer = byte_level_tokenizer()
    tokenizer.eos_token = None
    return tokenizer


def unigram() -> Any:
    from tokenizers import Tokenizer, models

    made = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<unk>")


@pytest.mark.parametrize(
    ("tokenizer", "size", "message"),
    [
        (lambda: None, 255, "tokens are bytes"),
        (lambda: ["a", "b"], 3, "end of a line"),
        (lambda: ["a", "\n"], 2, "end of a text"),
        (lambda: ["a", "é", "\n"], 9, "ASCII, got 'é'"),
        (lambda: ["a", "ab", "\n"], 9, "ASCII, got 'ab'"),
        (lambda: ["a", "a", "\n"], 9, "each once"),
        (lambda: byte_level_tokenizer().backend_tokenizer, 999, "PreTrainedTokenizerFast"),
        (lambda: 3, 257, "got int"),
        (byte_level_tokenizer, 200, "the model has 200"),
        (without_end, 999, "eos_token"),
        (prefixed, 999, "add_prefix_space"),
        (unigram, 999, "Unigram"),
    ],
)
def test_a_tokenizer_without_a_form_there_is_refused(tokenizer, size: int, message: str, tmp_path: Path) -> None:
    with binary(model := language_model(vocab_size=size)), pytest.raises(ValueError, match=message):
        adaste.export_gguf(model, tokenizer(), tmp_path / "model.gguf")
    assert not list(tmp_path.iterdir())


def gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=257, n_embd=128, n_layer=1, n_head=2))


def without_head() -> nn.Module:
    return language_model().model


def with_adapter() -> nn.Module:
    model = language_model()
    model.model.layers[0].mlp.adapter = nn.Linear(128, 4)
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (gpt2, "got GPT2LMHeadModel"),
        (lambda: nn.Linear(128, 128), "got Linear"),
        (without_head, "got LlamaModel"),
        (lambda: language_model(hidden_act="gelu"), "hidden_act='gelu'"),
        (with_adapter, r"layers\.0\.mlp\.adapter\.weight has no place"),
        (lambda: language_model("Qwen3", attention_bias=True), r"q_proj\.bias has no place in llama.cpp's qwen3"),
        (
            lambda: language_model(
                rope_parameters={
                    "rope_type": "yarn",
                    "rope_theta": 1e4,
                    "factor": 4.0,
                    "original_max_position_embeddings": 64,
                }
            ),
            "rope_type",
        ),
    ],
)
def test_a_model_without_a_form_there_is_refused(make, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        adaste.export_gguf(make(), None, tmp_path / "model.gguf", float_layers="*")
    assert not list(tmp_path.iterdir())


def test_binary_layers_whose_inputs_do_not_fill_groups_are_listed_together(tmp_path: Path) -> None:
    model = language_model(intermediate_size=200, hidden_size=128)
    with binary(model), pytest.raises(ValueError, match=r"multiple of 128") as refused:
        adaste.export_gguf(model, None, tmp_path / "model.gguf")
    assert str(refused.value).count("down_proj.weight is binary, but has 200 inputs") == 2
    assert "up_proj" not in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("inputs", [200, 256], ids=["no groups of 128", "groups of 128"])
@pytest.mark.parametrize("real", ["F16", "F32"])
def test_binary_layers_that_are_named_become_real(inputs: int, real: Any, tmp_path: Path) -> None:
    """For those without whole groups the refusal says so."""
    with binary(model := language_model(intermediate_size=inputs), scale=adaste.ChannelMean()):
        if inputs % 128:
            with pytest.raises(ValueError, match=rf"name it in float_layers: it becomes {real}"):
                adaste.export_gguf(model, None, tmp_path / "model.gguf", real=real)
        named = ["*.down_proj", "model.layers.0.self_attn.q_proj.weight"]
        adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers=named, real=real)
        weights = {name: each.detach().clone().numpy() for name, each in model.named_parameters()}
    _, tensors = read(tmp_path / "model.gguf")
    kinds = {name: tensor.tensor_type.name for name, tensor in tensors.items() if len(tensor.shape) == 2}
    assert {name for name, kind in kinds.items() if kind != "Q1_0"} == {
        *("token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight", "blk.1.ffn_down.weight")
    }
    assert {kind for kind in kinds.values() if kind != "Q1_0"} == {real}
    kept = weights["model.layers.1.mlp.down_proj.weight"].astype(np.float16 if real == "F16" else np.float32)
    assert np.array_equal(as_matrix(tensors["blk.1.ffn_down.weight"]), kept)


@pytest.mark.parametrize("size", [1e-9, 1e6])
def test_scales_that_float16_cannot_hold_are_refused(size: float, tmp_path: Path) -> None:
    with binary(model := language_model(), exclude="*q_proj"):
        with torch.no_grad():
            model.model.layers[1].self_attn.q_proj.weight.fill_(size)
        with pytest.raises(ValueError, match=r"layers\.1.*q_proj.* do not fit into float16"):
            adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="model.layers.0.*")


def test_real_weights_that_float16_cannot_hold_can_be_written_as_float32(tmp_path: Path) -> None:
    model = language_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[3, 4] = 1e5
    with pytest.raises(ValueError, match=r"embed_tokens.* real='F32'"):
        adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="*")
    adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="*", real="F32")
    assert read(tmp_path / "model.gguf")[1]["token_embd.weight"].data[3, 4] == 1e5


def test_values_that_are_not_finite_are_listed_with_all_other_problems(tmp_path: Path) -> None:
    model = language_model("Qwen2", rope_parameters=MODELS["Qwen2, linear RoPE"][1]["rope_parameters"])
    model.model.layers[0].mlp.adapter = nn.Linear(128, 4)
    first, second = model.model.layers
    with binary(model, exclude=["*adapter*", "lm_head"]), torch.no_grad():
        first.self_attn.q_proj.weight[3, 4] = float("nan")
        first.self_attn.k_proj.bias[1] = float("nan")
        second.mlp.down_proj.weight[2, :128] = float("-inf")
        model.model.embed_tokens.weight[:2, 0] = float("nan")
        model.model.norm.weight[5] = float("inf")
        for real in ("F16", "F32"):
            with pytest.raises(ValueError, match="cannot be written as GGUF") as refused:
                adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="*proj", real=real)
            found = dict(line.strip().split(" has ") for line in str(refused.value).splitlines()[1:])
            assert {name: text.split(":")[0] for name, text in found.items()} == {
                "model.embed_tokens.weight": f"2 NaN or infinite values of {257 * 128}",
                "model.layers.0.self_attn.q_proj.weight": f"1 NaN or infinite values of {128 * 128}",
                "model.layers.0.self_attn.k_proj.bias": "1 NaN or infinite values of 128",
                "model.layers.0.mlp.adapter.weight": "no place in llama.cpp's qwen2",
                "model.layers.0.mlp.adapter.bias": "no place in llama.cpp's qwen2",
                "model.layers.1.mlp.down_proj.weight": f"128 NaN or infinite values of {256 * 128}",
                "model.norm.weight": "1 NaN or infinite values of 128",
            }
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("frequency", "value"), [(float("nan"), float("nan")), (0.0, 1e300)])
def test_factors_of_rope_and_numbers_beyond_float32_count_too(frequency: float, value: float, tmp_path: Path) -> None:
    kind, settings = MODELS["Llama 3's RoPE"]
    model = language_model(kind, **settings).double()
    with torch.no_grad():
        model.model.rotary_emb.inv_freq[1] = frequency
        model.model.norm.weight[0] = value
    with pytest.raises(ValueError, match=r"(?s)rope_freqs\.weight has 1 NaN or .*model\.norm\.weight has 1 NaN or "):
        adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="*")
    assert not list(tmp_path.iterdir())


def test_a_real_layer_that_vanishes_in_float16_is_refused(tmp_path: Path) -> None:
    model = language_model()
    with torch.no_grad():
        model.lm_head.weight.mul_(1e-9)
    with pytest.raises(ValueError, match=r"lm_head\.weight .* too small for float16: give real='F32'"):
        adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="*")
    adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="*", real="F32")


def test_what_is_asked_for_is_checked(tmp_path: Path, monkeypatch) -> None:
    model = language_model()
    with pytest.raises(ValueError, match=r"must end in \.gguf"):
        adaste.export_gguf(model, None, tmp_path / "model.bin")
    with pytest.raises(ValueError, match="F16"):
        adaste.export_gguf(model, None, tmp_path / "model.gguf", real="Q8_0")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float_layers"):
        adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="nothing")
    with pytest.raises(NotWrittenError, match="could not write"):
        adaste.export_gguf(model, None, tmp_path / "missing" / "model.gguf", float_layers="*")
    imported = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "gguf":
            raise ImportError("No module named 'gguf'")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingPackageError, match=r"\.\[gguf\]"):
        adaste.export_gguf(model, None, tmp_path / "model.gguf")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"old")

    def fail(self: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensors_to_file", fail)
    with pytest.raises(NotWrittenError, match="No space left"):
        adaste.export_gguf(language_model(), None, path, float_layers="*")
    assert path.read_bytes() == b"old" and [each.name for each in tmp_path.iterdir()] == ["model.gguf"]


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(
    "wrapped",
    [
        torch.compile,
        DataParallel,
        DistributedDataParallel,
        lambda model: torch.compile(DistributedDataParallel(model)),
        lambda model: DistributedDataParallel(torch.compile(model)),
    ],
    ids=["compiled", "DataParallel", "DDP", "compiled DDP", "DDP of compiled"],
)
@pytest.mark.usefixtures("one_process")
def test_a_wrapped_model_is_the_model(wrapped: Callable[[nn.Module], nn.Module], tmp_path: Path) -> None:
    model = language_model()
    for network, path in ((model, "one.gguf"), (wrapped(model), "two.gguf")):
        adaste.export_gguf(network, None, tmp_path / path, float_layers="*", name="x")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


@pytest.mark.usefixtures("one_process")
def test_a_model_in_shards_is_gathered(tmp_path: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = language_model()
    adaste.export_gguf(model, None, tmp_path / "whole.gguf", float_layers="*", name="x")
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    adaste.export_gguf(model, None, tmp_path / "shards.gguf", float_layers="*", name="x")
    assert (tmp_path / "shards.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()


@pytest.mark.parametrize("word", ["type", "rope_type"])
def test_the_rope_of_an_older_transformers_is_read_from_its_two_fields(word: str, tmp_path: Path) -> None:
    linear = {"rope_type": "linear", "factor": 4.0}
    model, older = (language_model("Qwen2", rope_parameters={"rope_theta": 500.0, **linear}) for _ in range(2))
    older.config.rope_parameters = None
    older.config.rope_theta, older.config.rope_scaling = 500.0, {word: "linear", "factor": 4.0}
    for network, path in ((model, "new.gguf"), (older, "old.gguf")):
        adaste.export_gguf(network, None, tmp_path / path, float_layers="*", name="x")
    fields = read(tmp_path / "new.gguf")[0]
    assert (fields["qwen2.rope.scaling.factor"], fields["qwen2.rope.freq_base"]) == (4.0, 500.0)
    assert (tmp_path / "new.gguf").read_bytes() == (tmp_path / "old.gguf").read_bytes()
