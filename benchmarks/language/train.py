"""One run: a Llama on a text, measured every few steps, stopped and resumed exactly, as a record of plain data."""

import dataclasses
import hashlib
import lzma
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import adaste
from adaste._util.files import write_atomically
from adaste.runs.environment import environment
from adaste.training.execution import CudaGraphed
from benchmarks.language.llama import Llama, Shape
from benchmarks.language.recipe import Optimizers, Recipe, optimizers_of, treatment_of

MOST_MEASURED = 2**20
"""Tokens of a long text that are measured."""

LOOK = 50
"""Steps between looks at the clock."""


@dataclass(frozen=True)
class Text:
    """A text as tokens, in two parts.

    Args:
        train: What trains.
        measured: What does not, and is measured.
        tokens: The size of the vocabulary: one token more than the text has characters, for the end; or all bytes, of
            which 255 is the end.
        sha256: Of the whole text.
        characters: The tokens in order; None where they are bytes.
    """

    train: Tensor
    measured: Tensor
    tokens: int
    sha256: str
    characters: list[str] | None


def read_text(path: Path, recipe: Recipe, device: torch.device) -> Text:
    """Return the text of a file, which may be compressed by xz, divided as the recipe says."""
    content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    characters = None
    tokens = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    if recipe.vocabulary == "characters":
        known = sorted(set(content))
        characters = [chr(byte) for byte in known]
        table = torch.zeros(256, dtype=torch.uint8)
        table[known] = torch.arange(len(known), dtype=torch.uint8)
        tokens = table[tokens.long()]
    end = int(recipe.train_share * len(tokens))
    train, measured = tokens[:end], tokens[end:]
    if recipe.held_out:
        kept = int(0.9 * end)
        train, measured = train[:kept], train[kept:]
    size = 256 if characters is None else len(characters) + 1
    return Text(
        train.to(device), measured[:MOST_MEASURED].to(device), size, hashlib.sha256(content).hexdigest(), characters
    )


def loss_of(network: Llama, sequences: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of every token after the first; on a GPU in bfloat16."""
    mixed = torch.autocast("cuda", torch.bfloat16, cache_enabled=False) if sequences.is_cuda else nullcontext()
    with mixed:
        logits = network(sequences[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), sequences[:, 1:].flatten())


_compiled: Callable[[Llama, Tensor], Tensor] | None = None


def compiled_loss() -> Callable[[Llama, Tensor], Tensor]:
    """Return `loss_of` compiled, the same for all runs of a process."""
    global _compiled
    if _compiled is None:
        _compiled = torch.compile(loss_of)
    return _compiled


@torch.no_grad()
def measure(network: Llama, tokens: Tensor, batch: int) -> float:
    """Return the mean negative log-likelihood in nats per token, in float32, of all whole sequences of a text."""
    context = network.shape.context
    windows = tokens[: (len(tokens) - 1) // context * context + 1].long().unfold(0, context + 1, context)
    total = torch.zeros((), dtype=torch.float64, device=tokens.device)
    network.eval()
    for some in windows.split(batch):
        logits = network(some[:, :-1])
        total += F.cross_entropy(logits.flatten(0, 1), some[:, 1:].flatten(), reduction="sum").double()
    network.train()
    return float(total) / (len(windows) * context)


class Run:
    """A network in training.

    Args:
        recipe: What determines it.
        text: What it learns.
        device: Where.
        plain: On a GPU: make steps as on a CPU, without compiler and CUDA graph.
    """

    def __init__(self, recipe: Recipe, text: Text, device: torch.device, *, plain: bool = False) -> None:
        shorter = min(len(text.train), len(text.measured))
        if shorter <= recipe.context:
            raise ValueError(f"both parts of the text must be longer than the context {recipe.context}, got {shorter}")
        self.recipe, self.text, self.device = recipe, text, device
        torch.manual_seed(recipe.seed)
        fields = ("layers", "width", "heads", "intermediate", "context", "dropout")
        shape = Shape(text.tokens, **{name: getattr(recipe, name) for name in fields})
        self.network = Llama(shape).to(device)
        self.optimizers: Optimizers = optimizers_of(self.network, recipe)
        self.iteration, self.seconds = 0, 0.0
        self.curve: list[dict[str, float]] = []
        self._total = torch.zeros((), device=device)
        self._offsets = torch.arange(recipe.context + 1, device=device)
        graphed = device.type == "cuda" and not plain
        self._loss = compiled_loss() if graphed else loss_of
        self._step = CudaGraphed(self._make_step, device) if graphed else self._make_step

    def train(self, until: float = math.inf) -> bool:
        """Train to the end, or until `time.monotonic()` is past `until`; return whether it is the end."""
        started, recipe = time.monotonic(), self.recipe
        while self.iteration < recipe.iterations:
            self.optimizers.set_rates(recipe.rate_factor(self.iteration))
            self._step()
            self.iteration += 1
            if self.iteration % recipe.every == 0 or self.iteration == recipe.iterations:
                self._measure()
            if self.iteration % LOOK == 0:
                float(self._total)  # waits: replays of a graph are queued far ahead of the device
                if time.monotonic() > until:
                    break
        self.seconds += time.monotonic() - started
        return self.iteration == recipe.iterations

    def record(self) -> dict[str, Any]:
        """Return the run so far as plain data."""
        parts = {name: parameter.numel() for name, parameter in self.network.named_parameters()}
        binary = sum(latent.numel() for _, latent in self.optimizers.latents.latents())
        return {
            "recipe": dataclasses.asdict(self.recipe),
            "estimator": repr(treatment_of(self.recipe).estimator),
            "text": {"sha256": self.text.sha256, "train": len(self.text.train), "measured": len(self.text.measured)},
            "parameters": sum(parts.values()),
            "binary": binary,
            "curve": self.curve,
            "best": min(self.curve, key=lambda row: row["measured"], default=None),
            "seconds": round(self.seconds, 1),
            "environment": environment(self.device),
        }

    def save(self, path: Path) -> None:
        """Write everything that a resumed run needs."""
        state: dict[str, Any] = {
            "network": self.network.state_dict(),
            "latents": self.optimizers.latents.state_dict(),
            "rest": self.optimizers.rest.state_dict(),
            "random": torch.get_rng_state(),
            "random_gpu": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            "iteration": self.iteration,
            "seconds": self.seconds,
            "curve": self.curve,
            "total": self._total,
        }
        write_atomically(path, lambda file: torch.save(state, file))

    def load(self, path: Path) -> None:
        """Continue from what `save` wrote; before the first step of this object."""
        state = torch.load(path, weights_only=True, map_location="cpu")
        self.network.load_state_dict(state["network"])
        self.optimizers.latents.load_state_dict(state["latents"])
        rates = [group["lr"] for group in self.optimizers.rest.param_groups]
        self.optimizers.rest.load_state_dict(state["rest"])
        for group, rate in zip(self.optimizers.rest.param_groups, rates, strict=True):
            group["lr"] = rate  # on a GPU the tensor that a CUDA graph reads; the one from the file is on the CPU
        self.iteration, self.seconds, self.curve = state["iteration"], state["seconds"], state["curve"]
        self._total.copy_(state["total"])
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_gpu"], self.device)

    def _make_step(self) -> None:
        starts = torch.randint(len(self.text.train) - self.recipe.context, (self.recipe.batch, 1), device=self.device)
        loss = self._loss(self.network, self.text.train[starts + self._offsets].long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.optimizers.step()
        self._total += loss.detach()

    def _measure(self) -> None:
        since = self.iteration - (int(self.curve[-1]["iteration"]) if self.curve else 0)
        with self.optimizers.latents.binarized(self.network):
            measured = measure(self.network, self.text.measured, self.recipe.batch)
        self.optimizers.latents.check_gradients()
        train = float(self._total) / since
        if not math.isfinite(train + measured):
            raise adaste.NonFiniteGradientError(["the loss"])
        self.curve.append({"iteration": self.iteration, "train": round(train, 5), "measured": round(measured, 5)})
        self._total.zero_()
