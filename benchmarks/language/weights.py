"""A trained Llama as a small file: binary matrices in the form of GGUF's Q1_0, all others as float16."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save

from adaste._util.files import write_atomically
from adaste.packed.gguf import GROUP, pack_q1_0
from benchmarks.language.llama import Llama

BITS = ".bits"


def save_weights(path: Path, network: Llama) -> None:
    """Write the weights of a network whose matrices are +-s per 128 inputs, or real."""
    tensors = {}
    for name, parameter in network.named_parameters():
        values = parameter.detach().float().cpu()
        sizes = values.abs().reshape(-1, GROUP) if values.numel() % GROUP == 0 else values.abs().reshape(1, -1)
        if values.ndim == 2 and values.shape[1] % GROUP == 0 and torch.equal(sizes.amin(1), sizes.amax(1)):
            tensors[name + BITS] = torch.from_numpy(pack_q1_0(values.numpy()))
        else:
            tensors[name] = values.half()
    write_atomically(path, save(tensors))


def load_weights(path: Path, network: Llama) -> None:
    """Fill a network of the same shape with what `save_weights` wrote."""
    state = {
        name.removesuffix(BITS): _unpacked(tensor) if name.endswith(BITS) else tensor.float()
        for name, tensor in load_file(path).items()
    }
    network.load_state_dict(state)


def _unpacked(packed: torch.Tensor) -> torch.Tensor:
    blocks = packed.numpy().reshape(len(packed), -1, 2 + GROUP // 8)
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    bits = np.unpackbits(blocks[..., 2:], axis=-1, bitorder="little")
    return torch.from_numpy(np.where(bits == 1, scales, -scales).reshape(len(packed), -1))
