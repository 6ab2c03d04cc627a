"""The weights of any model in one file, binary ones as bits: its state dict, without tracing.

A safetensors file with every tensor of the state dict as it is, but for those whose numbers have one size for each row
(or group of a row): these are bits and sizes. docs/format.md specifies it.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from adaste._util.checks import shorten
from adaste._util.files import file_kind, write_atomically
from adaste.packed.nodes import pack_signs, row_bytes, unpack_signs
from adaste.packed.safetensors import (
    CHECKSUM,
    NETWORK,
    STATE,
    TEXT,
    check_text,
    read_file,
    refuse_format,
    strict_json,
)

FORMAT, VERSION, BIT_ORDER = STATE, 1, "little"
KEYS = ("format", "version", "bit_order", "packed", "shared")
PACKED_KEYS = ("bits", "sizes", "shape", "axis", "group")
GROUPS = (256, 128, 64, 32)
"""Weights of a row that may have a size of their own, if the row has none."""

DTYPES: MappingProxyType[torch.dtype, str] = MappingProxyType(
    {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64"}
)
"""Types that weights of bits may have; the sizes have the same."""


@dataclass(frozen=True)
class _Rows:
    """A weight as rows of +-1 with a size for each group of a row; `axis` of the weight counts the rows."""

    signs: Tensor
    sizes: Tensor
    axis: int
    group: int


def save_packed(model: nn.Module, path: str | Path) -> tuple[str, ...]:
    """Write the weights of any model to `path`, with one bit for each binary weight; `load_into` reads them.

    Nothing is traced, so it works for every model; the file holds its state dict, not its code. A weight is binary if
    each of its rows (outputs, or groups of 32 to 256 inputs of one) is +-s with an s of its own:
    `with optimizer.binarized(model)` makes them so. All other tensors are written as they are. Every number comes back
    exactly, but for the sign of zeros.

    Args:
        model: The model; it stays as it is.
        path: The file to write. Its name ends in `.safetensors`.

    Returns:
        The names of the weights that are written as bits.

    Raises:
        ValueError: If no weight is binary, or the name of the file has another ending.
        NotWrittenError: If the file cannot be written.
    """
    place = Path(path)
    if place.suffix != ".safetensors":
        raise ValueError(f"{place} must end in .safetensors, which is what is written")
    tensors: dict[str, Tensor] = {}
    packed: dict[str, dict[str, Any]] = {}
    shared: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise ValueError(f"{name} of the state dict must be a tensor, got {type(value).__name__}")
        storage = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if value.numel() and first.setdefault(storage, name) != name:
            shared[name] = first[storage]
            continue
        tensor = value.detach().cpu()
        rows = _find_rows(tensor)
        if rows is None:
            tensors[name] = tensor.contiguous().clone()
            continue
        bits, sizes = f"{name}:bits", f"{name}:sizes"
        tensors[bits] = torch.from_numpy(pack_signs(rows.signs.numpy()))
        tensors[sizes] = rows.sizes.contiguous()
        packed[name] = {
            "bits": bits,
            "sizes": sizes,
            "shape": list(tensor.shape),
            "axis": rows.axis,
            "group": rows.group,
        }
    if not packed:
        raise ValueError(
            f"no weight of {type(model).__name__} is binary: save inside `with optimizer.binarized(model):`, or use "
            "torch.save or safetensors for real weights"
        )
    write_atomically(place, _content(tensors, packed, shared))
    return tuple(packed)


def load_into(model: nn.Module, path: str | Path) -> None:
    """Load the weights in a file of `save_packed` into a model. Nothing in the file is executed.

    Args:
        model: A model with the same state dict: names and shapes. Types may differ: numbers are converted.
        path: The file.

    Raises:
        ValueError: If the file is damaged or another kind of file, or does not fit the model. The model then stays as
            it is.
        OSError: If the file cannot be read.
    """
    content = read_file(path, "adaste.save_packed writes one")
    try:
        state = _state(content)
        own = model.state_dict()
        missing, unexpected = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or unexpected:
            raise ValueError(
                f"it is of another model: it lacks {shorten(missing)} and has {shorten(unexpected)}, which "
                f"{type(model).__name__} does not know"
            )
        for name, value in state.items():
            if value.shape != own[name].shape:
                raise ValueError(f"{name} must be {tuple(own[name].shape)}, it is {tuple(value.shape)}")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    model.load_state_dict(state)


def _find_rows(tensor: Tensor) -> _Rows | None:
    """Return a weight as rows of one size each, or None if it is not binary or bits would take more room."""
    if tensor.dtype not in DTYPES or tensor.dim() < 2 or not tensor.numel() or not tensor.isfinite().all():
        return None
    for axis in (
        0,
        1,
        tensor.dim() - 1,
    ):  # the outputs of most layers, of transposed convolutions and Conv1D, of others
        rows = tensor.movedim(axis, 0).reshape(tensor.shape[axis], -1)
        for group in (rows.shape[1], *GROUPS):
            if rows.shape[1] % group:
                continue
            parts = rows.reshape(len(rows), -1, group).abs()
            room = rows.shape[0] * (row_bytes(rows.shape[1]) + parts.shape[1] * tensor.element_size())
            if room < tensor.numel() * tensor.element_size() and bool((parts == parts[:, :, :1]).all()):
                signs = torch.where(rows < 0, -1, 1).to(torch.int8)
                return _Rows(signs, parts[:, :, 0], axis, group)
    return None


def _content(tensors: Mapping[str, Tensor], packed: Mapping[str, Any], shared: Mapping[str, str]) -> bytes:
    facts = {"format": FORMAT, "version": VERSION, "bit_order": BIT_ORDER, "packed": packed, "shared": shared}
    text = json.dumps(facts, separators=(",", ":"))
    place = "00000000"
    content = safetensors.torch.save(dict(tensors), {TEXT: text, CHECKSUM: place})
    end = 8 + struct.unpack_from("<Q", content)[0]
    header = content[:end].replace(
        f'"{CHECKSUM}":"{place}"'.encode(), f'"{CHECKSUM}":"{_sum(text, content[end:])}"'.encode()
    )
    return header + content[end:]


def _sum(text: str, data: bytes) -> str:
    return f"{zlib.crc32(data, zlib.crc32(text.encode())):08x}"


def _state(content: bytes) -> dict[str, Tensor]:
    """Return the state dict in the bytes of a file. Raise ValueError if anything is wrong with them."""
    text = _description(content)
    facts = strict_json(text, "the description")
    if not isinstance(facts, dict) or set(facts) != set(KEYS):
        raise ValueError(f"the description must have {', '.join(KEYS)}, got {shorten(facts)}")
    for key, wanted in (("format", FORMAT), ("version", VERSION), ("bit_order", BIT_ORDER)):
        if type(facts[key]) is not type(wanted) or facts[key] != wanted:
            raise ValueError(f"{key} must be {wanted!r}, which is all this reader knows, got {shorten(facts[key])}")
    packed, shared = facts["packed"], facts["shared"]
    if not isinstance(packed, dict) or not isinstance(shared, dict):
        raise ValueError("packed and shared must be JSON objects")
    try:
        tensors = safetensors.torch.load(content)
    except SafetensorError as error:
        raise ValueError(f"it is no safetensors file: {error}") from error
    parts: set[str] = set()
    state = {}
    for name, entry in packed.items():
        state[name] = _unpack(name, entry, tensors)
        parts |= {entry["bits"], entry["sizes"]}
    state |= {name: value for name, value in tensors.items() if name not in parts}
    for name, other in shared.items():
        if not isinstance(other, str) or other not in state or name in state:
            raise ValueError(f"{shorten(name)} shares the numbers of {shorten(other)}, which is not there")
        state[name] = state[other]
    return state


def _description(content: bytes) -> str:
    """Return the text about the tensors. Raise ValueError if the checksum is another one."""
    if len(content) < 8 or not 2 <= (length := struct.unpack_from("<Q", content)[0]) <= len(content) - 8:
        kind = file_kind(content)
        raise ValueError(
            "it is no safetensors file" + (f" (it begins like {kind})" if kind else ", or it is truncated")
        )
    header = strict_json(content[8 : 8 + length], "the header")
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or set(metadata) != {TEXT, CHECKSUM}:
        raise ValueError("it is no file of save_packed: such a file has __metadata__ with 'adaste' and 'crc32'")
    text = check_text(metadata[TEXT], TEXT)
    refuse_format(text, NETWORK)
    found = _sum(text, content[8 + length :])
    if found != metadata[CHECKSUM]:
        raise ValueError(
            f"the file is damaged: its content has the CRC-32 {found}, it says {shorten(metadata[CHECKSUM])}"
        )
    return text


def _unpack(name: str, entry: Any, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return a weight from its bits and sizes."""
    if not isinstance(entry, dict) or set(entry) != set(PACKED_KEYS):
        raise ValueError(f"{shorten(name)} must have {', '.join(PACKED_KEYS)}, got {shorten(entry)}")
    shape, axis, group = entry["shape"], entry["axis"], entry["group"]
    whole = isinstance(shape, list) and all(type(number) is int and number > 0 for number in (*shape, group))
    if not whole or type(axis) is not int or not 0 <= axis < len(shape):
        raise ValueError(f"{shorten(name)} must have a shape, one of its axes and a group, got {shorten(entry)}")
    for key in ("bits", "sizes"):
        if not isinstance(entry[key], str) or entry[key] not in tensors:
            raise ValueError(f"{key} of {shorten(name)} must name a tensor of the file, got {shorten(entry[key])}")
    rows = shape[axis]
    count = math.prod(shape) // rows
    bits, sizes = tensors[entry["bits"]], tensors[entry["sizes"]]
    if bits.dtype != torch.uint8 or tuple(bits.shape) != (rows, row_bytes(count)):
        raise ValueError(f"the bits of {shorten(name)} must be U8 {(rows, row_bytes(count))}, got {tuple(bits.shape)}")
    if count % group or sizes.dtype not in DTYPES or tuple(sizes.shape) != (rows, count // group):
        raise ValueError(f"the sizes of {shorten(name)} must be {(rows, count // group)}, got {tuple(sizes.shape)}")
    signs = torch.from_numpy(np.ascontiguousarray(unpack_signs(bits.numpy(), count))).to(sizes.dtype)
    weight = (signs.view(rows, -1, group) * sizes.unsqueeze(-1)).view(rows, *shape[:axis], *shape[axis + 1 :])
    return weight.movedim(0, axis).contiguous()
