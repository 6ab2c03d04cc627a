"""A reader of one-bit files in numpy alone: proof that the format (docs/format.md) is simple, not that it is fast.

python examples/read_packed.py model.safetensors               # the handwritten digits of scikit-learn
python examples/read_packed.py model.safetensors images.npy    # uint8 (n, height, width, channels)
"""

import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np


def unpacked(content):
    """What a file says, and its tensors by name."""
    data = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:data])
    facts = header.pop("__metadata__")
    if int(facts["crc32"], 16) != zlib.crc32(content[data:], zlib.crc32(facts["adaste"].encode())):
        sys.exit("the file is damaged")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = {"U8": "u1", "F32": "<f4"}[entry["dtype"]]
        tensors[name] = np.frombuffer(content[data + begin : data + end], dtype).reshape(entry["shape"])
    return json.loads(facts["adaste"]), tensors


def windows(x, node, padding):
    """(n, channels, rows, columns, kernel rows, kernel columns)."""
    (ph, pw), (sh, sw) = node["padding"], node["stride"]
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=padding)
    return np.lib.stride_tricks.sliding_window_view(padded, node["kernel"], (2, 3))[:, :, ::sh, ::sw]


def weight(node, tensors):
    """One row of real numbers per output."""
    rows = tensors[node["weight"]]
    if node["kind"] == "float":
        return rows.reshape(len(rows), -1)
    kernel = np.prod(node.get("kernel", 1), dtype=int)
    count = node.get("in_features") or node["in_channels"] // node["groups"] * kernel
    return np.unpackbits(rows, axis=1, count=count, bitorder="little") * np.float32(2) - 1


def convolution(x, node, tensors):
    patches, groups = windows(x, node, 0.0), node["groups"]
    n, _, rows, columns = patches.shape[:4]
    inputs = patches.reshape(n, groups, -1, rows, columns, *node["kernel"]).transpose(0, 1, 3, 4, 2, 5, 6)
    weights = weight(node, tensors).reshape(groups, node["out_channels"] // groups, -1)
    sums = weights @ inputs.reshape(n, groups, rows * columns, -1).swapaxes(2, 3)
    return sums.reshape(n, -1, rows, columns)


def average_pool(x, node, tensors):
    counted = windows(np.full_like(x, 1.0), node, float(node["count_padding"])).sum((4, 5))
    return windows(x, node, 0.0).sum((4, 5)) / counted


COMPUTE = {
    "convolution": convolution,
    "linear": lambda x, node, tensors: x @ weight(node, tensors).T,
    "max_pool": lambda x, node, tensors: windows(x, node, -np.inf).max((4, 5)),
    "average_pool": average_pool,
    "flatten": lambda x, node, tensors: x.reshape(len(x), -1),
    "affine": lambda x, node, tensors: x,
    "add": lambda x, node, tensors: x,
    "relu": lambda x, node, tensors: x,
}


def run(facts, tensors, images):
    """Logits of normalised images (n, channels, height, width)."""
    values = {"input": images}
    for node in facts["nodes"]:
        x, *others = (values[name] for name in node["inputs"])
        if node["op"] == "concatenate":
            values[node["output"]] = np.concatenate([x, *others], axis=1)
            continue
        y = COMPUTE[node["op"]](x, node, tensors)
        along = (-1, *[1] * (y.ndim - 2))
        y = y * tensors[node["scale"]].reshape(along) if "scale" in node else y
        y = y + tensors[node["shift"]].reshape(along) if "shift" in node else y
        y = y + others[0] if others else y
        values[node["output"]] = np.maximum(y, 0) if node.get("relu", node["op"] == "relu") else y
    return values[facts["output"]]


def normalised(facts, pixels):
    """Bytes (n, height, width, channels) as the network wants them."""
    mean, std = (np.array(facts["input"][name], np.float32) for name in ("mean", "std"))
    return ((pixels / np.float32(255) - mean) / std).transpose(0, 3, 1, 2)


def digits():
    from sklearn.datasets import load_digits

    return np.round(load_digits().images[:10, :, :, None] * (255 / 16)).astype(np.uint8)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    facts, tensors = unpacked(Path(sys.argv[1]).read_bytes())
    pixels = np.load(sys.argv[2]) if len(sys.argv) == 3 else digits()
    for logits in run(facts, tensors, normalised(facts, pixels)):
        names = facts["classes"] or range(len(logits))
        print(", ".join(f"{names[best]} {logits[best]:.2f}" for best in np.argsort(-logits)[:3]))
