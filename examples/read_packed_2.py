"""Runs one-bit files of version 2 (docs/format.md) with numpy alone.

    python examples/read_packed_2.py MODEL.safetensors INPUTS.npz

INPUTS.npz has an array for each input of the network, with the batch first. The program prints the shape and the first
numbers of every output. Every value here has the batch first, of length 1 for what is the same for all inputs; axes of
the file are counted from 0 without it.
"""

import json
import math
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


def windows(x, node, outside=0.0):
    """All windows of maps: (n, channels, rows, columns, kernel rows, kernel columns)."""
    (kh, kw), (sh, sw), (ph, pw) = node["kernel"], node["stride"], node["padding"]
    dh, dw = node.get("dilation", (1, 1))
    more = [0, 0]
    if node.get("ceil"):  # the last window begins inside of the map or the padding before it
        for side, (size, k, s, p) in enumerate(zip(x.shape[2:], (kh, kw), (sh, sw), (ph, pw), strict=True)):
            count = min(-(-(size + 2 * p - k) // s), (size + p - 1) // s) + 1
            more[side] = max(0, (count - 1) * s + k - (size + 2 * p))
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph + more[0]), (pw, pw + more[1])), constant_values=outside)
    reach = ((kh - 1) * dh + 1, (kw - 1) * dw + 1)
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    return view[:, :, ::sh, ::sw, ::dh, ::dw]


def weights(node, tensors, count):
    """The rows of weights of a layer, `count` in each: a row of bits ends in unused ones."""
    weight = tensors[node["weight"]]
    return weight.reshape(len(weight), -1)[:, :count]


def finished(y, node, tensors, channels_last, residual):
    """The scale, shift, residual and ReLU of a layer."""
    for key, operation in (("scale", np.multiply), ("shift", np.add)):
        if key in node:
            numbers = tensors[node[key]]
            y = operation(y, numbers if channels_last else numbers.reshape(-1, *[1] * (y.ndim - 2)))
    y = y + residual[0] if residual else y
    return np.maximum(y, 0) if node["relu"] else y


def convolution(node, tensors, x, *residual):
    view, groups = windows(x, node), node["groups"]
    n, _, rows, columns, *_ = view.shape
    parts = np.moveaxis(view.reshape(n, groups, -1, rows, columns, *node["kernel"]), 1, 0)
    inputs = parts.transpose(0, 1, 3, 4, 2, 5, 6).reshape(groups, n, rows, columns, -1)
    by_group = weights(node, tensors, inputs.shape[-1]).reshape(groups, -1, inputs.shape[-1])
    outputs = [part @ weight.T for part, weight in zip(inputs, by_group, strict=True)]
    return finished(np.moveaxis(np.concatenate(outputs, -1), -1, 1), node, tensors, False, residual)


def linear(node, tensors, x, *residual):
    return finished(x @ weights(node, tensors, node["in_features"]).T, node, tensors, True, residual)


def affine(node, tensors, x, *residual):
    return finished(x, node, tensors, False, residual)


def max_pool(node, tensors, x):
    return windows(x, node, -np.inf).max((4, 5))


def average_pool(node, tensors, x):
    view, (ph, pw) = windows(x, node), node["padding"]
    counted = np.pad(
        np.ones((1, 1, *x.shape[2:]), np.float32),
        ((0, 0), (0, 0), (ph, ph), (pw, pw)),
        constant_values=float(node["count_padding"]),  # pixels beyond the padding never count
    )
    counts = windows(counted, {**node, "padding": (0, 0)})[:, :, : view.shape[2], : view.shape[3]]
    return view.sum((4, 5)) / counts.sum((4, 5))


def flatten(node, tensors, x):
    return x.reshape(len(x), -1)


def add(node, tensors, x, y):
    return np.maximum(x + y, 0) if node["relu"] else x + y


def relu(node, tensors, x):
    return np.maximum(x, 0)


def concatenate(node, tensors, *inputs):
    count = max(len(x) for x in inputs)
    wide = [np.broadcast_to(x, (count, *x.shape[1:])) for x in inputs]
    return np.concatenate(wide, node.get("axis", 0) + 1)


def constant(node, tensors):
    return tensors[node["value"]].reshape(1, *node["sides"])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ERF = np.vectorize(math.erf, otypes=[np.float32])
FUNCTIONS = {
    "abs": np.abs,
    "elu": lambda x, p: np.where(x > 0, x, p * np.expm1(np.minimum(x, 0))),
    "erf": ERF,
    "exp": np.exp,
    "gelu": lambda x: x / 2 * (1 + ERF(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "leaky_relu": lambda x, p: np.where(x > 0, x, p * x),
    "log": np.log,
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "reciprocal": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: np.logaddexp(0, x),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


def function(node, tensors, x):
    parameter = [node["parameter"]] if "parameter" in node else []
    return FUNCTIONS[node["function"]](x, *parameter).astype(np.float32)


def aligned(*inputs):
    """Values of one rank: axes of one place come behind the batch of those that have fewer."""
    rank = max(x.ndim for x in inputs)
    return [x.reshape(len(x), *[1] * (rank - x.ndim), *x.shape[1:]) for x in inputs]


def combine(node, tensors, x, y):
    return getattr(np, node["function"])(*aligned(x, y)).astype(np.float32)


def reduce(node, tensors, x):
    axes = tuple(axis + 1 for axis in node["axes"])
    return getattr(np, node["function"])(x, axis=axes, keepdims=node["keep"])


def normalised(x, axes, center, epsilon):
    x = x - x.mean(axes, keepdims=True) if center else x
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + np.float32(epsilon))


def ended(y, node, tensors, shape):
    y = y * tensors[node["scale"]].reshape(shape) if "scale" in node else y
    return y + tensors[node["shift"]].reshape(shape) if "shift" in node else y


def layer_norm(node, tensors, x):
    axes = tuple(range(-node["axes"], 0))
    return ended(normalised(x, axes, node["center"], node["epsilon"]), node, tensors, x.shape[-node["axes"] :])


def group_norm(node, tensors, x):
    groups = x.reshape(len(x), node["groups"], -1)
    y = normalised(groups, (2,), True, node["epsilon"]).reshape(x.shape)
    return ended(y, node, tensors, (-1, *[1] * (x.ndim - 2)))


def softmax_of(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def softmax(node, tensors, x):
    return softmax_of(x, node["axis"] + 1)


def reshape(node, tensors, x):
    return x.reshape(len(x), *node["sides"])


def transpose(node, tensors, x):
    return x.transpose(0, *(axis + 1 for axis in node["axes"]))


def part(node, tensors, x):
    places = node["start"] + node["step"] * np.arange(node["count"])
    return x.take(places, node["axis"] + 1)


def expand(node, tensors, x):
    sides = node["sides"]
    return np.broadcast_to(x.reshape(len(x), *[1] * (len(sides) + 1 - x.ndim), *x.shape[1:]), (len(x), *sides))


def pad(node, tensors, x):
    counts = [(0, 0), *zip(node["before"], node["after"], strict=True)]
    value = {"constant_values": node["value"]} if node["mode"] == "constant" else {}
    return np.pad(x, counts, node["mode"], **value)


def spread(node, tensors, x):
    (sh, sw), (height, width) = node["step"], x.shape[2:]
    y = np.zeros((*x.shape[:2], (height - 1) * sh + 1, (width - 1) * sw + 1), np.float32)
    y[:, :, ::sh, ::sw] = x
    return y


def resize(node, tensors, x):
    for axis, (size, step) in enumerate(zip(node["size"], node["step"], strict=True), start=2):
        places, step, last = np.arange(size, dtype=np.float32), np.float32(step), x.shape[axis] - 1
        at = places * step
        if node["linear"] and not node["corners"]:
            at = np.maximum((places + np.float32(0.5)) * step - np.float32(0.5), 0)
        first = np.minimum(at.astype(int), last)
        near = x.take(first, axis)
        if node["linear"]:
            share = np.where(first < last, at - first, 0).astype(np.float32).reshape(-1, *[1] * (3 - axis))
            near = near + share * (x.take(np.minimum(first + 1, last), axis) - near)
        x = near
    return x


def matmul(node, tensors, x, y):
    return np.matmul(*aligned(x, y))


def attention(node, tensors, q, k, v, *mask):
    scores = np.float32(node["scale"]) * (q @ k.swapaxes(-1, -2))
    scores = scores + aligned(scores, *mask)[1] if mask else scores
    if node["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return softmax_of(scores, -1) @ v


def embedding(node, tensors, x):
    return tensors[node["weight"]][np.clip(x, 0, node["count"] - 1).astype(int)]  # only real ones may be beyond it


def number(node, tensors, x):
    return x.astype(np.float32)


OPERATIONS = {
    **{
        each.__name__: each
        for each in (
            *(convolution, linear, affine, max_pool, average_pool, flatten, add, relu, concatenate, constant, function),
            *(combine, reduce, layer_norm, group_norm, softmax, reshape, transpose, expand, pad, spread, resize),
            *(matmul, attention, embedding, number),
        )
    },
    "slice": part,
}


def set_sizes(facts, inputs):
    """Writes into the description what follows from the sizes of the inputs, where these are free."""
    ports = {port["name"]: port for port in facts["inputs"]}
    parts = {**ports, **{node["output"]: node for node in facts["nodes"]}}
    free = {}
    for size in facts["sizes"]:
        name, _, place = size["at"]
        if name in ports:
            free[size["of"][0]] = (inputs[name].shape[place + 1] - size["plus"]) // size["times"]
    for size in facts["sizes"]:
        name, key, place = size["at"]
        number = size["times"] * math.prod(free[each] for each in size["of"]) + size["plus"]
        if place is None:
            parts[name][key] = number
        else:
            parts[name][key][place] = number


def run(facts, tensors, inputs):
    """All outputs by name, for arrays by the names of the inputs; images are normalised before."""
    if "free" in facts:
        set_sizes(facts, inputs)
    if facts["version"] == 1:
        facts = {**facts, "outputs": [{"name": "logits", "value": facts["output"]}]}
    values = dict(inputs)
    for node in facts["nodes"]:
        values[node["output"]] = OPERATIONS[node["op"]](node, tensors, *(values[name] for name in node["inputs"]))
    return {output["name"]: values[output["value"]] for output in facts["outputs"]}


if __name__ == "__main__":
    facts, tensors = unpacked(np.fromfile(sys.argv[1], np.uint8).tobytes() if sys.argv[2:] else sys.exit(__doc__))
    for name, found in run(facts, tensors, dict(np.load(sys.argv[2]))).items():
        print(name, found.shape, found.reshape(-1)[:5])
