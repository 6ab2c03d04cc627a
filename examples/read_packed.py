"""Runs one-bit files (docs/format.md) with numpy alone: python examples/read_packed.py MODEL.safetensors IMAGES.npy"""

import json
import sys
import zlib

import numpy as np


def unpacked(content):
    """What a file says, and its tensors by name; those of bits as numbers -1 and 1."""
    start = 8 + int.from_bytes(content[:8], "little")
    tensors, data = json.loads(content[8:start]), content[start:]
    facts = tensors.pop("__metadata__")
    if int(facts["crc32"], 16) != zlib.crc32(facts["adaste"].encode() + data):
        sys.exit("the file is damaged")
    for name, entry in tensors.items():
        (begin, end), bits = entry["data_offsets"], entry["dtype"] == "U8"
        tensor = np.frombuffer(data[begin:end], np.uint8 if bits else "<f4").reshape(entry["shape"])
        tensors[name] = np.unpackbits(tensor, axis=1, bitorder="little") * np.float32(2) - 1 if bits else tensor
    return json.loads(facts["adaste"]), tensors


def computed(x, node, tensors):
    """What a node makes of its first input, before scale, shift, residual and ReLU. Channels are last."""
    if node["op"] == "flatten":
        return np.moveaxis(x, -1, 1).reshape(len(x), -1)
    if "kernel" in node:  # x becomes (n, rows, columns, channels, kernel rows, kernel columns)
        (ph, pw), (sh, sw) = node["padding"], node["stride"]
        outside = -np.inf if node["op"] == "max_pool" else 0.0 if node.get("count_padding", True) else np.nan
        padded = np.pad(x, ((0, 0), (ph, ph), (pw, pw), (0, 0)), constant_values=outside)
        x = np.lib.stride_tricks.sliding_window_view(padded, node["kernel"], (1, 2))[:, ::sh, ::sw]
    if "pool" in node["op"]:
        return x.max((4, 5)) if node["op"] == "max_pool" else np.nanmean(x, (4, 5))
    if "weight" in node:  # each output has its row of weights, for the inputs of its group
        places, groups, weight = x.shape[: x.ndim // 2], node.get("groups", 1), tensors[node["weight"]]
        inputs = np.moveaxis(x.reshape(*places, groups, -1), -2, 0)
        rows = weight.reshape(groups, len(weight) // groups, -1)[:, :, : inputs.shape[-1]]
        return np.concatenate([part @ row.T for part, row in zip(inputs, rows, strict=True)], axis=-1)
    return x


def run(facts, tensors, images):
    """Logits of normalised images (n, channels, height, width)."""
    values = {"input": np.moveaxis(images, 1, -1)}
    for node in facts["nodes"]:
        inputs = [values[name] for name in node["inputs"]]
        x, *residual = [np.concatenate(inputs, axis=-1)] if node["op"] == "concatenate" else inputs
        y = computed(x, node, tensors) * tensors.get(node.get("scale"), 1) + tensors.get(node.get("shift"), 0)
        values[node["output"]] = np.maximum(sum(residual, y), 0 if node.get("relu", node["op"] == "relu") else -np.inf)
    return values[facts["output"]]


if __name__ == "__main__":
    facts, tensors = unpacked(np.fromfile(sys.argv[1], np.uint8).tobytes() if sys.argv[2:] else sys.exit(__doc__))
    mean, std = np.float32(facts["input"]["mean"] or 0), np.float32(facts["input"]["std"] or 1)
    images = (np.load(sys.argv[2]).astype(np.float32) / 255 - mean) / std  # from uint8 (n, height, width, channels)
    for logits in run(facts, tensors, np.moveaxis(images, -1, 1)):
        names = facts["classes"] or range(len(logits))
        print(", ".join(f"{names[best]} {logits[best]:.2f}" for best in np.argsort(-logits)[:3]))
