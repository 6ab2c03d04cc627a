"""Networks with free sizes: traced with some, and right at others in torch, the plain reader, the runtime and ONNX."""

import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import adaste
from adaste.packed.format import from_bytes, to_bytes
from adaste.packed.graph import Graph, Input, Output, Size
from adaste.packed.nodes import Linear, pack_signs
from adaste.packed.onnx import to_int8_onnx, to_onnx
from adaste.packed.tensor_nodes import Combine, Embedding, Literal, Pad, Slice
from adaste.packed.torch_module import PackedNetwork
from support.packed_files import taken_apart
from support.packed_networks import Function

reader = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "read_packed_2.py"))


class Texts(nn.Module):
    """Positions from a table, a mask, and a mean over the tokens that it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(15, 8), nn.Embedding(32, 8)
        self.layer, self.norm, self.end = nn.Linear(8, 24), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self.tokens(tokens) + self.places(torch.arange(tokens.shape[1])))
        q, k, v = self.layer(x).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind()
        seen = mask.bool()[:, None, None]
        x = x + F.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).flatten(2)
        kept = mask[..., None].float()
        return self.end((x * kept).sum(1) / kept.sum(1))


class Segmenter(nn.Module):
    """Halves and doubles an image; tokens of pixels in between, and a pool of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 2, 2)
        self.norm, self.pool = nn.LayerNorm(8), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1))

    def forward(self, x: Tensor) -> Tensor:
        low = F.max_pool2d(self.down(x), 2, 2, ceil_mode=True)
        rows = self.norm(low.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, low.shape[2:])
        wide = F.interpolate(rows + self.pool(rows), scale_factor=2, mode="bilinear")
        wide = wide + F.interpolate(self.pool(low), size=wide.shape[2:], mode="bilinear")
        return self.up(wide) + x[:, :1]


def text(length: int) -> dict[str, Tensor]:
    mask = (torch.arange(length) < torch.tensor([[length], [-(-length // 2)], [1]])).long()
    return {"tokens": torch.randint(0, 15, (3, length)), "mask": mask}


def image(*sides: int) -> dict[str, Tensor]:
    return {"input": torch.randn(2, *sides)}


def classifier() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), nn.Conv2d(8, 8, 3),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


CAUSAL = Function(
    lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True) + torch.ones(x.shape[2], 1).cumsum(0)
)
HEIGHT_AND_WIDTH = {"input": {2: "height", 3: "width"}}
CASES: dict[str, tuple[nn.Module, dict[str, Tensor], Any, list[dict[str, Tensor]]]] = {
    "texts": (
        Texts(), text(24), {"tokens": {1: "length"}, "mask": {1: "length"}}, [text(length) for length in (24, 23, 9, 1)]
    ),
    "a classifier": (
        classifier(), image(3, 40, 36), HEIGHT_AND_WIDTH, [image(3, *sides) for sides in ((40, 36), (39, 21), (16, 35))]
    ),
    "a classifier of one free side": (
        classifier(), image(3, 40, 36), {"input": {3: "width"}}, [image(3, 40, 35), image(3, 40, 18)]
    ),
    "a segmenter": (
        Segmenter(), image(3, 32, 24), {"input": {2: "4*height", 3: "4 * width"}},
        [image(3, *sides) for sides in ((32, 24), (28, 20), (8, 16), (4, 4))],
    ),
    "squares": (
        Segmenter(), image(3, 32, 32), {"input": {2: "4*side", 3: "4*side"}}, [image(3, 16, 16), image(3, 28, 28)]
    ),
    "causal": (CAUSAL, image(2, 12, 4), {"input": {2: "length"}}, [image(2, length, 4) for length in (12, 7, 1)]),
    "rows": (
        nn.Sequential(nn.Conv1d(2, 4, 5, 2), nn.GELU(), nn.Conv1d(4, 4, 3, padding=1), Function(lambda x: x.mean(2))),
        image(2, 60), {"input": {2: "time"}}, [image(2, time) for time in (60, 59, 31, 6)],
    ),
    "a cumulative sum": (
        Function(lambda x: x.cumsum(1) / x.shape[2] + x.amax(1, keepdim=True)), image(9, 5), {"input": {1: "time"}},
        [image(time, 5) for time in (9, 8, 3, 1)],
    ),
}  # fmt: skip


def has_weights(model: nn.Module) -> bool:
    return any(True for _ in model.parameters())


def in_torch(content: bytes, example: dict[str, Tensor]) -> np.ndarray:
    return PackedNetwork(from_bytes(content))(**example).numpy()


def in_the_plain_reader(content: bytes, example: dict[str, Tensor]) -> np.ndarray:
    found = reader["run"](*reader["unpacked"](content), {name: value.numpy() for name, value in example.items()})
    return next(iter(found.values()))


def in_the_runtime(content: bytes, example: dict[str, Tensor]) -> np.ndarray:
    runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    net = runtime.load_bytes(content, threads=2)
    assert net.free_sizes == dict(from_bytes(content).free)
    return net(**{name: value.numpy() for name, value in example.items()})


def session_of(content: bytes) -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def in_onnx(content: bytes, example: dict[str, Tensor]) -> np.ndarray:
    found: np.ndarray = session_of(to_onnx(from_bytes(content))).run(None, as_arrays(example))[0]
    return found


def as_arrays(example: dict[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in example.items()}


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("compute", [in_torch, in_the_plain_reader, in_the_runtime, in_onnx])
@pytest.mark.parametrize("name", CASES)
def test_a_network_is_the_same_at_every_size(name: str, compute: Any) -> None:
    model, example, free, others = CASES[name]
    model.eval()
    given = example if len(example) > 1 else example["input"]
    content = adaste.pack(model, given, free=free, allow_float=has_weights(model))
    assert to_bytes(from_bytes(content)) == content
    for other in others:
        wanted = (model(**other) if len(other) > 1 else model(other["input"])).numpy()
        found = compute(content, other)
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max())


@pytest.mark.parametrize(
    ("model", "example", "free", "words"),
    [
        (classifier(), image(3, 40, 36), {"x": {2: "h"}}, "free has the input 'x', example has input"),
        (classifier(), image(3, 40, 36), {"input": {0: "n"}}, "0 is the batch, which is always free"),
        (classifier(), image(3, 40, 36), {"input": {4: "n"}}, "by dimensions from 1 on"),
        (classifier(), image(3, 40, 36), {"input": {2: "h+1"}}, r"got 'h\+1' for dimension 2"),
        (classifier(), image(3, 40, 36), {"input": {2: "32*h"}}, r"the largest sizes: h at least 4 .* got 40"),
        (classifier(), image(3, 40, 36), {"input": {2: "h", 3: "h"}}, "everywhere the same, here 1 times, got 36"),
        (classifier(), image(3, 40, 36), {"input": {1: "c"}}, "at least 4"),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(48, 2)), image(3, 4, 4), {"input": {2: "h"}},
            r"at another size, such as h 3: it fails there, .* larger steps, as '32\*height'",
        ),
        (Segmenter(), image(3, 32, 24), HEIGHT_AND_WIDTH, "computes something else at another size"),
        (
            Function(lambda x: x + torch.linspace(0, 1, x.shape[2])[:, None]), image(2, 8, 4), {"input": {2: "h"}},
            "a constant is not the begin of that for the largest size",
        ),
        (
            Function(lambda x: x * 2 if x.shape[2] == 8 else x.relu()), image(2, 8, 4), {"input": {2: "h"}},
            "is another operation there|it has other operations",
        ),
        (
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), image(2, 8, 4), {"input": {2: "h"}},
            "with align_corners",
        ),
        (nn.AdaptiveAvgPool2d(2), image(2, 8, 8), {"input": {2: "2*h"}}, "the windows of a average_pool differ"),
        (
            Function(lambda x: F.pad(x, (0, 0, 0, -x.shape[2] % 3))), image(2, 8, 4), {"input": {2: "h"}},
            "something else at another size",
        ),
    ],
)  # fmt: skip
def test_a_size_that_cannot_be_free_is_refused_with_the_reason(
    model: nn.Module, example: dict[str, Tensor], free: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        adaste.pack(model.eval(), example["input"], free=free, allow_float=has_weights(model))


@cache  # tracing takes long
def segmenter() -> Graph:
    model, example, free, _ = CASES["a segmenter"]
    return from_bytes(adaste.pack(model.eval(), example["input"], free=free, allow_float=True))


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        ((3, 36, 24), r"dimension 2 of input must be 4\*height with height from 1 to 8, got 36"),
        ((3, 30, 24), "got 30"),
        ((3, 32, 0), "got 0"),
        ((4, 32, 24), r"images must be \(n, 3, 32, 24\)"),
    ],
)
def test_inputs_of_other_sizes_are_refused(sides: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PackedNetwork(segmenter())(torch.zeros(1, *sides))


def test_a_size_that_a_network_cannot_be_run_with_is_named() -> None:
    graph = from_bytes(
        adaste.pack(classifier().eval(), torch.randn(1, 3, 40, 36), free=HEIGHT_AND_WIDTH, allow_float=True)
    )
    with pytest.raises(ValueError, match=r"cannot be run with height = 5, width = 36: node \d+ .* does not fit into"):
        PackedNetwork(graph)(torch.zeros(1, 3, 5, 36))


EVEN = {"input": {2: "2*height", 3: "2*width"}}
POOLED = [(13, 10), (12, 9), (7, 6), (5, 2), (8, 8)]
OPERATIONS: dict[str, tuple[nn.Module, tuple[int, int, int], Any, list[tuple[int, int]]]] = {
    "circular padding": (
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (3, 3)]
    ),
    "reflection": (
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (4, 5)]
    ),
    "padding that follows": (
        Function(lambda x: F.pad(x, (0, x.shape[3], 1, 2))), (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (2, 1)]
    ),
    "a mean rounded up": (nn.AvgPool2d(3, 2, 1, ceil_mode=True), (3, 13, 10), HEIGHT_AND_WIDTH, POOLED),
    "a mean of pixels alone rounded up": (
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), (3, 13, 10), HEIGHT_AND_WIDTH, POOLED
    ),
    "a mean with wide padding": (
        nn.AvgPool2d(5, 4, 2, ceil_mode=True), (3, 14, 11), HEIGHT_AND_WIDTH, [(13, 10), (12, 9), (11, 8), (10, 7)]
    ),
    "a maximum rounded up": (nn.MaxPool2d(3, 2, 1, ceil_mode=True), (3, 13, 10), HEIGHT_AND_WIDTH, POOLED),
    "a maximum with gaps": (
        nn.MaxPool2d(2, 3, ceil_mode=True), (3, 13, 10), HEIGHT_AND_WIDTH, [(12, 9), (7, 6), (5, 4), (8, 8)]
    ),
    "a transposed convolution": (
        nn.ConvTranspose2d(3, 4, 3, (3, 2), 1, output_padding=1), (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (1, 2)]
    ),
    "a norm of channels": (nn.InstanceNorm2d(3), (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (2, 2)]),
    "a norm of pixels": (
        Function(lambda x: F.layer_norm(x, x.shape[2:])), (4, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (2, 1)]
    ),
    "a norm without a mean": (
        Function(lambda x: F.rms_norm(x, x.shape[3:])), (4, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (2, 1)]
    ),
    "nearest pixels": (nn.Upsample(scale_factor=3), (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (1, 2)]),
    "slices": (
        Function(lambda x: x[:, :, 1::2] - x[:, :, :-1:2, :1]), (3, 12, 10), EVEN, [(8, 4), (2, 2)]
    ),
    "parts in another order": (
        Function(lambda x: torch.cat(x.chunk(2, 2)[::-1], 3)), (3, 12, 10), EVEN, [(8, 4), (2, 2)]
    ),
    "products": (Function(lambda x: x @ x.transpose(2, 3)), (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (2, 1)]),
    "repeated rows": (
        Function(lambda x: x.mean(2, keepdim=True).expand(-1, -1, x.shape[2], -1) * 2),
        (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (2, 1)],
    ),
    "flat": (
        Function(lambda x: x.flatten(1).mean(1, keepdim=True)), (3, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (2, 1)]
    ),
    "pixels from channels": (nn.PixelShuffle(2), (4, 12, 10), HEIGHT_AND_WIDTH, [(7, 9), (2, 1)]),
    "channels from pixels": (nn.PixelUnshuffle(2), (4, 12, 10), EVEN, [(8, 6), (2, 2)]),
}  # fmt: skip


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("name", OPERATIONS)
def test_in_onnx_each_operation_is_that_of_a_file_for_one_size(name: str) -> None:
    model, largest, free, others = OPERATIONS[name]
    packed = adaste.pack(model.eval(), torch.randn(2, *largest), free=free, allow_float=has_weights(model))
    graph = from_bytes(packed)
    session = session_of(to_onnx(graph))
    for sides in ((largest[1:]), *others):
        x = torch.randn(2, largest[0], *sides)
        (found,) = session.run(None, {"input": x.numpy()})
        fixed = graph.at(graph.free_of({"input": tuple(x.shape[1:])}))
        (wanted,) = session_of(to_onnx(fixed)).run(None, {"input": x.numpy()})
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        np.testing.assert_allclose(found, model(x).numpy(), atol=1e-5)


def dimensions(session: Any) -> dict[str, list[Any]]:
    return {port.name: port.shape for port in (*session.get_inputs(), *session.get_outputs())}


def test_a_file_of_onnx_names_its_free_sizes_once(tmp_path: Path) -> None:
    model, example, free, others = CASES["texts"]
    content = adaste.pack(model.eval(), example, free=free, allow_float=True, path=tmp_path / "texts.onnx")
    assert (tmp_path / "texts.onnx").read_bytes() == content
    session = session_of(content)
    assert dimensions(session) == {"tokens": ["n", "length"], "mask": ["n", "length"], "logits": ["n", 3]}
    assert session.get_modelmeta().custom_metadata_map["free"] == '{"length": 24}'
    assert session.run(None, as_arrays(others[2]))[0].shape == (3, 3)


@pytest.mark.parametrize(
    ("model", "free", "given", "made"),
    [
        (nn.ReLU(), {2: "4*height", 3: "width"}, ["n", 3, "4*height", "width"], ["n", 3, "4*height", "width"]),
        (nn.PixelUnshuffle(4), {2: "4*height"}, ["n", 3, "4*height", 24], ["n", 48, "height", 6]),
        (nn.Conv2d(3, 8, 3), {3: "width"}, ["n", 3, 32, "width"], ["n", 8, 30, None]),
        (Function(lambda x: x[:, :, 1:]), {2: "n", 3: "nn"}, ["nnn", 3, "n", "nn"], ["nnn", 3, "n-1", "nn"]),
        (Function(lambda x: F.pad(x, (0, 1))), {2: "height", 3: "width"}, ["n", 3, "height", "width"],
         ["n", 3, "height", None]),
    ],
)  # fmt: skip
def test_sides_of_onnx_are_numbers_where_they_are_fixed_and_names_where_they_have_one(
    model: nn.Module, free: dict[int, str], given: list[Any], made: list[Any]
) -> None:
    packed = adaste.pack(model, torch.randn(2, 3, 32, 24), free={"input": free}, allow_float=has_weights(model))
    assert dimensions(session_of(to_onnx(from_bytes(packed)))) == {"input": given, "logits": made}


def test_rules_of_any_form_and_values_with_the_names_of_outputs_are_right_in_onnx() -> None:
    signs = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (6, 4))
    numbers = np.random.default_rng(1).standard_normal((2, 45), np.float32)
    graph = Graph(
        producer="tests",
        inputs=(Input(name="x", shape=(8, 5)), Input(name="t", shape=(5,), type="integer")),
        nodes=(
            Literal(inputs=(), output="places", sides=(5, 4), value=numbers[0, :20]),
            Slice(inputs=("places",), output="begin", axis=0, start=0, count=5, step=1),
            Embedding(inputs=("t",), output="rows", count=9, width=4, weight=numbers[1, :36].reshape(9, 4)),
            Combine(inputs=("rows", "begin"), output="sum", function="add"),
            Linear(
                inputs=("sum",), output="end", out_features=6, in_features=4, weight=pack_signs(signs), kind="binary",
                relu=True,
            ),
            Pad(inputs=("x",), output="map", before=(1, 0), after=(7, 20), mode="constant", value=2.0),
        ),
        results=(Output(name="map", value="end"), Output(name="end", value="map")),
        free={"a": 4, "b": 5},
        sizes=(
            Size(at=("x", "shape", 0), of=("a",), times=2, plus=0),
            Size(at=("x", "shape", 1), of=("b",), times=1, plus=0),
            Size(at=("t", "shape", 0), of=("a",), times=1, plus=1),
            Size(at=("begin", "count", None), of=("a",), times=1, plus=1),
            Size(at=("map", "after", 0), of=("a",), times=2, plus=-1),
            Size(at=("map", "after", 1), of=("b", "a"), times=1, plus=0),
        ),
    )  # fmt: skip
    session = session_of(to_onnx(graph))
    assert dimensions(session) == {
        "x": ["n", "2*a", "b"], "t": ["n", "a+1"], "map": ["n", "a+1", 6], "end": ["n", None, None]
    }  # fmt: skip
    for a, b in ((4, 5), (1, 1), (3, 2)):
        x, t = torch.randn(2, 2 * a, b), torch.randint(0, 9, (2, a + 1))
        found = dict(zip(("map", "end"), session.run(None, {"x": x.numpy(), "t": t.numpy()}), strict=True))
        wanted = PackedNetwork(graph)(x=x, t=t)
        for name, value in found.items():
            np.testing.assert_allclose(value, wanted[name].numpy(), atol=1e-5)


@torch.no_grad()
def test_8_bit_onnx_that_is_calibrated_at_the_largest_size_is_right_at_others() -> None:
    model, example, free, others = CASES["a classifier"]
    graph = from_bytes(adaste.pack(model.eval(), example["input"], free=free, allow_float=True))
    pytest.importorskip("onnxruntime")
    calibrated = torch.linspace(0, 2, 16).reshape(16, 1, 1, 1) * torch.randn(16, 3, 40, 36)
    session = session_of(to_int8_onnx(graph, calibrated.numpy()))
    least, most = model(calibrated).aminmax()  # numbers outside of what calibration has met are cut off
    for other in others:
        wanted = model(other["input"]).clamp(least.clamp(max=0), most.clamp(min=0)).numpy()
        (found,) = session.run(None, as_arrays(other))
        assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()


def rule(at: Any, of: Any, times: Any = 1, plus: Any = 0) -> dict[str, Any]:
    return {"at": at, "of": of, "times": times, "plus": plus}


@pytest.mark.parametrize(
    ("free", "sizes", "words"),
    [
        ({"h": 0}, [], "a free size must have a name and be at most"),
        ({"": 3}, [], "a free size must have a name"),
        ({"h": 1.5}, [], "the free size 'h' must be a whole number"),
        ([], [], "free must be a JSON object"),
        ({}, [], "free must be a JSON object with a size"),
        ({"h": 8}, {}, "sizes must be a list"),
        ({"h": 8}, [], "no input has the free size 'h'"),
        ({"h": 8}, [rule(["input", "shape", 1], ["w"], 4)], "must follow from one or two free sizes"),
        ({"h": 8}, [rule(["input", "shape", 1], ["h", "h"], 4)], "that of an input from one"),
        ({"h": 8}, [rule(["input", "shape", 1], [], 4)], "must follow from one or two free sizes"),
        ({"h": 8}, [rule(["input", "shape", 1], ["h"], 0)], "a factor from 1 on, got 0"),
        ({"h": 8}, [rule(["input", "shape", 1], ["h"], 3)], r"is 32, not 24 as 3\*h says"),
        ({"h": 8}, [rule(["input", "shape", 1], ["h"], 4, 1)], r"is 32, not 33 as 4\*h\+1 says"),
        ({"h": 8}, [rule(["input", "shape", 3], ["h"], 4)], "has no place 3"),
        ({"h": 8}, [rule(["input", "shape", None], ["h"], 4)], "has no place None"),
        ({"h": 8}, [rule(["input", "type", None], ["h"], 4)], "is not there, or no size"),
        ({"h": 8}, [rule(["t99", "sides", 0], ["h"], 4)], "is not there, or no size"),
        ({"h": 8}, [rule(["t1", "kernel", 0], ["h"], 4)], "is not there, or no size"),
        ({"h": 8}, [rule(["input", "shape"], ["h"], 4)], "at of sizes 0 must be a list of three"),
        ({"h": 8}, [{"at": ["input", "shape", 1]}], "lacks the key"),
    ],
)
def test_a_bad_rule_is_refused(free: Any, sizes: Any, words: str) -> None:
    parts = taken_apart(to_bytes(segmenter()))
    parts.facts.update(free=free, sizes=sizes)
    with pytest.raises(ValueError, match=words):
        from_bytes(parts.bytes())


def test_sizes_follow_from_products() -> None:
    size = Size(at=("t1", "sides", 1), of=("h", "w"), times=2, plus=-1)
    assert size.number({"h": 3, "w": 5}) == 29
    assert json.loads(json.dumps(size.at)) == ["t1", "sides", 1]
