"""docs/format.md: its example is the file that is written, and its numbers are those of the code."""

import dataclasses
import json
import re
import struct
from pathlib import Path

from adaste.packed import state
from adaste.packed.format import FREE_KEYS, INPUT_KEYS_2, KEYS, KEYS_2, OUTPUT_KEYS, SIZE_KEYS, from_bytes, to_bytes
from adaste.packed.graph import FREE_FIELDS, MOST_NODES, MOST_PORTS
from adaste.packed.nodes import LARGEST, OPERATIONS
from adaste.packed.safetensors import LARGEST_HEADER
from adaste.packed.tensor_nodes import COMBINATIONS, FUNCTIONS, MOST_AXES, PADDINGS, REDUCTIONS, TENSOR_OPERATIONS
from support.packed_files import taken_apart
from support.packed_networks import tiny_graph

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
TINY = to_bytes(tiny_graph())


def hexdump(content: bytes) -> str:
    """Sixteen bytes to a line, as `xxd -g1` and `hexdump -C` show them."""
    lines = []
    for place in range(0, len(content), 16):
        row = content[place : place + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{place:08x}  {row.hex(' '):<47}  {text}")
    return "\n".join(lines)


def description() -> str:
    """The description of the example, a line per fact and per node."""
    facts = taken_apart(TINY).facts
    nodes = ",\n".join(f"  {json.dumps(node)}" for node in facts["nodes"])
    lines = [f' "{key}": ' + (f"[\n{nodes}]" if key == "nodes" else json.dumps(value)) for key, value in facts.items()]
    return "{" + ",\n".join(lines).removeprefix(" ") + "}"


def test_the_example_is_what_is_written() -> None:
    assert f"```\n{hexdump(TINY)}\n```" in PAGE, hexdump(TINY)
    assert f"```json\n{description()}\n```" in PAGE, description()
    assert f"The data begin at {8 + struct.unpack('<Q', TINY[:8])[0]:#x} with" in PAGE


def test_the_example_can_be_typed_in_from_the_page() -> None:
    block = re.search(r"```\n(00000000 .*?)\n```", PAGE, re.DOTALL)
    assert block is not None
    typed = bytes.fromhex("".join(line[10:57] for line in block[1].splitlines()))
    assert typed == TINY
    assert from_bytes(typed).classes == ("no", "yes")


def test_the_page_names_all_limits_keys_and_operations() -> None:
    for limit in (LARGEST_HEADER, LARGEST, MOST_NODES):
        assert f"{limit:,}" in PAGE
    for name in (*KEYS, *KEYS_2, *OPERATIONS, *TENSOR_OPERATIONS, *FUNCTIONS, *COMBINATIONS, *REDUCTIONS, *PADDINGS):
        assert f"`{name}`" in PAGE, name
    for kind in TENSOR_OPERATIONS.values():
        for field in dataclasses.fields(kind):
            assert field.name in ("inputs", "output") or f"`{field.name}`" in PAGE, field.name
    assert all(f"`{key}`" in PAGE for key in FREE_KEYS)
    for key in (*INPUT_KEYS_2, *OUTPUT_KEYS, *state.PACKED_KEYS, *SIZE_KEYS, *FREE_FIELDS):
        assert f'"{key}"' in PAGE, key
    assert f"1 to {MOST_PORTS} objects" in PAGE and f"0 to {MOST_AXES} axes" in PAGE
    assert all(f"`{key}`" in PAGE for key in state.KEYS)
