"""GGUF files in llama.cpp as the package xllamacpp has it: it continues tokens as torch does, with its likelihoods.

test_gguf_in_llama_cpp.py compares more, and needs node.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import adaste
from support.language_models import MODELS, binary, byte_level_tokenizer, language_model
from support.pages import ROOT

pytestmark = pytest.mark.slow

xllamacpp = pytest.importorskip("xllamacpp", reason="xllamacpp is not installed")

PROMPT = list(b"the cat sat on the mat, one two three")


def continued(path: Path, prompt: list[int], count: int) -> tuple[list[int], torch.Tensor]:
    """The likeliest letters after a prompt, one after the other, and their log-likelihoods.

    Other bytes are forbidden: an answer leaves out those that are no whole characters.
    """
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.verbosity, settings.cpuparams.n_threads = str(path), 256, 0, 1
    question: dict[str, Any] = {"prompt": prompt, "max_tokens": count, "temperature": 0.0, "logprobs": 1}
    question["logit_bias"] = [[token, False] for token in range(128, 257)]
    answer = xllamacpp.Server(settings).handle_completions(question)
    steps = answer["choices"][0]["logprobs"]["content"]
    return [step["id"] for step in steps], torch.tensor([step["logprob"] for step in steps])


@pytest.mark.parametrize("name", list(MODELS))
def test_every_architecture_continues_tokens_as_torch_does(name: str, tmp_path: Path) -> None:
    """llama.cpp rounds activations to 8 bits, so a token may be another one that is nearly as likely."""
    kind, settings = MODELS[name]
    with binary(model := language_model(kind, **settings)), torch.no_grad():
        adaste.export_gguf(model, None, tmp_path / "model.gguf")
        tokens, found = continued(tmp_path / "model.gguf", PROMPT, 16)
        logits = model(input_ids=torch.tensor([PROMPT + tokens])).logits[0, len(PROMPT) - 1 : -1]
    wanted = logits.log_softmax(-1)
    assert len(tokens) == 16
    chosen = wanted[range(len(tokens)), tokens]
    assert (chosen - found).abs().max() < 0.15
    assert (wanted[:, :128].amax(-1) - chosen).max() < 0.15


def test_layers_whose_inputs_are_no_groups_of_128_may_be_real(tmp_path: Path) -> None:
    with binary(model := language_model(intermediate_size=200), adaste.ChannelMean()), torch.no_grad():
        adaste.export_gguf(model, None, tmp_path / "model.gguf", float_layers="*.down_proj")
        tokens, found = continued(tmp_path / "model.gguf", PROMPT, 16)
        logits = model(input_ids=torch.tensor([PROMPT + tokens])).logits[0, len(PROMPT) - 1 : -1]
    assert (logits.log_softmax(-1)[range(16), tokens] - found).abs().max() < 0.15


def test_the_example_continues_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    tokenizer = byte_level_tokenizer()
    with binary(model := language_model(vocab_size=len(tokenizer))):
        adaste.export_gguf(model, tokenizer, tmp_path / "model.gguf")
    printed = import_module("complete_gguf").main(tmp_path / "model.gguf", "the cat", tokens=8)
    assert printed.startswith("the cat") and len(printed) > len("the cat")
    with pytest.raises(SystemExit, match=r"llama\.cpp: .*exceeds the available context"):
        import_module("complete_gguf").main(tmp_path / "model.gguf", "xy" * 1000)
