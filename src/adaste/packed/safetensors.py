"""The outside of the file, which is that of any safetensors file: tensors by name, and a text about them.

8 bytes, the length of the header, little-endian; the header, JSON; the data. In the header's `__metadata__` are the
text and the CRC-32 of the text and the data. Written the same way every time: equal networks give equal files.
"""

import itertools
import json
import math
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from adaste._util.checks import shorten
from adaste._util.files import file_kind
from adaste._util.serial import refuse_twice
from adaste.packed.nodes import LARGEST, Array, Shape

LARGEST_HEADER = 2**22
"""Bytes. A header is parsed before anything is known of it."""

DTYPES: MappingProxyType[str, np.dtype[Any]] = MappingProxyType({"F32": np.dtype("<f4"), "U8": np.dtype("u1")})
"""Types of tensors by their name in the header, those first that are to be aligned."""

TEXT, CHECKSUM = "adaste", "crc32"

NETWORK, STATE = "adaste-packed", "adaste-state"
"""The formats of texts: of a packed network, and of packed weights alone."""

READERS: MappingProxyType[str, str] = MappingProxyType(
    {
        NETWORK: (
            "this is a packed network (adaste.pack), not the weights of a model: adaste.load_packed(path) reads it"
        ),
        STATE: (
            "these are the packed weights of a model (adaste.save_packed), not a network: "
            "adaste.load_into(model, path) reads them, adaste.pack writes a network"
        ),
    }
)
"""What a file is, and what reads it, by the format of its text; runtime/src/format/safetensors.cpp says the same."""


def write_container(text: str, tensors: Mapping[str, Array]) -> bytes:
    """Return a file with this text and these tensors."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    order = sorted(tensors, key=lambda name: (list(names).index(tensors[name].dtype), name))
    parts = [tensors[name].tobytes() for name in order]
    ends = list(itertools.accumulate(map(len, parts), initial=0))
    entries: dict[str, Any] = {
        "__metadata__": {TEXT: text, CHECKSUM: _checksum(text, parts)},
        **{
            name: {"dtype": names[tensors[name].dtype], "shape": tensors[name].shape, "data_offsets": [begin, end]}
            for name, (begin, end) in zip(order, itertools.pairwise(ends), strict=True)
        },
    }
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > LARGEST_HEADER:
        raise ValueError(f"the header of the file may have {LARGEST_HEADER} bytes, this one would have {len(header)}")
    return b"".join([struct.pack("<Q", len(header)), header, *parts])


def read_file(path: str | Path, advice: str) -> bytes:
    """Return the content of a file. Raise FileNotFoundError with advice if there is none."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: there is no such file; {advice}") from error


def read_container(content: bytes) -> tuple[str, dict[str, Array]]:
    """Return the text and the tensors of a file, which are views of `content`."""
    header, data = _split(content)
    entries = strict_json(header, "the header")
    text, checksum = _metadata(entries.pop("__metadata__", None))
    tensors = _tensors(entries, data)
    found = _checksum(text, [data])
    if found != checksum:
        raise ValueError(f"the file is damaged: its content has the CRC-32 {found}, it says {shorten(checksum)}")
    return text, tensors


def strict_json(text: bytes | str, what: str) -> Any:
    """Return the content of JSON. Raise ValueError if a key is given twice or a number is not finite."""
    try:
        return json.loads(
            text.decode() if isinstance(text, bytes) else text,
            object_pairs_hook=refuse_twice,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{what} is not valid JSON in UTF-8: {error}") from error


def _split(content: bytes) -> tuple[bytes, memoryview]:
    if len(content) < 8:
        raise ValueError(f"a file has at least 8 bytes, this one has {len(content)}")
    (length,) = struct.unpack_from("<Q", content)
    kind = file_kind(content) if length > LARGEST_HEADER else None
    if kind is not None:
        raise ValueError(f"not a safetensors file (it begins like {kind})")
    if length > LARGEST_HEADER:
        raise ValueError(f"not a packed network: a header may have {LARGEST_HEADER} bytes, this one claims {length}")
    if 8 + length > len(content):
        raise ValueError(f"the file is truncated: a header of {length} bytes, but only {len(content) - 8} are left")
    if content[8:9] != b"{":
        raise ValueError(f"not a packed network: the header must begin with {{, got {content[8:9]!r}")
    return content[8 : 8 + length], memoryview(content)[8 + length :]


def _metadata(found: Any) -> tuple[str, str]:
    if isinstance(found, dict) and CHECKSUM not in found and _is_of_run(found.get(TEXT)):
        raise ValueError(
            "this is a checkpoint of a run, not a packed network: use `adaste export` with the run's folder"
        )
    if not isinstance(found, dict) or set(found) != {TEXT, CHECKSUM}:
        given = sorted(found) if isinstance(found, dict) else found
        raise ValueError(
            f"not a packed network: __metadata__ must hold {TEXT!r} and {CHECKSUM!r}, got {shorten(given)}"
        )
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{TEXT!r} and {CHECKSUM!r} in __metadata__ must be texts, got {shorten(found)}")
    refuse_format(found[TEXT], STATE)
    return found[TEXT], found[CHECKSUM]


def _is_of_run(text: Any) -> bool:
    """Return whether a text is the metadata of a run's checkpoint."""
    return isinstance(text, str) and "record" in _facts(text)


def refuse_format(text: str, other: str) -> None:
    """Raise ValueError if a text has the format `other`: it says what the file is, and which function reads it."""
    if other in text and _facts(text).get("format") == other:  # no text is parsed without need
        raise ValueError(READERS[other])


def _facts(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, an empty one if there is none."""
    try:
        facts = strict_json(text, TEXT)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _tensors(entries: dict[str, Any], data: memoryview) -> dict[str, Array]:
    tensors, ends = {}, []
    for name, entry in entries.items():
        dtype, shape, begin, end = _entry(name, entry)
        if end > len(data):
            raise ValueError(
                f"the file is truncated: tensor {shorten(name)} ends at {end} of {len(data)} bytes of data"
            )
        tensors[name] = np.frombuffer(data[begin:end], dtype).reshape(shape)
        ends.append((begin, end, name))
    last = 0
    for begin, end, name in sorted(ends):
        if begin != last:
            where = "overlaps the one before" if begin < last else "leaves a gap before it"
            raise ValueError(f"tensor {shorten(name)} {where}: it begins at {begin}, the one before ends at {last}")
        last = end
    if last != len(data):
        raise ValueError(f"the tensors end at {last}, the data at {len(data)}: bytes that belong to no tensor")
    return tensors


def _entry(name: str, entry: Any) -> tuple[Any, Shape, int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {shorten(name)} must have a dtype, a shape and data_offsets, got {shorten(entry)}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(
            f"the dtype of tensor {shorten(name)} must be one of {', '.join(DTYPES)}, got {shorten(dtype)}"
        )
    if not _are_counts(shape) or any(side > LARGEST for side in shape) or len(shape) > 4:
        raise ValueError(f"tensor {shorten(name)} must have 0 to 4 sides of at most {LARGEST}, got {shorten(shape)}")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(
            f"the data_offsets of tensor {shorten(name)} must be a begin and an end, got {shorten(offsets)}"
        )
    size = math.prod(shape) * DTYPES[dtype].itemsize
    if size != offsets[1] - offsets[0]:
        raise ValueError(
            f"tensor {shorten(name)}, {dtype} {shape}, has {size} bytes, its data_offsets {offsets} hold "
            f"{offsets[1] - offsets[0]}"
        )
    return DTYPES[dtype], tuple(shape), offsets[0], offsets[1]


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _checksum(text: str, parts: Iterable[bytes | memoryview]) -> str:
    try:
        value = zlib.crc32(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"the text in __metadata__ has no form in UTF-8: {error}") from error
    for part in parts:
        value = zlib.crc32(part, value)
    return f"{value:08x}"


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def check_text(value: Any, what: str) -> str:
    """Return `value`. Raise ValueError unless it is a text that a file can hold."""
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a text, got {shorten(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has no form in UTF-8: {shorten(value)}") from None
    return value
