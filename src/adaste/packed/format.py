"""The one-bit file: a packed network as bytes and back; docs/format.md specifies it.

Whatever is wrong with a file, reading it ends with a ValueError that says what.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from adaste._util.checks import near
from adaste._util.serial import field_types
from adaste.packed.graph import Graph
from adaste.packed.node import Array, Node, Pair
from adaste.packed.nodes import OPERATIONS
from adaste.packed.safetensors import checked_text, read_container, short, strict_json, write_container

FORMAT, VERSION, BIT_ORDER = "adaste-packed", 1, "little"

TENSOR, OPTIONAL_TENSOR = Array, Array | None
KEYS = ("format", "version", "bit_order", "input", "classes", "recipe", "producer", "nodes", "output")
INPUT_KEYS = ("shape", "mean", "std")


def to_bytes(graph: Graph) -> bytes:
    """The file of a network; equal networks give equal bytes."""
    tensors: dict[str, Array] = {}
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "bit_order": BIT_ORDER,
        "input": {"shape": graph.input_shape, "mean": graph.mean, "std": graph.std},
        "classes": graph.classes,
        "recipe": graph.recipe,
        "producer": graph.producer,
        "nodes": [_plain(node, tensors) for node in graph.nodes],
        "output": graph.output,
    }
    return write_container(json.dumps(facts, separators=(",", ":")), tensors)


def from_bytes(content: bytes) -> Graph:
    """The network in a file."""
    text, tensors = read_container(content)
    facts = _object(strict_json(text, "the description"), KEYS, "the description")
    for key, wanted in (("format", FORMAT), ("version", VERSION), ("bit_order", BIT_ORDER)):
        if type(facts[key]) is not type(wanted) or facts[key] != wanted:
            raise ValueError(f"{key} must be {wanted!r}, which is all this reader knows, got {short(facts[key])}")
    image = _object(facts["input"], INPUT_KEYS, "the input")
    unused = set(tensors)
    graph = Graph(
        input_shape=_items(image["shape"], _whole, "the input's shape"),
        mean=_or_none(image["mean"], _number, "mean"),
        std=_or_none(image["std"], _number, "std"),
        classes=_or_none(facts["classes"], checked_text, "classes"),
        recipe=None if facts["recipe"] is None else checked_text(facts["recipe"], "recipe"),
        producer=checked_text(facts["producer"], "producer"),
        nodes=_items(facts["nodes"], lambda plain, where: _node(plain, where, tensors, unused), "node"),
        output=checked_text(facts["output"], "output"),
    )
    if unused:
        raise ValueError(f"no node uses the tensor {short(min(unused))}")
    return graph


def read(path: str | Path) -> Graph:
    """The network in the file at `path`."""
    try:
        return from_bytes(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _plain(node: Node, tensors: dict[str, Array]) -> dict[str, Any]:
    """A node for JSON; its tensors go into `tensors`."""
    plain: dict[str, Any] = {"op": node.op}
    for name, hint in field_types(type(node)).items():
        value = getattr(node, name)
        if hint in (TENSOR, OPTIONAL_TENSOR):
            if value is None:
                continue
            tensors[f"{node.output}.{name}"] = _stored(value, f"{name} of {node.output}")
            value = f"{node.output}.{name}"
        plain[name] = value
    return plain


def _stored(value: Array, what: str) -> Array:
    if value.dtype == np.uint8:
        return value
    with np.errstate(over="ignore"):  # said in the error
        stored = value.astype("<f4")
    if not np.isfinite(stored).all():
        raise ValueError(f"{what} holds numbers that float32 does not")
    return stored


def _node(plain: Any, where: str, tensors: Mapping[str, Array], unused: set[str]) -> Node:
    op = plain.get("op") if isinstance(plain, dict) else None
    if not isinstance(op, str) or op not in OPERATIONS:
        raise ValueError(f"{where} must have an op of {', '.join(OPERATIONS)}, got {short(op or plain)}")
    kind = OPERATIONS[op]
    hints = field_types(kind)
    where = f"{where} ({op})"
    optional = [name for name, hint in hints.items() if hint == OPTIONAL_TENSOR]
    facts = _object(plain, ("op", *hints), where, optional)
    fields: dict[str, Any] = {}
    for name, value in facts.items():
        if name == "op":
            continue
        place = f"{name} of {where}"
        if hints[name] in (TENSOR, OPTIONAL_TENSOR):
            fields[name] = _tensor(value, place, tensors)
            unused.discard(value)
        else:
            fields[name] = PARSERS[hints[name]](value, place)
    try:
        return kind(**fields)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _object(plain: Any, keys: tuple[str, ...], what: str, optional: list[str] | None = None) -> dict[str, Any]:
    """A JSON object that has exactly these keys, perhaps without the optional ones."""
    if not isinstance(plain, dict):
        raise ValueError(f"{what} must be a JSON object, got {short(plain)}")
    for key in plain:
        if key not in keys:
            raise ValueError(f"{what} has an unknown key {short(key)}{near(key[:50], keys)}")
    for key in keys:
        if key not in plain and key not in (optional or ()):
            raise ValueError(f"{what} lacks the key {key!r}")
    return plain


def _items(plain: Any, parse: Callable[[Any, str], Any], what: str) -> tuple[Any, ...]:
    if not isinstance(plain, list):
        raise ValueError(f"{what} must be a list, got {short(plain)}")
    return tuple(parse(part, f"{what} {place}") for place, part in enumerate(plain))


def _or_none(plain: Any, parse: Callable[[Any, str], Any], what: str) -> tuple[Any, ...] | None:
    return None if plain is None else _items(plain, parse, what)


def _whole(plain: Any, what: str) -> int:
    if type(plain) is not int:
        raise ValueError(f"{what} must be a whole number, got {short(plain)}")
    return plain


def _number(plain: Any, what: str) -> float:
    if type(plain) not in (int, float):
        raise ValueError(f"{what} must be a number, got {short(plain)}")
    try:
        return float(plain)
    except OverflowError:
        raise ValueError(f"{what} must be a number that a float holds, got {short(plain)}") from None


def _truth(plain: Any, what: str) -> bool:
    if not isinstance(plain, bool):
        raise ValueError(f"{what} must be true or false, got {short(plain)}")
    return plain


def _pair(plain: Any, what: str) -> Pair:
    if not isinstance(plain, list) or len(plain) != 2:
        raise ValueError(f"{what} must be a list of two whole numbers, got {short(plain)}")
    return _whole(plain[0], what), _whole(plain[1], what)


def _tensor(plain: Any, what: str, tensors: Mapping[str, Array]) -> Array:
    if not isinstance(plain, str) or plain not in tensors:
        raise ValueError(f"{what} must name a tensor of the file, got {short(plain)}")
    return tensors[plain]


PARSERS: MappingProxyType[Any, Callable[[Any, str], Any]] = MappingProxyType(
    {
        int: _whole,
        bool: _truth,
        str: checked_text,
        Pair: _pair,
        tuple[str, ...]: lambda plain, what: _items(plain, checked_text, what),
    }
)
"""How the fields of a node are read, by their type."""
