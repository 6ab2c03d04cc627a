"""A packed file as parts that can be changed, and put together again with a checksum that fits."""

import copy
import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any


@dataclass
class Parts:
    """The description, the table of tensors and the data of a file."""

    facts: dict[str, Any]
    tensors: dict[str, Any]
    data: bytes

    def bytes(self) -> bytes:
        text = json.dumps(self.facts)
        crc = f"{zlib.crc32(self.data, zlib.crc32(text.encode())):08x}"
        return with_header({"__metadata__": {"adaste": text, "crc32": crc}, **self.tensors}, self.data)

    def node(self, op: str) -> dict[str, Any]:
        return next(node for node in self.facts["nodes"] if node["op"] == op)

    def copy(self) -> "Parts":
        return copy.deepcopy(self)


def with_header(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def taken_apart(content: bytes) -> Parts:
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:end])
    metadata = header.pop("__metadata__")
    return Parts(json.loads(metadata["adaste"]), header, content[end:])
