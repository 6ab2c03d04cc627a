"""The one-bit file: a packed network as bytes and back; docs/format.md specifies it.

Whatever is wrong with a file, reading it ends with a ValueError that says what.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from adaste._util.checks import suggest
from adaste._util.serial import field_types
from adaste.packed.graph import Graph
from adaste.packed.nodes import OPERATIONS, Array, Node, Pair
from adaste.packed.safetensors import check_text, read_container, shorten, strict_json, write_container

FORMAT, VERSION, BIT_ORDER = "adaste-packed", 1, "little"

TENSOR, OPTIONAL_TENSOR = Array, Array | None
KEYS = ("format", "version", "bit_order", "input", "classes", "recipe", "producer", "nodes", "output")
INPUT_KEYS = ("shape", "mean", "std")


def to_bytes(graph: Graph) -> bytes:
    """Return the file of a network; equal networks give equal bytes."""
    tensors: dict[str, Array] = {}
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "bit_order": BIT_ORDER,
        "input": {"shape": graph.input_shape, "mean": graph.mean, "std": graph.std},
        "classes": graph.classes,
        "recipe": graph.recipe,
        "producer": graph.producer,
        "nodes": [_to_plain(node, tensors) for node in graph.nodes],
        "output": graph.output,
    }
    return write_container(json.dumps(facts, separators=(",", ":")), tensors)


def from_bytes(content: bytes) -> Graph:
    """Return the network in the bytes of a file. Raise ValueError if anything is wrong with them."""
    text, tensors = read_container(content)
    facts = _parse_object(strict_json(text, "the description"), KEYS, "the description")
    for key, wanted in (("format", FORMAT), ("version", VERSION), ("bit_order", BIT_ORDER)):
        if type(facts[key]) is not type(wanted) or facts[key] != wanted:
            raise ValueError(f"{key} must be {wanted!r}, which is all this reader knows, got {shorten(facts[key])}")
    image = _parse_object(facts["input"], INPUT_KEYS, "the input")
    unused = set(tensors)
    graph = Graph(
        input_shape=_parse_list(image["shape"], _parse_int, "the input's shape"),
        mean=_parse_optional_list(image["mean"], _parse_float, "mean"),
        std=_parse_optional_list(image["std"], _parse_float, "std"),
        classes=_parse_optional_list(facts["classes"], check_text, "classes"),
        recipe=None if facts["recipe"] is None else check_text(facts["recipe"], "recipe"),
        producer=check_text(facts["producer"], "producer"),
        nodes=_parse_list(facts["nodes"], lambda plain, where: _parse_node(plain, where, tensors, unused), "node"),
        output=check_text(facts["output"], "output"),
    )
    if unused:
        raise ValueError(f"no node uses the tensor {shorten(min(unused))}")
    return graph


def read(path: str | Path) -> Graph:
    """Return the network in the file at `path`. Raise ValueError if anything is wrong with it."""
    try:
        return from_bytes(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _to_plain(node: Node, tensors: dict[str, Array]) -> dict[str, Any]:
    """Return a node for JSON; its tensors go into `tensors`."""
    plain: dict[str, Any] = {"op": node.op}
    for name, hint in field_types(type(node)).items():
        value = getattr(node, name)
        if hint in (TENSOR, OPTIONAL_TENSOR):
            if value is None:
                continue
            tensors[f"{node.output}.{name}"] = _to_float32(value, f"{name} of {node.output}")
            value = f"{node.output}.{name}"
        plain[name] = value
    return plain


def _to_float32(value: Array, what: str) -> Array:
    if value.dtype == np.uint8:
        return value
    with np.errstate(over="ignore"):  # said in the error
        stored = value.astype("<f4")
    if not np.isfinite(stored).all():
        raise ValueError(f"{what} holds numbers that float32 does not")
    return stored


def _parse_node(plain: Any, where: str, tensors: Mapping[str, Array], unused: set[str]) -> Node:
    op = plain.get("op") if isinstance(plain, dict) else None
    if not isinstance(op, str) or op not in OPERATIONS:
        raise ValueError(f"{where} must have an op of {', '.join(OPERATIONS)}, got {shorten(op or plain)}")
    kind = OPERATIONS[op]
    hints = field_types(kind)
    where = f"{where} ({op})"
    optional = [name for name, hint in hints.items() if hint == OPTIONAL_TENSOR]
    facts = _parse_object(plain, ("op", *hints), where, optional)
    fields: dict[str, Any] = {}
    for name, value in facts.items():
        if name == "op":
            continue
        place = f"{name} of {where}"
        if hints[name] in (TENSOR, OPTIONAL_TENSOR):
            fields[name] = _parse_tensor(value, place, tensors)
            unused.discard(value)
        else:
            fields[name] = PARSERS[hints[name]](value, place)
    try:
        return kind(**fields)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _parse_object(plain: Any, keys: tuple[str, ...], what: str, optional: list[str] | None = None) -> dict[str, Any]:
    """Return a JSON object. Raise ValueError unless it has exactly these keys; the optional ones may be missing."""
    if not isinstance(plain, dict):
        raise ValueError(f"{what} must be a JSON object, got {shorten(plain)}")
    for key in plain:
        if key not in keys:
            raise ValueError(f"{what} has an unknown key {shorten(key)}{suggest(key[:50], keys)}")
    for key in keys:
        if key not in plain and key not in (optional or ()):
            raise ValueError(f"{what} lacks the key {key!r}")
    return plain


def _parse_list(plain: Any, parse: Callable[[Any, str], Any], what: str) -> tuple[Any, ...]:
    if not isinstance(plain, list):
        raise ValueError(f"{what} must be a list, got {shorten(plain)}")
    return tuple(parse(part, f"{what} {place}") for place, part in enumerate(plain))


def _parse_optional_list(plain: Any, parse: Callable[[Any, str], Any], what: str) -> tuple[Any, ...] | None:
    return None if plain is None else _parse_list(plain, parse, what)


def _parse_int(plain: Any, what: str) -> int:
    if type(plain) is not int:
        raise ValueError(f"{what} must be a whole number, got {shorten(plain)}")
    return plain


def _parse_float(plain: Any, what: str) -> float:
    if type(plain) not in (int, float):
        raise ValueError(f"{what} must be a number, got {shorten(plain)}")
    try:
        return float(plain)
    except OverflowError:
        raise ValueError(f"{what} must be a number that a float holds, got {shorten(plain)}") from None


def _parse_bool(plain: Any, what: str) -> bool:
    if not isinstance(plain, bool):
        raise ValueError(f"{what} must be true or false, got {shorten(plain)}")
    return plain


def _parse_pair(plain: Any, what: str) -> Pair:
    if not isinstance(plain, list) or len(plain) != 2:
        raise ValueError(f"{what} must be a list of two whole numbers, got {shorten(plain)}")
    return _parse_int(plain[0], what), _parse_int(plain[1], what)


def _parse_tensor(plain: Any, what: str, tensors: Mapping[str, Array]) -> Array:
    if not isinstance(plain, str) or plain not in tensors:
        raise ValueError(f"{what} must name a tensor of the file, got {shorten(plain)}")
    return tensors[plain]


PARSERS: MappingProxyType[Any, Callable[[Any, str], Any]] = MappingProxyType(
    {
        int: _parse_int,
        bool: _parse_bool,
        str: check_text,
        Pair: _parse_pair,
        tuple[str, ...]: lambda plain, what: _parse_list(plain, check_text, what),
    }
)
"""How the fields of a node are read, by their type."""
