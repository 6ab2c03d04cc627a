"""Train a Llama with one-bit weights on a text, byte by byte, and write it as a GGUF file that llama.cpp runs.

python examples/language_model.py model.gguf --text FILE
"""

import argparse
import sysconfig
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

import adaste

CONTEXT = 128


def source_of_python() -> bytes:
    """The modules of Python's standard library, a text that everybody has."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return b"\n".join(file.read_bytes() for file in files)


def small_llama() -> LlamaForCausalLM:
    """A Llama of 0.9 million weights; its widths are multiples of 128, as Q1_0 needs. Tokens: bytes and the end."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=257,
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=2,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=256,
        )
    )


def batch_of(tokens: Tensor, size: int) -> Tensor:
    starts = torch.randint(len(tokens) - CONTEXT, (size, 1))
    return tokens[starts + torch.arange(CONTEXT)].long()


def main(path: Path, content: bytes, steps: int = 1000, batch: int = 16) -> float:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    train, test = tokens[: int(0.95 * len(tokens))], tokens[int(0.95 * len(tokens)) :]
    model = small_llama().to(device)

    scale = adaste.GroupMean(128, half_precision=True)  # the scales that Q1_0 stores
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model),
        base=partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.0),
        estimator=adaste.Scaled(adaste.StraightThrough(), scale),
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps, cycle_momentum=False)
    for step in range(steps):
        sequences = batch_of(train, batch).to(device)
        loss = model(input_ids=sequences, labels=sequences).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.3f} nats per byte", flush=True)

    with optimizer.binarized(model), torch.no_grad():
        sequences = batch_of(test, 64).to(device)
        reached = float(model(input_ids=sequences, labels=sequences).loss)
        adaste.export_gguf(model, None, path)
    print(f"{reached:.3f} nats per byte with one-bit weights; {path} has {path.stat().st_size / 1e6:.1f} MB")
    return reached


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the file to write")
    parser.add_argument("--text", type=Path, help="a text; without it the source of Python's standard library")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    text = source_of_python() if arguments.text is None else arguments.text.read_bytes()
    if arguments.path.suffix != ".gguf" or not arguments.path.parent.is_dir():
        parser.error(f"the file must end in .gguf and its folder exist, got {arguments.path}")
    if len(text) < 20 * (CONTEXT + 1):  # a twentieth is for tests
        parser.error(f"the text needs {20 * (CONTEXT + 1):,} bytes or more, {arguments.text} has {len(text):,}")
    main(arguments.path, text, arguments.steps)
