"""GGUF files in llama.cpp itself: they load, and its likelihoods and tokens are those of torch and transformers."""

from pathlib import Path

import pytest
import torch

import adaste
from benchmarks.language.in_llama_cpp import ask, log_likelihoods
from support.language_models import (
    MODELS,
    TEXTS,
    binary,
    byte_level_tokenizer,
    language_model,
    llama_tokenizer,
    needs_llama_cpp,
    qwen2_tokenizer,
    sentence_piece_tokenizer,
)

pytestmark = [pytest.mark.slow, needs_llama_cpp]

SEQUENCES = torch.randint(0, 256, (4, 60), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", list(MODELS))
def test_every_architecture_computes_what_torch_does(name: str, tmp_path: Path) -> None:
    """Weights in F32 show that all is in its place; llama.cpp rounds what meets Q1_0 to 8 bits."""
    kind, settings = MODELS[name]
    model = language_model(kind, **settings)
    adaste.export_gguf(model, None, tmp_path / "real.gguf", float_layers="*", real="F32")
    wanted = log_likelihoods(model, SEQUENCES)
    found = torch.tensor(ask(tmp_path / "real.gguf", SEQUENCES.tolist())["likelihoods"])
    assert (found - wanted).abs().max() < 0.01
    with binary(model):
        adaste.export_gguf(model, None, tmp_path / "binary.gguf")
        wanted = log_likelihoods(model, SEQUENCES)
    found = torch.tensor(ask(tmp_path / "binary.gguf", SEQUENCES.tolist())["likelihoods"])
    assert (found - wanted).abs().max() < 0.15
    assert abs(float((found - wanted).mean())) < 0.01


def test_a_head_that_is_real_stands_beside_binary_layers(tmp_path: Path) -> None:
    model = language_model()
    with binary(model, exclude="lm_head"):
        adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="lm_head")
        wanted = log_likelihoods(model, SEQUENCES)
    found = torch.tensor(ask(tmp_path / "model.gguf", SEQUENCES.tolist())["likelihoods"])
    assert abs(float((found - wanted).mean())) < 0.01


@pytest.mark.parametrize("make", [byte_level_tokenizer, sentence_piece_tokenizer, llama_tokenizer, qwen2_tokenizer])
def test_texts_have_the_tokens_of_the_tokenizer(make, tmp_path: Path) -> None:
    tokenizer = make()
    model = language_model(vocab_size=len(tokenizer) + 5)
    with binary(model):
        adaste.export_gguf(model, tokenizer, tmp_path / "model.gguf")
    texts = [*TEXTS, "the hello cat", "mat  on\n\nthree", ""]
    if make is not llama_tokenizer:  # it puts no space before a text that has one, llama.cpp does
        texts.append(" a")
    found = ask(tmp_path / "model.gguf", texts=texts)
    assert found["tokens"] == [tokenizer(text, add_special_tokens=False).input_ids for text in texts]
    assert [text.strip() for text in found["texts"]] == [text.strip() for text in texts]


@pytest.mark.parametrize("size", [256, 257, 300])
def test_bytes_are_their_own_tokens(size: int, tmp_path: Path) -> None:
    with binary(model := language_model(vocab_size=size)):
        adaste.export_gguf(model, None, tmp_path / "model.gguf")
    found = ask(tmp_path / "model.gguf", texts=TEXTS)
    assert found["tokens"] == [list(text.encode()) for text in TEXTS]


def test_characters_are_their_own_tokens(tmp_path: Path) -> None:
    characters = sorted(set("the cat sat on the mat, one two three!\n"))
    with binary(model := language_model(vocab_size=len(characters) + 1)):
        adaste.export_gguf(model, characters, tmp_path / "model.gguf")
    found = ask(tmp_path / "model.gguf", texts=["two cats?\non the mat"])
    assert found["tokens"] == [[characters.index(each) for each in "two cats\non the mat"]], "? is not known"
