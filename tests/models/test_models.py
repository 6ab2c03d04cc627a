import pytest
import torch
from torch import nn

import adaste
from adaste.models import MLP, VGG, ImageShape, Network, ResNet

CIFAR = ImageShape(3, 32, 32)
BINARY_CONNECT = VGG(stages=((128, 128), (256, 256), (512, 512)), hidden_widths=(1024, 1024))
MD_BNN = VGG(pool_last=True, bias=True, logits_norm=False)

COUNTS = [
    (ResNet(), CIFAR, 10, 11_164_362),
    (ResNet(), CIFAR, 100, 11_210_532),
    (ResNet(stem="strided"), ImageShape(3, 64, 64), 200, 11_261_832),
    (ResNet(), ImageShape(3, 224, 224), 10, 11_410_122),
    (VGG(), CIFAR, 10, 15_239_872),
    (VGG(), CIFAR, 100, 15_285_952),
    (MD_BNN, CIFAR, 10, 15_245_130),
    (MD_BNN, CIFAR, 100, 15_291_300),
]


@pytest.mark.parametrize(("network", "image", "classes", "count"), COUNTS)
def test_networks_have_exactly_the_published_number_of_parameters(
    network: Network, image: ImageShape, classes: int, count: int
) -> None:
    with torch.device("meta"):
        model = network.build(image, classes)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_resnet18_has_twenty_convolutions_of_which_three_are_shortcuts() -> None:
    convolutions = [module for module in ResNet().build(CIFAR, 10).modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == 20
    assert sum(module.kernel_size == (1, 1) for module in convolutions) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        *(ResNet(), ResNet(depth=34), ResNet(depth=50), ResNet(affine=True, logits_norm=False)),
        *(VGG(), MD_BNN, BINARY_CONNECT, MLP(), MLP(norm_hidden=False)),
    ],
    ids=str,
)
def test_every_network_gives_one_logit_per_class_and_a_gradient_for_every_parameter(network: Network) -> None:
    model = network.build(CIFAR, 7)
    logits = model(torch.randn(2, *CIFAR))
    assert logits.shape == (2, 7)
    (logits * torch.randn(7)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(("stem", "size"), [("small", 32), ("strided", 64), ("large", 224), ("large", 128)])
def test_every_stem_fits_its_images(stem: str, size: int) -> None:
    model = ResNet(stem=stem).build(ImageShape(3, size, size), 5)
    assert model(torch.randn(2, 3, size, size)).shape == (2, 5)


def test_affine_networks_have_scales_and_shifts_and_others_have_none() -> None:
    def norms(network: Network) -> int:
        norms = [module for module in network.build(CIFAR, 10).modules() if isinstance(module, nn.BatchNorm2d)]
        return sum(module.affine for module in norms)

    assert norms(ResNet()) == 0
    assert norms(ResNet(affine=True)) == 20


@pytest.mark.slow
@pytest.mark.parametrize(("two_levels", "outputs", "variance"), [(False, 256, 1 / 3), (True, 512, 1 / 6)])
def test_weights_start_uniform_or_as_the_difference_of_two_levels(
    two_levels: bool, outputs: int, variance: float
) -> None:
    """U(-a, a) has a variance of a^2 / 3, half the difference of two such numbers half of it."""
    torch.manual_seed(0)
    model = VGG(stages=((64, 256),), two_levels=two_levels, bias=True).build(CIFAR, 10)
    weight = next(module for module in model.modules() if isinstance(module, nn.Conv2d) and module.in_channels == 64)
    bound = (6 / (9 * 64 + 9 * outputs)) ** 0.5
    scaled = weight.weight.detach() / bound
    assert 0.98 < scaled.abs().max() <= 1
    assert scaled.var().item() == pytest.approx(variance, rel=0.02)
    assert scaled.mean().abs() < 0.01
    within = 0.5 if not two_levels else 0.75  # the share up to half the bound
    assert (scaled.abs() < 0.5).float().mean().item() == pytest.approx(within, abs=0.01)
    assert all(not module.bias.any() for module in model.modules() if isinstance(module, nn.Conv2d))


def test_the_logits_norm_is_the_last_layer_or_absent() -> None:
    assert isinstance(list(ResNet().build(CIFAR, 10).modules())[-1], nn.BatchNorm1d)
    assert isinstance(list(ResNet(logits_norm=False).build(CIFAR, 10).modules())[-1], nn.Linear)


def test_pooled_layers_pool_before_or_after_the_norm() -> None:
    def kinds(network: VGG) -> list[str]:
        return [type(layer).__name__ for layer in network.build(CIFAR, 10)][2:5]

    assert kinds(VGG()) == ["Convolution", "MaxPool2d", "Norm"]
    assert kinds(VGG(pool_last=True)) == ["Convolution", "Norm", "MaxPool2d"]


def test_the_same_seed_gives_the_same_weights() -> None:
    def weights() -> torch.Tensor:
        torch.manual_seed(3)
        return torch.cat(
            [parameter.flatten() for parameter in MLP(widths=(8,)).build(ImageShape(1, 4, 4), 3).parameters()]
        )

    assert torch.equal(weights(), weights())


def test_channels_last_gives_the_same_logits() -> None:
    model = ResNet().build(CIFAR, 10).eval()
    images = torch.randn(2, *CIFAR)
    logits = model(images)
    last = model.to(memory_format=torch.channels_last)(images.to(memory_format=torch.channels_last))
    torch.testing.assert_close(last, logits, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ResNet(depth=20), "depth must be one of"),
        (lambda: ResNet(stem="wide"), "stem must be one of small, strided, large"),
        (lambda: ResNet(norm_momentum=0.0), "norm_momentum must be above 0"),
        (lambda: ResNet().build(ImageShape(3, 24, 24), 10), "at least 25 pixels a side, got 24x24"),
        (lambda: VGG().build(ImageShape(3, 16, 16), 10), "at least 32 pixels a side, got 16x16"),
        (lambda: VGG(stages=((64,), ())), "stages must hold at least one width"),
        (lambda: MLP(widths=(0,)), "every width must be a whole number of at least 1"),
        (lambda: MLP().build(CIFAR, 1), "classes must be a whole number of at least 2"),
    ],
)
def test_what_cannot_be_built_is_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_all_weights_of_the_papers_networks_are_binary() -> None:
    with torch.device("meta"):
        weights = adaste.binary_weights(VGG().build(CIFAR, 10))
    assert not weights.rest
    assert sum(weight.numel() for weight in weights.binary.values()) == 15_239_872


def test_a_network_loads_tensors_alone_with_and_without_counts_of_batches() -> None:
    network = VGG(stages=((4,),), hidden_widths=(6,))
    one, other = (network.build(ImageShape(1, 8, 8), 3) for _ in range(2))
    plain = dict(one.state_dict())
    assert not any("num_batches_tracked" in name for name in plain)
    other.load_state_dict(plain)
    assert all(torch.equal(value, plain[name]) for name, value in other.state_dict().items())
    other.load_state_dict({**plain, "1.num_batches_tracked": torch.tensor(3)})
    with pytest.raises(RuntimeError, match="Missing"):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected"):
        other.load_state_dict({**plain, "surplus": torch.zeros(1)})
