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
        begin, end = (data + offset for offset in entry["data_offsets"])
        dtype = {"U8": "u1", "F32": "<f4"}[entry["dtype"]]
        tensors[name] = np.frombuffer(content[begin:end], dtype).reshape(entry["shape"])
    return json.loads(facts["adaste"]), tensors


def windows(x, node, padding):
    """(n, channels, rows, columns, kernel rows, kernel columns)."""
    (ph, pw), (sh, sw) = node["padding"], node["stride"]
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=padding)
    return np.lib.stride_tricks.sliding_window_view(padded, node["kernel"], (2, 3))[:, :, ::sh, ::sw]


def product(inputs, node, tensors):
    """Weights (groups, outputs, count) times inputs (..., groups, count, places)."""
    groups, count, weight = node.get("groups", 1), inputs.shape[-2], tensors[node["weight"]]
    if node["kind"] == "binary":
        weight = np.unpackbits(weight, axis=1, count=count, bitorder="little") * np.float32(2) - 1
    return weight.reshape(groups, -1, count) @ inputs


def convolution(x, node, tensors):
    patches = windows(x, node, 0.0)
    n, _, rows, columns = patches.shape[:4]
    grouped = patches.transpose(0, 1, 4, 5, 2, 3).reshape(n, node["groups"], -1, rows * columns)
    return product(grouped, node, tensors).reshape(n, -1, rows, columns)


def average_pool(x, node, tensors):
    counted = windows(np.ones_like(x), node, float(node["count_padding"])).sum((4, 5))
    return windows(x, node, 0.0).sum((4, 5)) / counted


COMPUTE = {
    "convolution": convolution,
    "linear": lambda x, node, tensors: product(x[:, None, :, None], node, tensors)[:, 0, :, 0],
    "max_pool": lambda x, node, tensors: windows(x, node, -np.inf).max((4, 5)),
    "average_pool": average_pool,
    "flatten": lambda x, node, tensors: x.reshape(len(x), -1),
    **dict.fromkeys(["affine", "add", "relu"], lambda x, node, tensors: x),
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


def main(path, images=None):
    facts, tensors = unpacked(Path(path).read_bytes())
    if images is None:
        from sklearn.datasets import load_digits

        pixels = np.round(load_digits().images[:10, :, :, None] * (255 / 16))
    else:
        pixels = np.load(images)
    mean, std = (np.array(facts["input"][name], np.float32) for name in ("mean", "std"))
    normalised = ((pixels.astype(np.float32) / 255 - mean) / std).transpose(0, 3, 1, 2)
    for logits in run(facts, tensors, normalised):
        names = facts["classes"] or range(len(logits))
        print(", ".join(f"{names[best]} {logits[best]:.2f}" for best in np.argsort(-logits)[:3]))


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) in (2, 3) else sys.exit(__doc__)
