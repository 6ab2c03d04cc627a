"""A language model as a GGUF file for llama.cpp: binary linear layers as Q1_0, everything else as F16 or F32.

Q1_0 stores 128 consecutive inputs of an output in 18 bytes: the scale d as float16, then a bit for each input, the
least significant first, 1 for +d and 0 for -d.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from adaste._util.checks import list_names, matches, no_match
from adaste._util.files import write_atomically
from adaste._util.packages import require_package
from adaste._util.warnings import warn_user
from adaste.packed.vocabulary import Vocabulary, vocabulary_of

Array = NDArray[Any]

GROUP = 128
"""Inputs that share a scale in Q1_0."""

_ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
_LINEAR = (*_ATTENTION, "ffn_gate", "ffn_up", "ffn_down", "output")


@dataclass(frozen=True)
class Architecture:
    """The facts about one kind of network in llama.cpp.

    Args:
        name: Its name in GGUF.
        interleaved: Whether the two numbers that RoPE rotates together are neighbours there; they are half a head apart
            in transformers.
        biases: The layers that may have a bias.
        scaled_rope: The ways of scaling RoPE, in the words of transformers, that can be written.
    """

    name: str
    interleaved: bool = False
    biases: tuple[str, ...] = ()
    scaled_rope: tuple[str, ...] = ("default", "linear")


_LLAMA = Architecture("llama", interleaved=True, biases=_LINEAR[:-1], scaled_rope=("default", "linear", "llama3"))

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "llama": _LLAMA,
        "mistral": _LLAMA,
        "qwen2": Architecture("qwen2", biases=_ATTENTION[:3]),
        "qwen3": Architecture("qwen3"),
    }
)
"""By the `model_type` of transformers."""

_NAMES = MappingProxyType(
    {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
)
"""The layers of GGUF by those of transformers; both number their blocks."""


class _Tensor(NamedTuple):
    name: str
    values: Array
    kind: str
    """F32, F16 or Q1_0."""


def export_gguf(
    model: nn.Module,
    tokenizer: Any,
    path: str | Path,
    *,
    float_layers: str | Iterable[str] = (),
    real: Literal["F16", "F32"] = "F16",
    name: str | None = None,
) -> None:
    """Write a language model of transformers as a GGUF file, which llama.cpp and the programs around it run.

        with optimizer.binarized(model): adaste.export_gguf(model, tokenizer, "model.gguf")

    The model is a Llama, Mistral, Qwen2 or Qwen3 for causal language modelling. A linear layer becomes Q1_0, 18 bytes
    per 128 weights, if its weights are +-s with one s per 128 consecutive inputs or more, which the scales `FanIn`,
    `ChannelMean` and `GroupMean(128)` give. The file has s as float16: only `GroupMean(128, half_precision=True)`
    trains with such numbers, others are rounded. Norms and biases are F32. Under FSDP2 all ranks must call it.

    Args:
        model: The network, with the weights that it is to have in the file; it may be compiled, or wrapped by DDP.
        tokenizer: A fast tokenizer of transformers (byte-level BPE, or SentencePiece's BPE with bytes as fallback). Or
            the characters that the tokens stand for, in ASCII and in order; the model needs one more token for the end
            of a text. Or None, where the tokens are bytes, and token 256, if the model has it, the end.
        path: The file to write; its name ends in `.gguf`.
        float_layers: Patterns of names of linear layers, or of their weights, that are to be real in the file, also if
            they are binary. Others that are not binary are named in a warning.
        real: The type of embeddings and of real layers.
        name: The model's name for readers of the file; that of the file by default.

    Raises:
        MissingPackageError: If the package gguf is missing.
        ValueError: If the model or the tokenizer has no form in GGUF. Nothing has been written then.
        NotWrittenError: If the file cannot be written.
    """
    with require_package("gguf", extra="gguf", purpose="adaste.export_gguf"):
        import gguf
    if not hasattr(gguf.GGMLQuantizationType, "Q1_0"):
        raise ValueError("this version of the package gguf does not know Q1_0: pip install 'gguf>=0.19'")
    path = Path(path)
    if path.suffix != ".gguf":
        raise ValueError(f"the name of a GGUF file must end in .gguf, got {path}")
    if real not in ("F16", "F32"):
        raise ValueError(f"real must be 'F16' or 'F32', got {real!r}")
    network = _unwrap(model)
    architecture = _architecture_of(network)
    patterns = (float_layers,) if isinstance(float_layers, str) else tuple(float_layers)
    tensors = _tensors(network, architecture, patterns, real)
    vocabulary = vocabulary_of(tokenizer, network.config.vocab_size)

    writer = gguf.GGUFWriter(None, architecture.name)
    writer.add_name(path.stem if name is None else name)
    _add_settings(writer, network.config)
    _add_vocabulary(writer, vocabulary, gguf.TokenType)
    kinds = {tensor.kind for tensor in tensors}
    file_type = "MOSTLY_Q1_0" if "Q1_0" in kinds else "MOSTLY_F16" if "F16" in kinds else "ALL_F32"
    writer.add_file_type(gguf.LlamaFileType[file_type])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for tensor in tensors:
        writer.add_tensor(tensor.name, tensor.values, raw_dtype=gguf.GGMLQuantizationType[tensor.kind])

    def write(file: BinaryIO) -> None:
        writer.fout, writer.state = [file], gguf.gguf_writer.WriterState.EMPTY  # a file that is open already
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()

    write_atomically(path, write)


def pack_q1_0(weight: Array) -> NDArray[np.uint8]:
    """Return binary weights (outputs, inputs) in the form Q1_0: (outputs, inputs / 128 * 18) bytes."""
    groups = weight.reshape(len(weight), -1, GROUP)
    scales = np.abs(groups[..., :1]).astype("<f2")
    bits = np.packbits(groups > 0, axis=-1, bitorder="little")
    return np.concatenate([scales.view(np.uint8), bits], axis=-1).reshape(len(weight), -1)


def _unwrap(model: nn.Module) -> Any:
    """Return the network that torch.compile, DDP and DataParallel have wrapped."""
    network: Any = model
    while True:
        if hasattr(network, "_orig_mod"):
            network = network._orig_mod
        elif isinstance(network, DistributedDataParallel | DataParallel):
            network = network.module
        else:
            return network


def _architecture_of(model: nn.Module) -> Architecture:
    config: Any = getattr(model, "config", None)
    kind, named = str(getattr(config, "model_type", "")), type(model).__name__
    if kind not in ARCHITECTURES or not named.endswith("ForCausalLM"):
        raise ValueError(
            f"a GGUF file can hold transformers' LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and "
            f"Qwen3ForCausalLM, got {named}: load the weights of a network of the same form into one of these"
        )
    if config.hidden_act != "silu":
        raise ValueError(f"{named} in llama.cpp has the activation silu, this one has hidden_act={config.hidden_act!r}")
    architecture, rope = ARCHITECTURES[kind], _rope_of(config)
    if rope["rope_type"] not in architecture.scaled_rope or rope.get("partial_rotary_factor", 1) != 1:
        raise ValueError(
            f"RoPE of {named} can be written if rope_type is one of {', '.join(architecture.scaled_rope)}, and if it "
            f"turns whole heads; got {rope}"
        )
    return architecture


def _rope_of(config: Any) -> Mapping[str, Any]:
    """Return the settings of RoPE, which transformers before version 5 has in two fields."""
    if getattr(config, "rope_parameters", None) is not None:
        found: Mapping[str, Any] = config.rope_parameters
        return found
    scaling = config.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    return {**scaling, "rope_theta": config.rope_theta, "rope_type": kind}


def _rope_factors(model: Any) -> Iterator[_Tensor]:
    """Yield the divisors of RoPE's frequencies, where Llama 3 scales some of them."""
    rope = _rope_of(model.config)
    if rope["rope_type"] == "llama3":
        scaled = model.model.rotary_emb.inv_freq.detach().float().cpu()
        plain = rope["rope_theta"] ** -(torch.arange(len(scaled)) / len(scaled))
        yield _Tensor("rope_freqs.weight", (plain / scaled).numpy(), "F32")


def _tensors(model: Any, architecture: Architecture, patterns: tuple[str, ...], real: str) -> list[_Tensor]:
    """Return all parameters as the file has them; raise ValueError that lists all that it cannot have."""
    parameters = dict(model.named_parameters())
    _check_patterns(patterns, list(parameters))
    made, soft = list(_rope_factors(model)), []
    problems = [problem for tensor in made if (problem := _describe_not_finite(tensor.name, tensor.values))]
    for name, parameter in parameters.items():
        layer, _, role = name.rpartition(".")
        block, known = _place(layer)
        if known is None or (role == "bias" and known not in architecture.biases):
            problems.append(f"{name} has no place in llama.cpp's {architecture.name}")
            continue
        whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter  # one in shards is gathered
        values = whole.detach().to("cpu", torch.float32).numpy()
        if problem := _describe_not_finite(name, values):
            problems.append(problem)
            continue
        if architecture.interleaved and known in ("attn_q", "attn_k"):
            config = model.config
            values = _interleave(values, config.num_attention_heads if known == "attn_q" else _kv_heads(config))
        kind = "F32" if values.ndim == 1 else real
        if known in _LINEAR and role == "weight" and not any(matches(pattern, name) for pattern in patterns):
            if not _is_binary(values):
                soft.append(name)
            elif problem := _lacks(values):
                problems.append(f"{name} is binary, but {problem}, or name it in float_layers: it becomes {real}")
                continue
            else:
                values, kind = pack_q1_0(values), "Q1_0"
        if kind == "F16":
            values = _to_half(name, values, problems)
        made.append(_Tensor(f"{block}{known}.{role}", values, kind))
    if problems:
        raise ValueError("\n  ".join(["this model cannot be written as GGUF:", *problems]))
    _warn_of_real(soft, real)
    return made


def _describe_not_finite(name: str, values: Array) -> str:
    """Return what is wrong with values that are NaN or infinite in float32; an empty text where there are none."""
    count = values.size - np.count_nonzero(np.isfinite(values))
    if not count:
        return ""
    return (
        f"{name} has {count} NaN or infinite values of {values.size}: load a state of before they arose, and look at "
        "the loss and the learning rate"
    )


def _place(layer: str) -> tuple[str, str | None]:
    """Return the block of a layer, as a prefix, and its name in GGUF, None where it has none."""
    if layer.startswith("model.layers."):
        _, _, number, rest = layer.split(".", 3)
        return f"blk.{number}.", _NAMES.get(rest)
    return "", _NAMES.get(layer)


def _kv_heads(config: Any) -> int:
    return int(config.num_key_value_heads or config.num_attention_heads)


def _interleave(values: Array, heads: int) -> Array:
    """Return the rows of q or k in llama.cpp's order: the two that RoPE rotates together beside each other."""
    by_head = values.reshape(heads, 2, -1, *values.shape[1:])
    return np.ascontiguousarray(by_head.swapaxes(1, 2)).reshape(values.shape)


def _is_binary(values: Array) -> bool:
    """Return whether all weights of an output have one size in each group of inputs; the last may be short."""
    sizes, starts = np.abs(values), np.arange(0, values.shape[1], GROUP)
    smallest = np.minimum.reduceat(sizes, starts, axis=1)
    return bool(np.all(smallest > 0) and np.array_equal(smallest, np.maximum.reduceat(sizes, starts, axis=1)))


def _lacks(values: Array) -> str:
    """Return why binary weights cannot be Q1_0; an empty text where they can."""
    if values.shape[1] % GROUP:
        return (
            f"has {values.shape[1]} inputs, which is no multiple of {GROUP} as Q1_0 needs it: choose hidden_size, "
            "intermediate_size and num_attention_heads * head_dim so"
        )
    sizes = np.abs(values[:, ::GROUP])
    with np.errstate(over="ignore"):
        stored = sizes.astype(np.float16)
    if np.all((stored > 0) & np.isfinite(stored)):
        return ""
    return (
        f"its scales, {sizes.min():.3g} to {sizes.max():.3g}, do not fit into float16 (6e-08 to 65504): give the "
        "method latents of a usual size, or another scale"
    )


def _to_half(name: str, values: Array, problems: list[str]) -> Array:
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    fault = "large" if not np.isfinite(half).all() else "small" if values.any() and not half.any() else ""
    if fault:
        problems.append(f"{name} has values up to {np.abs(values).max():.3g}, too {fault} for float16: give real='F32'")
    return half


def _check_patterns(patterns: tuple[str, ...], names: list[str]) -> None:
    for pattern in patterns:
        if not any(matches(pattern, name) for name in names):
            raise no_match("float_layers", pattern, names)


def _warn_of_real(soft: list[str], real: str) -> None:
    if soft:
        warn_user(
            f"not binary in groups of {GROUP} inputs, and written as {real}: {list_names(soft)}. Export inside "
            f"`with optimizer.binarized(model):`, with a scale per layer, output or {GROUP} inputs. Layers that are to "
            "be real can be named in float_layers"
        )


def _add_settings(writer: Any, config: Any) -> None:
    """Add the shape of the network to the file."""
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    window = getattr(config, "sliding_window", None)
    context = config.max_position_embeddings
    if window is not None and window < context:
        context = window
        warn_user(
            f"llama.cpp does not slide a window over this network: the file says that its context is {window} tokens, "
            "as many as one window has, where both compute the same"
        )
    writer.add_context_length(context)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(_kv_heads(config))
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(head)
    rope = _rope_of(config)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_string(f"{writer.arch}.rope.scaling.type", "linear")
        writer.add_rope_scaling_factor(rope["factor"])
    writer.add_vocab_size(config.vocab_size)


def _add_vocabulary(writer: Any, vocabulary: Vocabulary, kinds: Any) -> None:
    writer.add_tokenizer_model(vocabulary.model)
    writer.add_tokenizer_pre(vocabulary.pre)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types([kinds[kind] for kind in vocabulary.kinds])
    optional: list[tuple[Callable[[Any], None], Any]] = [
        (writer.add_token_scores, vocabulary.scores),
        (writer.add_token_merges, vocabulary.merges),
        (writer.add_bos_token_id, vocabulary.bos),
        (writer.add_eos_token_id, vocabulary.eos),
        (writer.add_pad_token_id, vocabulary.pad),
        (writer.add_unk_token_id, vocabulary.unknown),
        (writer.add_chat_template, vocabulary.chat_template),
    ]
    for add, value in optional:
        if value is not None:
            add(value)
    writer.add_add_bos_token(vocabulary.adds_bos)
    writer.add_add_eos_token(vocabulary.adds_eos)
    writer.add_add_space_prefix(vocabulary.adds_space)
