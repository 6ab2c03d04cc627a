"""The vocabulary of a language model in the words of llama.cpp."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary as GGUF has it.

    Args:
        model: `gpt2` for byte-level BPE, `llama` for SentencePiece.
        pre: The name of the rule that divides a text before BPE.
        tokens: The tokens in order; those of `gpt2` have GPT-2's characters for bytes.
        kinds: The kind of each, by its name in gguf.TokenType.
        eos: The token that ends a text.
        bos: The token that begins one.
        pad: The token that fills up.
        unknown: The token of what no other stands for.
        scores: For `llama`: tokens with a larger one are merged first.
        merges: For `gpt2`: pairs of tokens, with a space between, in the order of merging.
        adds_bos: Whether every text gets `bos`.
        adds_eos: Whether every text gets `eos`.
        adds_space: Whether every text gets a space in front.
        chat_template: The template of a conversation.
    """

    model: str
    pre: str
    tokens: list[str]
    kinds: list[str]
    eos: int
    bos: int | None = None
    pad: int | None = None
    unknown: int | None = None
    scores: list[float] | None = None
    merges: list[str] | None = None
    adds_bos: bool = False
    adds_eos: bool = False
    adds_space: bool = False
    chat_template: str | None = None


_LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)

SPLITS = MappingProxyType({_LLAMA_3: "llama-bpe", _LLAMA_3.replace("{1,3}", ""): "qwen2"})
"""llama.cpp's names of the expressions that divide a text."""


def vocabulary_of(tokenizer: Any, size: int) -> Vocabulary:
    """Return the vocabulary of a tokenizer for a model with `size` tokens; raise ValueError if it has no form there."""
    if tokenizer is None:
        return _of_bytes(size)
    if isinstance(tokenizer, Sequence) and all(isinstance(token, str) for token in tokenizer):
        return _of_characters(list(tokenizer), size)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(
            "tokenizer must be a fast tokenizer of transformers, a list of characters, or None for bytes; got "
            f"{type(tokenizer).__name__}. One of the package tokenizers becomes one of transformers by "
            "transformers.PreTrainedTokenizerFast(tokenizer_object=..., eos_token=...)"
        )
    return _of_transformers(tokenizer, json.loads(backend.to_str()), size)


def byte_characters() -> list[str]:
    """Return GPT-2's character for each byte: itself where it is visible, else one of the next free from 256 on."""
    visible = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return [chr(byte if byte in visible else next(others)) for byte in range(256)]


def _of_bytes(size: int) -> Vocabulary:
    if size < 256:
        raise ValueError(f"tokenizer=None means that tokens are bytes, of which there are 256; the model has {size}")
    tokens, kinds = byte_characters(), ["NORMAL"] * 256
    if size > 256:
        return _single(tokens, kinds, size)
    kinds[255] = "CONTROL"  # a byte that no text has
    return Vocabulary("gpt2", "gpt-2", tokens, kinds, eos=255, bos=255, merges=_no_merges(tokens[255]))


def _of_characters(characters: list[str], size: int) -> Vocabulary:
    wrong = [each for each in characters if len(each) != 1 or not each.isascii()]
    if wrong or len(set(characters)) != len(characters):
        raise ValueError(
            f"a list of characters must have each once, and in ASCII, got {wrong[0] if wrong else characters!r}: use "
            "bytes (tokenizer=None) or a tokenizer of transformers for other texts"
        )
    if "\n" not in characters:
        raise ValueError("llama.cpp needs a token for the end of a line: '\\n' is missing among the characters")
    if size <= len(characters):
        raise ValueError(
            f"llama.cpp needs a token for the end of a text: the model has {size} tokens for {len(characters)} "
            f"characters, give it {len(characters) + 1} (vocab_size) or more"
        )
    letters = byte_characters()
    return _single([letters[ord(each)] for each in characters], ["NORMAL"] * len(characters), size)


def _single(tokens: list[str], kinds: list[str], size: int) -> Vocabulary:
    """Return a vocabulary without merges, with a token for the end behind the others."""
    end = "<|endoftext|>"
    tokens, kinds = _filled([*tokens, end], [*kinds, "CONTROL"], size)
    return Vocabulary(
        "gpt2", "gpt-2", tokens, kinds, eos=tokens.index(end), bos=tokens.index(end), merges=_no_merges(end)
    )


def _no_merges(control: str) -> list[str]:
    """Return one merge that never applies: llama.cpp refuses a file without any."""
    return [f"{control} {control}"]


def _filled(tokens: list[str], kinds: list[str], size: int) -> tuple[list[str], list[str]]:
    """Return the vocabulary with as many tokens as the model has, which often are some more."""
    missing = range(len(tokens), size)
    return [*tokens, *(f"[PAD{place}]" for place in missing)], [*kinds, *("UNUSED" for _ in missing)]


def _of_transformers(tokenizer: Any, plain: Mapping[str, Any], size: int) -> Vocabulary:
    model = plain["model"]
    if model["type"] != "BPE":
        raise ValueError(
            f"llama.cpp's Llama needs a BPE tokenizer (byte-level as GPT-2's, or SentencePiece's with byte_fallback), "
            f"got {type(tokenizer).__name__} with a {model['type']} model"
        )
    if tokenizer.eos_token_id is None:
        raise ValueError("llama.cpp needs a token for the end of a text: give the tokenizer an eos_token")
    added = {token["id"]: token for token in plain["added_tokens"]}
    by_id = {number: token for token, number in model["vocab"].items()}
    by_id |= {number: token["content"] for number, token in added.items()}
    if sorted(by_id) != list(range(len(by_id))) or len(by_id) > size:
        raise ValueError(
            f"the tokenizer has {len(by_id)} tokens, with numbers up to {max(by_id)}, and the model has {size}: it "
            "must have as many or more, and the numbers no gaps"
        )
    merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    single = tokenizer("a").input_ids
    special: dict[str, Any] = {
        "eos": tokenizer.eos_token_id,
        "bos": tokenizer.bos_token_id,
        "pad": tokenizer.pad_token_id,
        "unknown": tokenizer.unk_token_id,
        "adds_bos": tokenizer.bos_token_id is not None and single[0] == tokenizer.bos_token_id,
        "adds_eos": len(single) > 1 and single[-1] == tokenizer.eos_token_id,
        "chat_template": tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else None,
    }
    tokens = [by_id[number] for number in range(len(by_id))]
    kinds = [_kind(token, added.get(number)) for number, token in enumerate(tokens)]
    if special["unknown"] is not None:
        kinds[special["unknown"]] = "UNKNOWN"
    tokens, kinds = _filled(tokens, kinds, size)
    if model["byte_fallback"]:
        # SentencePiece merges the pair whose result has the best score; here the first merge is the best.
        ranks: dict[str, int] = {}
        for rank, (left, right) in enumerate(merges):
            ranks.setdefault(left + right, rank)
        scores = [-float(ranks.get(token, len(merges))) for token in tokens]
        return Vocabulary(
            "llama", "default", tokens, kinds, scores=scores, adds_space=_prepends_space(plain), **special
        )
    kinds = ["NORMAL" if kind == "BYTE" else kind for kind in kinds]
    joined = [f"{left} {right}" for left, right in merges] or _no_merges(tokens[tokenizer.eos_token_id])
    return Vocabulary("gpt2", _split_name(plain), tokens, kinds, merges=joined, **special)


def _kind(token: str, added: Mapping[str, Any] | None) -> str:
    if added is not None:
        return "CONTROL" if added["special"] else "USER_DEFINED"
    is_byte = len(token) == 6 and token.startswith("<0x") and token.endswith(">")
    return "BYTE" if is_byte else "NORMAL"


def _parts(part: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the parts of a pre-tokenizer or normalizer, which may be one alone, a sequence, or missing."""
    if part is None:
        return []
    return list(part.get("pretokenizers") or part.get("normalizers") or [part])


def _prepends_space(plain: Mapping[str, Any]) -> bool:
    return any(
        part["type"] == "Prepend" or (part["type"] == "Metaspace" and part["prepend_scheme"] != "never")
        for part in (*_parts(plain["normalizer"]), *_parts(plain["pre_tokenizer"]))
    )


def _split_name(plain: Mapping[str, Any]) -> str:
    """Return llama.cpp's name of the rule that divides a text before byte-level BPE."""
    parts = _parts(plain["pre_tokenizer"])
    changed = [part["type"] for part in _parts(plain["normalizer"]) if part["type"] != "NFC"]
    if not changed and parts and parts[-1]["type"] == "ByteLevel" and not parts[-1]["add_prefix_space"]:
        if len(parts) == 1 and parts[0]["use_regex"]:
            return "gpt-2"
        if len(parts) == 2 and parts[0]["type"] == "Split" and not parts[1]["use_regex"]:
            name = SPLITS.get(parts[0]["pattern"].get("Regex", ""))
            if name is not None:
                return name
    raise ValueError(
        "llama.cpp divides a text before byte-level BPE as GPT-2, Llama 3 or Qwen2 do, without normalizing it: this "
        f"tokenizer has normalizer={plain['normalizer']} and pre_tokenizer={plain['pre_tokenizer']}; a new one gets "
        "tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)"
    )
