"""Small language models of transformers with one-bit weights, their tokenizers, and llama.cpp to compare them with."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import adaste
from benchmarks.language.in_llama_cpp import is_installed

transformers = pytest.importorskip("transformers")

SCALE = adaste.GroupMean(128, half_precision=True)
TEXTS = ["Hello, world!\n", "one  two   three", "It's 1234 o'clock; naïve café — €5", "def f(x):\n    return x\n"]

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama, tied head": ("Llama", {"tie_word_embeddings": True}),
    "Llama, grouped queries": ("Llama", {"num_key_value_heads": 2}),
    "Llama, biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "Llama, wide heads": ("Llama", {"head_dim": 64, "num_key_value_heads": 1}),
    "Llama 3's RoPE": (
        "Llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "Mistral": ("Mistral", {"num_key_value_heads": 2, "sliding_window": None}),
    "Qwen2": ("Qwen2", {"num_key_value_heads": 2}),
    "Qwen2, linear RoPE": ("Qwen2", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}),
    "Qwen3": ("Qwen3", {"num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": True}),
}


def language_model(kind: str = "Llama", **settings: Any) -> Any:
    """A model with two blocks, whose norms and biases are not what they begin with."""
    shape = {
        "vocab_size": 257,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 256,
    }
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**(shape | settings))
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
            else:
                parameter.normal_(float("norm" in name), 0.3)
    return model


@contextmanager
def binary(model: nn.Module, scale: Any = SCALE, exclude: Any = None) -> Iterator[adaste.LatentOptimizer]:
    """Inside, the weights of the model are binary."""
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model, exclude=exclude),
        base=partial(torch.optim.AdamW, lr=1e-3),
        estimator=adaste.Scaled(adaste.StraightThrough(), scale),
    )
    with optimizer.binarized(model):
        yield optimizer


def byte_level_tokenizer(**settings: Any) -> Any:
    """GPT-2's kind of tokenizer, trained on a few sentences."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    made.train_from_iterator(TEXTS * 3, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", **settings)


def sentence_piece_tokenizer(**settings: Any) -> Any:
    """Llama 2's kind of tokenizer: BPE on pieces with a mark for a space, single bytes for what it does not know."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=[*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    )
    made.train_from_iterator(["the cat sat on the mat", "one two three", "hello hello world"] * 3, trainer)
    # The trainer makes every special token an added one; bytes are pieces of the model.
    plain = json.loads(made.to_str())
    plain["added_tokens"] = [token for token in plain["added_tokens"] if token["content"] in special]
    made = Tokenizer.from_str(json.dumps(plain))
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", **settings
    )


def _pieces(tokenizer: Any) -> dict[str, Any]:
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(pair) for pair in model["merges"]]}


def llama_tokenizer() -> Any:
    """Transformers' own for Llama 2."""
    return transformers.LlamaTokenizer(**_pieces(sentence_piece_tokenizer()))


def qwen2_tokenizer() -> Any:
    """Transformers' own for Qwen2."""
    return transformers.Qwen2Tokenizer(**_pieces(byte_level_tokenizer()))


needs_llama_cpp = pytest.mark.skipif(not is_installed(), reason="node-llama-cpp is not installed: make llama")
