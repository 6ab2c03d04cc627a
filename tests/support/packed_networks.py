"""Models with binary weights and random packed networks, and how to compare what they compute."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from adaste.estimators.maps import sign
from adaste.packed.graph import INPUT, LOGITS, Graph, Input, Output
from adaste.packed.nodes import (
    OPERATIONS,
    Add,
    Affine,
    AveragePool,
    Concatenate,
    Convolution,
    Flatten,
    Linear,
    MaxPool,
    Node,
    Relu,
    Shape,
)
from adaste.packed.torch_module import PackedNetwork

LAYERS = nn.Conv2d | nn.Linear


@torch.no_grad()
def binarized(model: nn.Module, scale: str = "unit", real: tuple[nn.Module, ...] = ()) -> nn.Module:
    """`model` with binary weights and with norms that have seen something, in evaluation mode."""
    for module in model.modules():
        if isinstance(module, LAYERS) and module not in real:
            weight = module.weight
            fan_in = math.prod(weight.shape[1:])
            sizes = {
                "unit": torch.ones(1),
                "layer": torch.full([1], math.sqrt(2 / fan_in)),
                "channel": weight.abs().flatten(1).mean(1).view(-1, *[1] * (weight.dim() - 1)),
            }
            weight.copy_(sign(weight) * sizes[scale])
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                module.weight.normal_()  # some negative: these channels are turned round
                module.bias.normal_()
    return model.eval()


class Function(nn.Module):
    """A layer that calls a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


OTHER_FORMS: dict[str, nn.Module] = {
    "ReLU6": nn.ReLU6(),
    "ReLU6 in place": nn.ReLU6(inplace=True),
    "relu6": Function(F.relu6),
    "hardtanh from 0 to 6": Function(lambda x: F.hardtanh(x, 0, 6)),
    "Hardtanh": nn.Hardtanh(),
    "clamp": Function(lambda x: x.clamp(0, 6)),
    "clamp in place": Function(lambda x: x.clamp_(0.5, 2.5)),
    "clamp below": Function(lambda x: x.clamp(min=-0.5)),
    "clamp above": Function(lambda x: x.clamp(max=0.25)),
    "amax": Function(lambda x: torch.amax(x, (2, 3))),
    "amax of a side": Function(lambda x: x.amax(2, keepdim=True)),
    "max of sides": Function(lambda x: x.max(3)[0].max(2).values),
    "mean of sides": Function(lambda x: x.mean(3).mean(2)),
    "mean of a side": Function(lambda x: x.mean(2)),
    "mean of pixels": Function(lambda x: x.flatten(2).mean(-1)),
    "the only pixel": Function(lambda x: F.adaptive_avg_pool2d(x, 1)[:, :, 0, 0]),
    "the last pixel": Function(lambda x: F.adaptive_max_pool2d(x, 1)[..., -1, -1]),
    "one value concatenated": Function(lambda x: torch.cat([x], 1)),
    "one value concatenated along a side": Function(lambda x: torch.cat((x,), -1)),
    "one flat value concatenated": Function(lambda x: torch.cat([x.flatten(1)], 1)),
    "add": Function(lambda x: torch.add(x, x.relu(), alpha=1)),
    "add with alpha": Function(lambda x: torch.add(x, x.relu(), alpha=-0.5)),
    "difference": Function(lambda x: x - x.relu()),
    "difference of flat values": Function(lambda x: x.relu().flatten(1) - x.flatten(1)),
    "ELU with an alpha": nn.ELU(0.5),
    "CELU": nn.CELU(0.5),
    "SELU": nn.SELU(),
    "RReLU": nn.RReLU(),
    "Softplus": nn.Softplus(beta=3),
    "LogSigmoid": nn.LogSigmoid(),
    "LogSoftmax of large numbers": Function(lambda x: F.log_softmax(100 * x, 1)),
    "LogSoftmax of features": Function(lambda x: x.flatten(1).log_softmax(-1)),
    "logarithm of a sum of powers": Function(lambda x: (100 * x).logsumexp((2, 3))),
    "logarithm of a sum of channels' powers": Function(lambda x: x - x.logsumexp(1, keepdim=True)),
    "sign": Function(lambda x: x.sign() * x.mean(1, keepdim=True)),
    "clamp by tensors": Function(lambda x: torch.clamp(x, torch.zeros(4, 1, 1), x.abs().mean(1, keepdim=True))),
    "variance and mean": Function(lambda x: torch.sub(*torch.var_mean(x, 1))),
    "Hardshrink, by torch's definition": nn.Hardshrink(),
    "Softshrink, by torch's definition": nn.Softshrink(),
    "Threshold, by torch's definition": nn.Threshold(0.1, 0.2),
    "deviation, by torch's definition": Function(lambda x: x.std((2, 3))),
    "values side by side, by torch's definition": Function(lambda x: torch.hstack([x, x.absolute().clip(0.1, 1)])),
    "similarity, by torch's definition": Function(lambda x: F.cosine_similarity(x, x.roll(1, 3), dim=1)),
    "another order, by torch's definition": Function(lambda x: torch.moveaxis(x, 1, -1).mT),
}
"""Operations that the file has no node for, but others that do the same."""


def in_another_form(name: str) -> nn.Module:
    """A small network with one of these between two binary layers."""
    torch.manual_seed(0)
    first, form = nn.Conv2d(3, 4, 3, padding=1), OTHER_FORMS[name]
    features = form(torch.zeros(1, 4, 5, 6)).flatten(1).shape[1]
    norm = nn.BatchNorm2d(4)
    return binarized(nn.Sequential(first, norm, form, nn.Flatten(), nn.Linear(features, 5)), scale="layer")


@torch.no_grad()
def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    output = model(images)
    return output if isinstance(output, Tensor) else output.logits


def assert_same(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    """Equal logits up to rounding, and equal winners."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= tolerance * max(np.abs(wanted).max(), 1e-6)
    margin = np.sort(wanted, axis=1)
    clear = wanted.shape[1] < 2 or margin[:, -1] - margin[:, -2] > 2 * tolerance * np.abs(wanted).max()
    assert np.all((found.argmax(1) == wanted.argmax(1)) | ~np.asarray(clear))


@torch.no_grad()
def computed(graph: Graph, images: np.ndarray) -> np.ndarray:
    return PackedNetwork(graph)(torch.from_numpy(images)).numpy()


def images_for(graph: Graph, count: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, *graph.input_shape)).astype(np.float32)


def image_graph(
    *,
    input_shape: Shape,
    nodes: tuple[Node, ...],
    output: str,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    producer: str = "a test",
    **facts: Any,
) -> Graph:
    """A network from images to logits, as version 1 of the file has them."""
    given = Input(shape=input_shape, mean=mean, std=std)
    result = Output(name=LOGITS, value=output)
    return Graph(inputs=(given,), results=(result,), nodes=nodes, producer=producer, **facts)


def tiny_graph() -> Graph:
    """The smallest network with a bit of everything that a file has."""
    return image_graph(
        input_shape=(1, 2, 2),
        mean=(0.5,),
        std=(0.25,),
        classes=("no", "yes"),
        recipe="0123456789abcdef",
        producer="adaste 0.1.0",
        nodes=(
            Flatten(inputs=(INPUT,), output="t1"),
            Linear(
                inputs=("t1",),
                output="t2",
                out_features=2,
                in_features=4,
                weight=np.array([[0b0101], [0b1110]], np.uint8),
                kind="binary",
                scale=np.array([0.5, 2.0], np.float32),
                shift=np.array([-1.0, 1.0], np.float32),
                relu=False,
            ),
        ),
        output="t2",
    )


class RandomGraph:
    """Grows a network from random nodes; with many small steps, as a trace has them, or with all that a node can do."""

    def __init__(self, seed: int, *, traced: bool) -> None:
        self.random, self.traced = np.random.default_rng(seed), traced
        self.nodes: list[Node] = []
        shape = (self.pick(1, 2, 3), self.pick(4, 5, 8), self.pick(4, 6, 7))
        self.shapes: dict[str, Shape] = {INPUT: shape}

    def pick(self, *choices: Any) -> Any:
        return choices[self.random.integers(len(choices))]

    def numbers(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(np.float32)

    def name(self) -> str:
        return f"t{len(self.nodes) + 1}"

    def graph(self, steps: int) -> Graph:
        for _ in range(steps):
            kinds = (self.convolution, self.convolution, self.affine, self.affine, self.relu, self.pool, self.join)
            self.pick(*kinds)()
        last = next(reversed(self.shapes))
        self.put(Flatten(inputs=(last,), output=self.name()))
        features = self.shapes[self.name_before()][0]
        self.put(self.layer(Linear, self.name_before(), (5, features), out_features=5, in_features=features))
        return image_graph(
            input_shape=self.shapes[INPUT], producer="a test", nodes=tuple(self.nodes), output=self.name_before()
        )

    def name_before(self) -> str:
        return f"t{len(self.nodes)}"

    def put(self, node: Node) -> None:
        self.shapes[node.output] = node.shape([self.shapes[name] for name in node.inputs])
        self.nodes.append(node)

    def value(self) -> str:
        """The last value most of the time, so that chains grow."""
        names = list(self.shapes)
        return names[-1] if self.random.random() < 0.8 else self.pick(*names)

    def end(self, channels: int) -> dict[str, Any]:
        """Scale, shift and ReLU of a layer."""
        if self.traced:
            return {"relu": False}
        return {
            "scale": self.pick(None, self.numbers(channels)),
            "shift": self.pick(None, self.numbers(channels)),
            "relu": self.pick(True, False),
        }

    def layer(self, kind: type, source: str, shape: tuple[int, ...], **fields: Any) -> Node:
        real = self.random.random() < 0.3
        weight = self.numbers(*shape)
        bits = np.packbits(weight.reshape(shape[0], -1) > 0, axis=1, bitorder="little")
        return kind(
            inputs=(source,),
            output=self.name(),
            weight=weight if real else bits,
            kind="float" if real else "binary",
            **fields,
            **self.end(shape[0]),
        )

    def convolution(self) -> None:
        source = self.value()
        channels, height, width = self.shapes[source]
        groups = self.pick(1, channels)
        kernel = (self.pick(1, min(3, height)), self.pick(1, min(2, width)))
        outputs = groups * self.pick(1, 2, 3) if groups > 1 else self.pick(2, 3, 9)
        node = self.layer(
            Convolution,
            source,
            (outputs, channels // groups, *kernel),
            out_channels=outputs,
            in_channels=channels,
            kernel=kernel,
            stride=(self.pick(1, 1, 2), self.pick(1, 1, 2)),
            padding=(self.pick(0, 1), self.pick(0, 1)),
            groups=groups,
        )
        self.put(node)

    def affine(self) -> None:
        source = self.value()
        channels = self.shapes[source][0]
        scale = self.numbers(channels)
        end = self.end(channels) | {"scale": self.pick(scale, np.abs(scale)), "shift": self.numbers(channels)}
        self.put(Affine(inputs=(source,), output=self.name(), channels=channels, **end))

    def relu(self) -> None:
        self.put(Relu(inputs=(self.value(),), output=self.name()))

    def pool(self) -> None:
        source = self.value()
        kernel = (self.pick(1, min(3, self.shapes[source][1])), self.pick(1, min(2, self.shapes[source][2])))
        window = {
            "kernel": kernel,
            "stride": (self.pick(1, 2), self.pick(1, 2)),
            "padding": (self.pick(0, kernel[0] // 2), self.pick(0, kernel[1] // 2)),
        }
        node = self.pick(
            MaxPool(inputs=(source,), output=self.name(), **window),
            AveragePool(inputs=(source,), output=self.name(), **window, count_padding=self.pick(True, False)),
        )
        self.put(node)

    def join(self) -> None:
        """A sum, a residual or a concatenation, where there are values that fit."""
        source = self.value()
        same = [name for name, shape in self.shapes.items() if shape == self.shapes[source]]
        alike = [name for name, shape in self.shapes.items() if shape[1:] == self.shapes[source][1:]]
        inputs = (source, self.pick(*same))
        channels = self.shapes[source][0]
        nodes: list[Node] = [
            Add(inputs=inputs, output=self.name(), relu=not self.traced and self.pick(True, False)),
            Concatenate(inputs=(source, self.pick(*alike)), output=self.name()),
        ]
        if not self.traced:
            nodes.append(Affine(inputs=inputs, output=self.name(), channels=channels, **self.end(channels)))
        self.put(self.pick(*nodes))


def every_operation() -> Graph:
    """A small network with all operations."""
    grown = RandomGraph(3, traced=False)
    grown.shapes = {"input": (2, 4, 4)}
    fields = {"out_channels": 2, "in_channels": 2, "kernel": (3, 3), "stride": (1, 1), "padding": (1, 1), "groups": 1}
    grown.put(grown.layer(Convolution, "input", (2, 2, 3, 3), **fields))
    grown.affine()
    grown.relu()
    grown.put(MaxPool(inputs=("t3",), output="t4", kernel=(2, 2), stride=(1, 2), padding=(1, 0)))
    grown.put(
        AveragePool(inputs=("t4",), output="t5", kernel=(2, 1), stride=(2, 1), padding=(0, 0), count_padding=False)
    )
    grown.put(Add(inputs=("t5", "t5"), output="t6", relu=True))
    grown.put(Concatenate(inputs=("t5", "t6"), output="t7"))
    graph = grown.graph(0)
    assert {node.op for node in graph.nodes} == OPERATIONS.keys()
    return graph
