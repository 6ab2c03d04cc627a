"""A Llama in plain torch, with dropout as in nanoGPT; its parameters have the names and shapes of Hugging Face's."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROPE_BASE = 10_000.0
EPS = 1e-5


@dataclass(frozen=True)
class Shape:
    """The shape of a Llama: as many key and value heads as heads, embedding and output tied.

    Args:
        tokens: The size of the vocabulary.
        layers: The number of blocks.
        width: The hidden size.
        heads: Attention heads of a block.
        intermediate: The width between the linear layers of a block.
        context: The most tokens of a sequence.
        dropout: Of embeddings, attention and the outputs of both halves of a block.
    """

    tokens: int
    layers: int = 6
    width: int = 384
    heads: int = 6
    intermediate: int = 1024
    context: int = 256
    dropout: float = 0.2


class Attention(nn.Module):
    """Causal self-attention with rotary positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(shape.width, shape.width, bias=False))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return what each token reads from itself and those before it."""
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in self._read())
        share = self.dropout if self.training else 0.0
        q, k = _turn(q, cos, sin), _turn(k, cos, sin)
        seen = F.scaled_dot_product_attention(q, k, v, dropout_p=share, is_causal=True)
        return self.o_proj(seen.transpose(1, 2).flatten(2))

    def _read(self) -> tuple[Any, Any, Any]:
        return self.q_proj, self.k_proj, self.v_proj


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (x * cos + turned * sin).to(x.dtype)


class Gated(nn.Module):
    """The gated linear layers of a block: down(silu(gate(x)) up(x))."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for every token."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """Attention and gated layers, each behind a norm and beside a shortcut."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = Gated(shape)
        self.input_layernorm = nn.RMSNorm(shape.width, eps=EPS)
        self.post_attention_layernorm = nn.RMSNorm(shape.width, eps=EPS)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the tokens after the block."""
        x = x + self.dropout(self.self_attn(self.input_layernorm(x), cos, sin))
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))


class Llama(nn.Module):
    """Tokens (n, length) to logits (n, length, tokens)."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(shape.tokens, shape.width)
        self.model.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.model.norm = nn.RMSNorm(shape.width, eps=EPS)
        self.dropout = nn.Dropout(shape.dropout)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                behind_shortcut = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * shape.layers) ** 0.5 if behind_shortcut else 0.02)
        half = shape.width // shape.heads // 2
        angles = torch.outer(torch.arange(shape.context).float(), ROPE_BASE ** -(torch.arange(half).float() / half))
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the token after each."""
        length = tokens.shape[1]
        x = self.dropout(self.model.embed_tokens(tokens))
        for block in self.model.layers:
            x = block(x, self.cos[:length], self.sin[:length])
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)


def to_hugging_face(network: Llama) -> Any:
    """Return Hugging Face's Llama with the same weights, in evaluation mode."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = network.shape
    config = LlamaConfig(
        vocab_size=shape.tokens,
        hidden_size=shape.width,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        max_position_embeddings=shape.context,
        rms_norm_eps=EPS,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    weights = dict(network.state_dict())
    model.load_state_dict({**weights, "lm_head.weight": weights["model.embed_tokens.weight"]})
    return model.eval()
