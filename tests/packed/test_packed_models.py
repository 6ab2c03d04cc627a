"""Torch models through pack and load_packed: the same logits, the same weights to the last bit, clear refusals."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import adaste
from adaste.models import MLP, VGG, ImageShape, ResNet
from adaste.packed.format import from_bytes
from adaste.packed.nodes import Weighted
from adaste.packed.onnx import to_onnx
from adaste.packed.torch_module import PackedNetwork
from adaste.training.execution import in_precision
from support.packed_networks import OTHER_FORMS, Function, assert_same, binarized, in_another_form, logits_of

pytestmark = pytest.mark.slow

NETWORKS = {
    "ResNet-18": ResNet(depth=18),
    "ResNet-34": ResNet(depth=34, logits_norm=False),
    "ResNet-50": ResNet(depth=50, affine=True),
    "ResNet for ImageNet": ResNet(depth=18, stem="large", affine=True),
    "VGG-16": VGG(),
    "VGG of md-bnn": VGG(stages=((16,), (24,)), pool_last=True, bias=True, logits_norm=False),
    "BinaryConnect's VGG": VGG(stages=((128, 128), (256, 256), (512, 512)), hidden_widths=(1024, 1024)),
    "MLP": MLP(widths=(64, 64)),
    "MLP with biases": MLP(widths=(64,), norm_hidden=False, logits_norm=False),
}
FOLDED = ("convolution", "linear")  # with all norms, biases, ReLUs and shortcuts
SIDES = {"ResNet-34": 25, "ResNet-50": 25, "ResNet for ImageNet": 97}


def signs_of(model: nn.Module) -> list[np.ndarray]:
    """The signs of all weights, in the order the layers have in the model."""
    weights = [module.weight for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    return [np.where(weight.detach().float().numpy() < 0, -1, 1) for weight in weights]


def assert_packed(model: nn.Module, images: Tensor, tmp_path: Path, **options) -> PackedNetwork:
    """`model` survives packing; what was loaded."""
    path = tmp_path / "model.safetensors"
    content = adaste.pack(model, images, path=path, **options)
    assert path.read_bytes() == content
    loaded = adaste.load_packed(path)
    assert not loaded.training
    reference = copy.deepcopy(model).float().eval()
    assert_same(logits_of(loaded, images), logits_of(reference, images))
    return loaded


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_of_the_paper_have_the_same_logits(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    side = SIDES.get(name, 32)
    model = binarized(NETWORKS[name].build(ImageShape(3, side, side), 10), scale="layer")
    loaded = assert_packed(model, torch.randn(1, 3, side, side), tmp_path)
    if not NETWORKS[name].affine:  # else a scale may be negative and not pass a max pool
        assert {node.op for node in loaded.graph.nodes} <= {*FOLDED, "max_pool", "average_pool", "flatten"}
    if name == "ResNet-18":  # in float32 it has 44.7 MB
        assert (tmp_path / "model.safetensors").stat().st_size <= 1_500_000


def test_weights_are_those_of_the_model_bit_for_bit() -> None:
    torch.manual_seed(0)
    model = binarized(VGG(stages=((8, 12),), hidden_widths=(16,)).build(ImageShape(3, 8, 8), 10), scale="channel")
    graph = from_bytes(adaste.pack(model, torch.randn(1, 3, 8, 8)))
    layers = [node for node in graph.nodes if isinstance(node, Weighted)]
    assert len(layers) == len(signs_of(model)) == 4
    for layer, signs in zip(layers, signs_of(model), strict=True):
        assert layer.kind == "binary" and np.array_equal(layer.dense(), signs)


def test_a_model_packed_twice_gives_the_same_bytes() -> None:
    model = binarized(VGG(stages=((8,),), hidden_widths=()).build(ImageShape(3, 8, 8), 10), scale="channel")
    assert adaste.pack(model, torch.randn(1, 3, 8, 8)) == adaste.pack(model, torch.randn(5, 3, 8, 8))


def test_a_model_in_bfloat16_is_packed_in_float32(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = VGG(stages=((8, 8),), hidden_widths=(16,))
    model = in_precision(binarized(network.build(ImageShape(3, 8, 8), 10), scale="channel"), torch.bfloat16)
    images = torch.randn(4, 3, 8, 8)
    loaded = assert_packed(model, images, tmp_path)
    assert logits_of(loaded, images).dtype == torch.float32
    assert next(model.parameters()).dtype == torch.bfloat16  # and is left as it was


@pytest.mark.parametrize("layer_type", ["basic", "bottleneck"])
def test_a_resnet_of_transformers_has_the_same_logits(layer_type: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    configuration = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[2, 1], layer_type=layer_type, num_labels=10
    )
    model = binarized(transformers.ResNetForImageClassification(configuration), scale="channel")
    assert_packed(model, torch.randn(2, 3, 33, 33), tmp_path)


def test_a_mobilenet_of_transformers_has_the_same_logits(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    configuration = transformers.MobileNetV2Config(depth_multiplier=0.35, tf_padding=False, num_labels=10)
    model = binarized(transformers.MobileNetV2ForImageClassification(configuration), scale="layer")
    assert_packed(model, torch.randn(2, 3, 33, 33), tmp_path)


class Hand(nn.Module):
    """All that can be packed, in one model."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 5, padding=2)
        self.depthwise = nn.Conv2d(8, 16, 3, padding=(2, 1), groups=8, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.grouped = nn.Conv2d(16, 8, (1, 3), padding="same", groups=4)
        self.side = nn.Conv2d(8, 8, 1, padding=(1, 0))
        self.counting = nn.AvgPool2d(3, stride=2, padding=1)
        self.not_counting = nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)
        self.dropout = nn.Dropout2d(0.5)
        self.mean = nn.AdaptiveAvgPool2d((2, 3))
        self.largest = nn.AdaptiveMaxPool2d((2, 3))
        self.relu = nn.ReLU(inplace=True)
        self.hidden = nn.Linear(32 * 6 + 32, 12)
        self.hidden_norm = nn.BatchNorm1d(12, affine=False)
        self.last = nn.Linear(12, 5)
        self.register_buffer("shift", torch.randn(3, 1, 1))
        self.register_buffer("gain", torch.randn(1, 8, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first((x - self.shift) / 0.3))
        y = self.grouped(self.relu(self.norm(self.depthwise(x)))) * self.gain + self.side(x)
        before = 0.25 - y
        y.relu_()  # must not reach what was computed before
        pools = torch.cat([self.counting(y), self.not_counting(before)], dim=1)
        pools += 1
        maps = torch.cat([self.dropout(self.mean(pools)), self.largest(pools)], -3)
        flat = torch.cat([maps.flatten(1), maps.mean((-1, -2)).view(len(maps), -1)], 1)
        hidden = self.hidden_norm(self.hidden(flat)).clamp(min=0)
        return self.last(hidden.unsqueeze(-1).squeeze())


def test_groups_concatenation_pools_padding_and_real_layers_survive(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Hand()
    binarized(model, scale="channel", real=(model.first, model.last))
    loaded = assert_packed(model, torch.randn(3, 3, 9, 13), tmp_path, float_layers=["first", "last.weight"])
    kinds = {node.kind for node in loaded.graph.nodes if isinstance(node, Weighted)}
    assert kinds == {"binary", "float"}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_what_other_nodes_do_as_well_is_packed_as_these(name: str, tmp_path: Path) -> None:
    images = 3 * torch.randn(4, 3, 5, 6)
    assert_packed(in_another_form(name), images, tmp_path)


@pytest.mark.parametrize(("low", "high"), [(0, 6), (-1, 1), (0.1, 0.7), (None, 6), (-6, None)])
def test_a_clamp_is_rounded_like_its_bounds(low: float | None, high: float | None) -> None:
    model = nn.Sequential(nn.Flatten(), Function(lambda x: x.clamp(low, high)))
    numbers = torch.cat([torch.linspace(-9, 9, 998), torch.tensor([-1e30, 1e30])]).view(1, 1, 20, 50)
    found = logits_of(PackedNetwork(from_bytes(adaste.pack(model, numbers))), numbers)
    largest = max(abs(bound) for bound in (low, high) if bound is not None)
    torch.testing.assert_close(found, logits_of(model, numbers), rtol=2**-23, atol=2**-23 * largest)
    if (low, high) == (0, 6):
        flat = numbers.flatten(1)
        assert torch.all(found[flat <= 0] == 0) and torch.all(found[flat >= 6] == 6)  # to the last bit


def test_a_relu6_behind_a_layer_costs_one_node() -> None:
    graph = from_bytes(adaste.pack(in_another_form("ReLU6"), torch.randn(2, 3, 5, 6)))
    assert [node.op for node in graph.nodes] == ["convolution", "affine", "flatten", "linear"]


@settings(deadline=None, derandomize=True, max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_random_sequential_models_have_the_same_logits(seed: int) -> None:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    layers: list[nn.Module] = []
    channels = 2
    for _ in range(random.integers(1, 4)):
        width, groups = int(random.choice([2, 4, 6])), int(random.choice([1, 2]))
        kernel = int(random.choice([1, 3]))
        layers.append(nn.Conv2d(channels, width, kernel, padding=1, groups=groups, bias=bool(random.integers(2))))
        norms = [nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2, padding=1), nn.Dropout(), nn.AvgPool2d(2)]
        layers += [norms[place] for place in random.permutation(len(norms))[: random.integers(6)]]
        channels = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 3), nn.BatchNorm1d(3))
    images = torch.randn(3, 2, 24, 24)
    content = adaste.pack(binarized(model, scale="channel"), images)
    assert_same(logits_of(PackedNetwork(from_bytes(content)), images), logits_of(model, images))


def test_weights_that_a_layer_rounds_by_itself_are_binary() -> None:
    class Rounding(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, torch.where(self.weight < 0, -0.5, 0.5), self.bias)

    model = nn.Sequential(nn.Flatten(), Rounding(12, 4))
    images = torch.randn(2, 3, 2, 2)
    graph = from_bytes(adaste.pack(model, images))
    assert [node.op for node in graph.nodes] == ["flatten", "linear"]
    assert_same(logits_of(PackedNetwork(graph), images), logits_of(model, images))


def test_packing_inside_binarized_gives_the_weights_of_the_optimizer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = MLP(widths=(16,)).build(ImageShape(1, 4, 4), 3)
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model), base=partial(torch.optim.SGD, lr=0.1), estimator=adaste.ProxQuant()
    )
    images = torch.randn(8, 1, 4, 4)
    model(images).square().mean().backward()
    optimizer.step()
    with pytest.raises(ValueError, match=r"(?s)1\.weight is not binary: .*with optimizer\.binarized\(model\)"):
        adaste.pack(model, images)
    with optimizer.binarized(model):
        assert_packed(model, images, tmp_path)
    assert model.training


class Transposed(nn.Module):
    """A linear layer whose weight is (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


def test_layers_whose_weight_is_inputs_by_outputs_are_packed_with_one_scale_per_output(tmp_path: Path) -> None:
    conv1d = pytest.importorskip("transformers").pytorch_utils.Conv1D
    runtime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), conv1d(9, 12), nn.BatchNorm1d(9), nn.ReLU(), Transposed(9, 7), conv1d(5, 7))
    nn.init.normal_(model[1].bias)
    for layer in (model[1], model[5]):
        nn.init.normal_(layer.weight)
    partition = adaste.binary_weights(model, exclude="4")
    estimator = adaste.Scaled(adaste.BinaryConnect(), adaste.ChannelMean())
    optimizer = adaste.LatentOptimizer(partition, base=torch.optim.SGD, estimator=estimator)
    images = torch.randn(6, 3, 2, 2)
    model.eval()
    with optimizer.binarized():
        loaded = assert_packed(model, images, tmp_path, float_layers="4")
        wanted = logits_of(model, images)
    first, _, last = (node for node in loaded.graph.nodes if isinstance(node, Weighted))
    assert (first.kind, first.weight.shape, last.kind, last.weight.shape) == ("binary", (9, 2), "binary", (5, 1))
    assert len(np.unique(last.scale)) == 5
    session = runtime.InferenceSession(to_onnx(loaded.graph), providers=["CPUExecutionProvider"])
    assert_same(session.run(None, {"input": images.numpy()})[0], wanted)


def test_weights_with_a_scale_per_group_of_inputs_are_refused_with_the_scales_that_can_be_packed() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    estimator = adaste.Scaled(adaste.BinaryConnect(), adaste.GroupMean(4))
    optimizer = adaste.LatentOptimizer(adaste.binary_weights(model), base=torch.optim.SGD, estimator=estimator)
    with optimizer.binarized(), pytest.raises(ValueError, match=r"1\.weight .* FanIn and ChannelMean .*GroupMean"):
        adaste.pack(model, torch.randn(2, 3, 2, 2))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: torch.addmm(torch.ones(3), x.flatten(1), torch.ones(12, 3), alpha=2), "alpha and beta"),
        (lambda x: torch.addmm(torch.ones(1), x.flatten(1), torch.ones(12, 3)), r"the bias must be \(3,\)"),
        (lambda x: x.flatten(1) @ torch.ones(12), "must be a matrix"),
        (lambda x: torch.ones(3, 2) @ x.flatten(1), "must be matrices for each input"),
    ],
)
def test_products_that_are_no_linear_layers_are_refused(function, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adaste.pack(nn.Sequential(Function(function)), torch.randn(2, 3, 2, 2))


def test_facts_go_into_the_file(tmp_path: Path) -> None:
    model = binarized(MLP(widths=()).build(ImageShape(3, 2, 2), 2))
    facts = {"classes": ["cat", "Hündin"], "mean": [0.1, 0.2, 0.3], "std": (1, 2, 3), "recipe": "abc"}
    adaste.pack(model, torch.randn(1, 3, 2, 2), path=tmp_path / "m.safetensors", **facts)
    graph = adaste.load_packed(tmp_path / "m.safetensors").graph
    assert (graph.classes, graph.mean, graph.std, graph.recipe) == (
        ("cat", "Hündin"), (0.1, 0.2, 0.3), (1.0, 2.0, 3.0), "abc",
    )  # fmt: skip
    assert graph.producer == f"adaste {adaste.__version__}"


def test_a_loaded_network_refuses_images_of_another_size(tmp_path: Path) -> None:
    adaste.pack(
        nn.Sequential(nn.Flatten(), binarized(nn.Linear(4, 2))), torch.ones(1, 1, 2, 2), path=tmp_path / "m.safetensors"
    )
    with pytest.raises(ValueError, match=r"images must be \(n, 1, 2, 2\), got \(1, 1, 2, 3\)"):
        adaste.load_packed(tmp_path / "m.safetensors")(torch.ones(1, 1, 2, 3))


@pytest.mark.parametrize("given", [[[1.0]], None, np.ones((1, 4), np.float32)], ids=lambda given: type(given).__name__)
def test_a_loaded_network_refuses_what_is_no_tensor(given, tmp_path: Path) -> None:
    adaste.pack(binarized(nn.Linear(4, 2)), torch.ones(1, 4), path=tmp_path / "m.safetensors")
    loaded = adaste.load_packed(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=f"input must be a tensor, got {type(given).__name__}"):
        loaded(given)
    with pytest.raises(ValueError, match=r"input must be floating-point numbers, got torch\.int64"):
        loaded(torch.ones(1, 4, dtype=torch.int64))


def test_a_loaded_network_refuses_bytes(tmp_path: Path) -> None:
    adaste.pack(
        nn.Sequential(nn.Flatten(), binarized(nn.Linear(4, 2))), torch.ones(1, 1, 2, 2), path=tmp_path / "m.safetensors"
    )
    with pytest.raises(ValueError, match=r"normalised with mean and std, got torch\.uint8"):
        adaste.load_packed(tmp_path / "m.safetensors")(torch.ones(1, 1, 2, 2, dtype=torch.uint8))


def after(*layers: nn.Module, channels: int = 4) -> nn.Module:
    """A binary convolution and then some layers."""
    return binarized(nn.Sequential(nn.Conv2d(3, channels, 3), *layers))


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) if x.sum() > 0 else -x.flatten(1)


class Sorted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sort(x.flatten(1))[0]


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x + torch.randn(4, 1, 1)).flatten(1)


class Mixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu"):
            return (2 * x).flatten(1)


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin()


class Angle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.atan()


class Inside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MaxPool3d(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).flatten(1)


class Places(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.max(3)[1].flatten(1)


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ones(len(x), 3)


class Words(nn.Module):
    def forward(self, x: Tensor) -> str:
        return "cat"


def line_of(model: type[nn.Module]) -> str:
    """Where the first statement of its `forward` is, as messages say it, as a pattern."""
    return rf"\({Path(__file__).name}, line {model.forward.__code__.co_firstlineno + 1}\)"


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            [nn.Sequential(nn.Identity(), nn.MaxPool3d(1))],
            "the MaxPool3d at '1.1' computes aten.max_pool3d.default.* may have",
        ),
        ([nn.MaxPool2d(3, dilation=2)], "the MaxPool2d at '1': dilation"),
        ([nn.BatchNorm2d(4, track_running_stats=False)], "the BatchNorm2d at '1': a BatchNorm without running"),
        ([Sorted()], rf"the Sorted at '1' {line_of(Sorted)} computes aten.sort"),
        ([Mixed()], "the Mixed at '1' computes wrap_with_autocast, which has no place"),
        ([Inside()], rf"the MaxPool3d at '1.layer' {line_of(Inside)} computes aten.max_pool3d"),
        ([Places()], rf"the Places at '1' {line_of(Places)} uses result 1 of max"),
        (
            [nn.MaxPool3d(1)],
            r"the MaxPool3d at '1' computes aten\.max_pool3d.* Instead of three-dimensional convolutions.* use two-dim",
        ),
        ([nn.ReLU(inplace=True), nn.MaxPool3d(1)], "use two-dimensional ones, `nearest` or `bilinear`$"),
        ([Function(lambda x: x.flatten(1).sin())], "use `log`, `exp`, sums, maxima and products of tensors$"),
        ([Branching()], rf"torch.export could not follow the model {line_of(Branching)}: .*, use `torch\.where`$"),
        ([Words()], "must give a tensor"),
        ([Noise()], r"would not compute what the model does: .* is allowed\. Models that were not trained"),
        ([Nothing()], "does not depend on the image"),
        ([Function(lambda x: x.transpose(0, 1))], "must have the batch first and alone"),
    ],
)
def test_what_has_no_place_in_the_file_is_refused_by_name(layers: list[nn.Module], words: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=words):
        adaste.pack(after(*layers), torch.randn(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classes": ["a"]}, "a name for each of 2 classes, got 1"),
        ({"classes": [0, 1]}, "classes 0 must be a text, got 0"),
        ({"classes": ["a", "\ud800"]}, "classes 1 has no form in UTF-8"),
        ({"recipe": 7}, "recipe must be a text, got 7"),
        ({"mean": [0.5]}, "mean and std must both be given"),
        ({"float_layers": "head.*"}, "the float_layers pattern 'head\\.\\*' matches no"),
    ],
)
def test_wrong_options_are_refused(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adaste.pack(nn.Sequential(nn.Flatten(), binarized(nn.Linear(4, 2))), torch.ones(1, 1, 2, 2), **options)


@pytest.mark.parametrize(
    ("example", "found"),
    [
        (torch.ones(0, 1, 2, 2), r"\(0, 1, 2, 2\)"),
        ([1.0], "float"),
        ("images", "str"),
        (torch.ones(2, 1, 2, 2).numpy(), "ndarray"),
    ],
)
def test_an_example_that_is_no_batch_of_images_is_refused(example, found: str) -> None:
    with pytest.raises(ValueError, match=rf"example must be a tensor of images .*, got {found}$"):
        adaste.pack(nn.Flatten(), example)


@pytest.mark.parametrize("example", [torch.zeros(16), (torch.zeros(16),), {"x": torch.zeros(16)}])
def test_a_single_input_without_a_batch_is_refused_before_anything_is_computed(example) -> None:
    words = r"a dimension for the batch, the first one, got \(16,\) for (input|x): .* give example\.unsqueeze\(0\)"
    with pytest.raises(ValueError, match=words):
        adaste.pack(binarized(nn.Linear(16, 4)), example)


@pytest.mark.parametrize("model", ["a model", nn.Linear, F.relu], ids=["text", "a class", "a function"])
def test_what_is_no_module_is_refused(model) -> None:
    with pytest.raises(ValueError, match=f"model must be a torch.nn.Module, got {type(model).__name__}"):
        adaste.pack(model, torch.ones(1, 4))


def test_truth_that_a_model_gives_is_packed_as_0_and_1(tmp_path: Path) -> None:
    model, images = after(Function(lambda x: x.mean((2, 3)) > 0)), torch.randn(5, 3, 6, 6)
    adaste.pack(model, images, path=tmp_path / "m.safetensors")
    assert torch.equal(adaste.load_packed(tmp_path / "m.safetensors")(images), model(images).float())


def test_a_number_for_each_input_beside_a_map_is_a_batch() -> None:
    class Timed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = binarized(nn.Linear(16, 4))

        def forward(self, x: Tensor, time: Tensor) -> Tensor:
            return self.layer(x) * time[:, None]

    assert adaste.pack(Timed(), (torch.ones(2, 16), torch.ones(2)))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_example_that_is_not_finite_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="example must hold finite numbers"):
        adaste.pack(nn.Flatten(), torch.full((1, 1, 2, 2), number))


def test_a_model_whose_own_outputs_are_not_finite_is_told_so_and_where_it_begins() -> None:
    images = torch.ones(2, 1, 2, 2)
    model = nn.Sequential(nn.Flatten(), binarized(nn.Linear(4, 3)), nn.BatchNorm1d(3), binarized(nn.Linear(3, 2)))
    with torch.no_grad():
        model[2].running_var[1] = float("nan")
    with pytest.raises(ValueError, match=r"own outputs are not finite: 4 of 4 .* numbers are in 2\.running_var$"):
        adaste.pack(model, images)
    large = nn.Sequential(nn.Flatten(), Function(lambda x: (x * 1e30) * 1e30))
    with pytest.raises(
        ValueError, match=r"own outputs are not finite: 8 of 8 .* its parameters and buffers are finite"
    ):
        adaste.pack(large, images)


def test_all_layers_that_cannot_be_packed_are_listed_at_once() -> None:
    layers = (
        Sine(),
        nn.MaxPool2d(2, stride=1, dilation=2),
        Sine(),
        Angle(),
        nn.MaxPool2d(2, dilation=2),
        nn.Flatten(),
        nn.Linear(4 * 2 * 2, 3),
    )
    with pytest.raises(ValueError) as caught:
        adaste.pack(after(*layers), torch.randn(1, 3, 9, 9))
    head, *lines, advice = str(caught.value).splitlines()
    sine, angle = (line_of(model).replace("\\", "") for model in (Sine, Angle))
    assert head == "the model cannot be packed:"
    assert [line.strip() for line in lines] == [
        f"the Sine at '1' {sine}, the Sine at '3' {sine} compute aten.sin.default, which has no place in the file",
        "the MaxPool2d at '2', the MaxPool2d at '5': dilation must be 1, got [2, 2]",
        f"the Angle at '4' {angle} computes aten.atan.default, which has no place in the file",
    ]
    assert advice.startswith("A packed network may have convolutions")
    assert advice.index("Instead of trigonometric functions") < advice.index("dilated max pools")


def test_what_only_follows_from_a_layer_that_cannot_be_packed_is_not_listed() -> None:
    class Crossed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.cumprod(1)

    layers = (Crossed(), nn.Linear(3, 4), Function(lambda x: x.mean(1)), nn.Flatten(), nn.Linear(12, 3))
    with pytest.raises(ValueError, match=r"^the Crossed at '1' .*computes aten\.cumprod\.default.* may have[^\n]*$"):
        adaste.pack(after(*layers), torch.randn(1, 3, 5, 5))


def test_results_that_are_several_do_not_keep_others_from_being_listed() -> None:
    layers = (Function(lambda x: torch.sort(x, 1)[0]), Sine(), nn.Sequential(Places(), nn.Flatten()))
    with pytest.raises(ValueError) as caught:
        adaste.pack(after(*layers), torch.randn(1, 3, 5, 5))
    assert all(words in str(caught.value) for words in ("aten.sort", "uses result 1 of max", "the Sine at '2'"))


def test_all_layers_that_are_not_binary_are_listed_at_once() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), binarized(nn.Linear(3, 3)), nn.Linear(3, 2))
    with pytest.raises(
        ValueError, match=r"(?s)^2 weights .*\n  1\.weight is .*\n  3\.weight is .* in float_layers"
    ) as told:
        adaste.pack(model, torch.ones(1, 1, 2, 2))
    assert str(told.value).count("which the scales") == 1  # what all have in common is said once
    with pytest.raises(ValueError, match=r"^3\.weight is not binary"):
        adaste.pack(model, torch.ones(1, 1, 2, 2), float_layers="1")


class DenseLayer(nn.Module):
    """Of a DenseNet: it sees all that came before, the first of a block only the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 8, 1, bias=False),
            nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, before: list[Tensor]) -> Tensor:
        return self.layers(torch.cat(before, 1))


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.block = nn.ModuleList(DenseLayer(6 + 4 * place) for place in range(3))
        self.end = nn.Sequential(nn.BatchNorm2d(18), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(18, 5))

    def forward(self, x: Tensor) -> Tensor:
        maps = [self.stem(x)]
        for layer in self.block:
            maps.append(layer(maps))
        return self.end(torch.cat(maps, 1))


def test_a_densenet_has_the_same_logits(tmp_path: Path) -> None:
    torch.manual_seed(0)
    loaded = assert_packed(binarized(DenseNet(), scale="channel"), torch.randn(2, 3, 9, 9), tmp_path)
    assert [len(node.inputs) for node in loaded.graph.nodes if node.op == "concatenate"] == [2, 3, 4]


def test_a_name_that_ends_in_onnx_makes_a_file_of_onnx(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = binarized(VGG(stages=((8,),), hidden_widths=()).build(ImageShape(3, 8, 8), 10), scale="channel")
    images = torch.randn(2, 3, 8, 8)
    path = tmp_path / "model.onnx"
    assert adaste.pack(model, images, path=path, classes=list("0123456789")) == path.read_bytes()
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"input": images.numpy()})
    assert_same(logits, logits_of(model, images))
    with pytest.raises(ValueError, match=r"model\.onnx: not a safetensors file \(it begins like ONNX\)"):
        adaste.load_packed(path)


@pytest.mark.parametrize("name", ["model", "model.pt", "model.ONNX", "model.tflite", "model.safetensors.gz"])
def test_names_that_promise_another_form_are_refused_before_anything_is_computed(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.safetensors .* or \.onnx"):
        adaste.pack(Branching(), torch.ones(1, 1, 2, 2), path=tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_real_and_ternary_weights_are_refused_unless_allowed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    images = torch.randn(2, 1, 2, 2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), binarized(nn.Linear(3, 2)))
    with pytest.raises(ValueError, match=r"1\.weight is not binary"):
        adaste.pack(model, images)
    assert_packed(model, images, tmp_path, allow_float=True)
    with torch.no_grad():
        model[1].weight.sign_()[0, 0] = 0
    with pytest.raises(ValueError, match=r"output 0 have sizes from 0 to 1"):
        adaste.pack(model, images)
    with torch.no_grad():
        model[1].weight[0, 0] = float("nan")
    with pytest.raises(
        ValueError, match=r"the model's own outputs are not finite: .* infinite numbers are in 1\.weight$"
    ):
        adaste.pack(model, images, allow_float=True)


def test_bounds_are_compared_where_sums_would_round_the_numbers_of_a_network_away() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6(), nn.Flatten(), nn.Linear(36, 2, bias=False)).eval()
    images = torch.rand(2, 3, 5, 5)
    assert from_bytes(adaste.pack(model, images, allow_float=True)).version == 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e-6)
        graph = from_bytes(adaste.pack(model, images, allow_float=True))
        wanted = model(images)
        assert graph.version == 2
        assert (PackedNetwork(graph)(images) - wanted).abs().max() <= 1e-5 * wanted.abs().max()
