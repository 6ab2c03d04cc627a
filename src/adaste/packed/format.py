"""The one-bit file: a packed network as bytes and back; docs/format.md specifies it.

Whatever is wrong with a file, reading it ends with a ValueError that says what.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from adaste._util.checks import shorten, suggest
from adaste._util.serial import field_types
from adaste.packed.graph import INPUT, LOGITS, Graph, Input, Output, Size
from adaste.packed.nodes import OPERATIONS, Array, Node, Pair
from adaste.packed.safetensors import (
    NETWORK,
    check_text,
    read_container,
    read_file,
    strict_json,
    write_container,
)
from adaste.packed.tensor_nodes import ALL_OPERATIONS, Sizes, Steps

FORMAT, BIT_ORDER = NETWORK, "little"
VERSIONS = (1, 2)

TENSOR, OPTIONAL_TENSOR = Array, Array | None
HEAD = ("format", "version", "bit_order")
KEYS = (*HEAD, "input", "classes", "recipe", "producer", "nodes", "output")
KEYS_2 = (*HEAD, "inputs", "classes", "recipe", "producer", "nodes", "outputs")
INPUT_KEYS, INPUT_KEYS_2 = ("shape", "mean", "std"), ("name", "shape", "type", "mean", "std")
OUTPUT_KEYS = ("name", "value")
FREE_KEYS, SIZE_KEYS = ("free", "sizes"), ("at", "of", "times", "plus")
LARGEST_REAL = 3.4028234e38


def to_bytes(graph: Graph) -> bytes:
    """Return the file of a network, of the oldest version that can hold it; equal networks give equal bytes."""
    version = graph.version
    tensors = _Tensors(share=version > 1)
    images: dict[str, Any] = {"shape": graph.input_shape, "mean": graph.mean, "std": graph.std}
    facts = {
        "format": FORMAT,
        "version": version,
        "bit_order": BIT_ORDER,
        **({"input": images} if version == 1 else {"inputs": [_plain(given, INPUT_KEYS_2) for given in graph.inputs]}),
        "classes": graph.classes,
        "recipe": graph.recipe,
        "producer": graph.producer,
        "nodes": [_to_plain(node, tensors) for node in graph.nodes],
        **({"free": graph.free, "sizes": [asdict(size) for size in graph.sizes]} if graph.free else {}),
        **({"output": graph.output} if version == 1 else {"outputs": [_plain(o, OUTPUT_KEYS) for o in graph.results]}),
    }
    return write_container(json.dumps(facts, separators=(",", ":")), tensors.by_name)


class _Tensors:
    """The tensors of a file by name; with `share` equal ones are there once, as an embedding and a head tied to it."""

    def __init__(self, *, share: bool) -> None:
        self.by_name: dict[str, Array] = {}
        self._share = share
        self._names: dict[tuple[Any, ...], str] = {}

    def put(self, name: str, tensor: Array) -> str:
        """Add a tensor, and return the name that it has."""
        key = (tensor.dtype.str, tensor.shape, tensor.tobytes()) if self._share else (name,)
        found = self._names.setdefault(key, name)
        self.by_name.setdefault(found, tensor)
        return found


def from_bytes(content: bytes) -> Graph:
    """Return the network in the bytes of a file. Raise ValueError if anything is wrong with them."""
    text, tensors = read_container(content)
    plain = strict_json(text, "the description")
    version = plain.get("version") if isinstance(plain, dict) else 1
    if type(version) is not int or version not in VERSIONS:
        raise ValueError(f"version must be 1 or 2, which is all this reader knows, got {shorten(version)}")
    facts = _parse_object(plain, KEYS if version == 1 else (*KEYS_2, *FREE_KEYS), "the description", FREE_KEYS)
    for key, wanted in (("format", FORMAT), ("bit_order", BIT_ORDER)):
        if facts[key] != wanted:
            raise ValueError(f"{key} must be {wanted!r}, which is all this reader knows, got {shorten(facts[key])}")
    unused = set(tensors)
    graph = Graph(
        inputs=_parse_inputs(facts, version),
        classes=_parse_optional_list(facts["classes"], check_text, "classes"),
        recipe=None if facts["recipe"] is None else check_text(facts["recipe"], "recipe"),
        producer=check_text(facts["producer"], "producer"),
        nodes=_parse_list(
            facts["nodes"], lambda plain, where: _parse_node(plain, where, tensors, unused, version), "node"
        ),
        results=_parse_outputs(facts, version),
        **_parse_free_sizes(facts),
    )
    if unused:
        raise ValueError(f"no node uses the tensor {shorten(min(unused))}")
    if version == 1 and graph.version > 1:
        shape = graph.shapes()[graph.output]
        odd = next((side for side in graph.shapes().values() if len(side) not in (1, 3)), shape)
        raise ValueError(f"the output must be flat, and all values of version 1 maps or flat, got {odd}")
    return graph


def _parse_inputs(facts: dict[str, Any], version: int) -> tuple[Input, ...]:
    if version == 1:
        return (
            _parse_input({"name": INPUT, "type": "float", **_parse_object(facts["input"], INPUT_KEYS, "the input")}),
        )
    return _parse_list(
        facts["inputs"], lambda plain, where: _parse_input(_parse_object(plain, INPUT_KEYS_2, where)), "inputs"
    )


def _parse_input(plain: dict[str, Any]) -> Input:
    return Input(
        name=check_text(plain["name"], "the name of an input"),
        shape=_parse_sizes(plain["shape"], "the input's shape"),
        type=check_text(plain["type"], "the type of an input"),
        mean=_parse_optional_list(plain["mean"], _parse_float, "mean"),
        std=_parse_optional_list(plain["std"], _parse_float, "std"),
    )


def _parse_outputs(facts: dict[str, Any], version: int) -> tuple[Output, ...]:
    if version == 1:
        return (Output(name=LOGITS, value=check_text(facts["output"], "output")),)

    def parse(plain: Any, where: str) -> Output:
        fields = _parse_object(plain, OUTPUT_KEYS, where)
        return Output(**{key: check_text(fields[key], f"{key} of {where}") for key in OUTPUT_KEYS})

    return _parse_list(facts["outputs"], parse, "outputs")


def _parse_free_sizes(facts: dict[str, Any]) -> dict[str, Any]:
    if ("free" in facts) != ("sizes" in facts):
        raise ValueError("the description must have both free and sizes, or neither")
    if "free" not in facts:
        return {}
    plain = facts["free"]
    if not isinstance(plain, dict) or not plain:
        raise ValueError(f"free must be a JSON object with a size at least, got {shorten(plain)}")
    return {
        "free": {name: _parse_int(most, f"the free size {shorten(name)}") for name, most in plain.items()},
        "sizes": _parse_list(facts["sizes"], _parse_size, "sizes"),
    }


def _parse_size(plain: Any, where: str) -> Size:
    fields = _parse_object(plain, SIZE_KEYS, where)
    at = fields["at"]
    if not isinstance(at, list) or len(at) != 3:
        raise ValueError(f"at of {where} must be a list of three, got {shorten(at)}")
    place = None if at[2] is None else _parse_int(at[2], f"at of {where}")
    return Size(
        at=(check_text(at[0], f"at of {where}"), check_text(at[1], f"at of {where}"), place),
        of=_parse_list(fields["of"], check_text, f"of of {where}"),
        times=_parse_int(fields["times"], f"times of {where}"),
        plus=_parse_int(fields["plus"], f"plus of {where}"),
    )


def _plain(port: Input | Output, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: getattr(port, key) for key in keys}


def read(path: str | Path) -> Graph:
    """Return the network in the file at `path`. Raise ValueError if anything is wrong with it."""
    content = read_file(path, 'adaste.pack and `adaste export` write one, "zoo:NAME" is one of the package adaste-zoo')
    try:
        return from_bytes(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _to_plain(node: Node, tensors: _Tensors) -> dict[str, Any]:
    """Return a node for JSON; its tensors go into `tensors`."""
    plain: dict[str, Any] = {"op": node.op}
    for name, hint in field_types(type(node)).items():
        value = getattr(node, name)
        default = type(node).__dataclass_fields__[name].default
        if value is default or (not isinstance(value, np.ndarray) and value == default):
            continue
        if hint in (TENSOR, OPTIONAL_TENSOR):
            place = f"{node.output}.{name}"
            value = tensors.put(place, _to_float32(value, f"{name} of {node.output}"))
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


def _optional(kind: type[Node]) -> list[str]:
    """Return the fields that are left out where they have their default."""
    return [name for name, field in kind.__dataclass_fields__.items() if field.default is not MISSING]


def _parse_node(plain: Any, where: str, tensors: Mapping[str, Array], unused: set[str], version: int) -> Node:
    operations = OPERATIONS if version == 1 else ALL_OPERATIONS
    op = plain.get("op") if isinstance(plain, dict) else None
    if not isinstance(op, str) or op not in operations:
        raise ValueError(f"{where} must have an op of {', '.join(operations)}, got {shorten(op or plain)}")
    kind = operations[op]
    hints = {name: hint for name, hint in field_types(kind).items() if version > 1 or name not in kind.later}
    where = f"{where} ({op})"
    facts = _parse_object(plain, ("op", *hints), where, _optional(kind))
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


def _parse_object(
    plain: Any, keys: tuple[str, ...], what: str, optional: Sequence[str] | None = None
) -> dict[str, Any]:
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


def _parse_sizes(plain: Any, what: str) -> Sizes:
    return _parse_list(plain, _parse_int, what)


def _parse_steps(plain: Any, what: str) -> Steps:
    if not isinstance(plain, list) or len(plain) != 2:
        raise ValueError(f"{what} must be a list of two numbers, got {shorten(plain)}")
    return _parse_real(plain[0], what), _parse_real(plain[1], what)


def _parse_real(plain: Any, what: str) -> float:
    """Return a number that a node computes with: one that float32 holds."""
    number = _parse_float(plain, what)
    if not math.isfinite(number) or abs(number) > LARGEST_REAL:
        raise ValueError(f"{what} must be a number that float32 holds, got {shorten(plain)}")
    return number


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
        float: _parse_real,
        float | None: _parse_real,
        Sizes: _parse_sizes,
        Steps: _parse_steps,
        Pair: _parse_pair,
        tuple[str, ...]: lambda plain, what: _parse_list(plain, check_text, what),
    }
)
"""How the fields of a node are read, by their type."""
