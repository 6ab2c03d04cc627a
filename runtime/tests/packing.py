"""Writes packed files from plain Python, independently of any reader: the format once more, in forty lines."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np


class Packing:
    """A packed file in the making; `nodes`, `tensors` and `facts` may be spoiled by tests before it is written."""

    def __init__(self, shape=(3, 8, 8), mean=None, std=None, classes=None):
        self.nodes: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.facts = {
            "format": "adaste-packed",
            "version": 1,
            "bit_order": "little",
            "input": {"shape": list(shape), "mean": mean, "std": std},
            "classes": classes,
            "recipe": None,
            "producer": "tests",
            "nodes": self.nodes,
            "output": "input",
        }

    def node(self, op, inputs=None, **fields):
        """Append a node; arrays among the fields become tensors. Its input is the last output if none is given."""
        output = f"t{len(self.nodes)}"
        node = {"op": op, "inputs": [self.facts["output"]] if inputs is None else list(inputs), "output": output}
        for key, value in fields.items():
            if isinstance(value, np.ndarray):
                self.tensors[f"{output}.{key}"] = value
                node[key] = f"{output}.{key}"
            elif value is not None:
                node[key] = value
        self.nodes.append(node)
        self.facts["output"] = output
        return output

    def convolution(self, weight, inputs=None, stride=(1, 1), padding=(0, 0), groups=1, relu=False, **fields):
        """`weight`: (out, in / groups, kh, kw), of int8 +-1 for a binary one, else float32."""
        out, inner, *kernel = weight.shape
        sizes = {"out_channels": out, "in_channels": inner * groups, "kernel": kernel, "stride": list(stride)}
        return self.node(
            "convolution", inputs, **sizes, padding=list(padding), groups=groups, relu=relu, **stored(weight), **fields
        )

    def linear(self, weight, inputs=None, relu=False, **fields):
        out, inner = weight.shape
        return self.node("linear", inputs, out_features=out, in_features=inner, relu=relu, **stored(weight), **fields)

    def content(self) -> bytes:
        return container({"adaste": json.dumps(self.facts)}, self.tensors)

    def write(self, folder: Path) -> Path:
        path = folder / "packed.safetensors"
        path.write_bytes(self.content())
        return path


def stored(weight):
    if weight.dtype == np.float32:
        return {"kind": "float", "weight": weight}
    return {"kind": "binary", "weight": np.packbits(weight.reshape(len(weight), -1) > 0, axis=1, bitorder="little")}


def container(metadata: dict[str, str], tensors: dict[str, np.ndarray], header=None) -> bytes:
    entries: dict[str, Any] = {}
    data = b""
    for name, tensor in tensors.items():
        bytes_ = np.ascontiguousarray(tensor).tobytes()
        dtype = {"float32": "F32", "uint8": "U8", "float64": "F64"}[tensor.dtype.name]
        entries[name] = {
            "dtype": dtype,
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(bytes_)],
        }
        data += bytes_
    metadata = {**metadata, "crc32": f"{zlib.crc32(data, zlib.crc32(metadata['adaste'].encode())):08x}"}
    entries["__metadata__"] = metadata
    for change in header or []:
        change(entries)
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data
