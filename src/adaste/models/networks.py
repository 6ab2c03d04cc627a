"""Networks as frozen descriptions that build ordinary torch modules: what all share, those of the paper, an MLP."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adaste._util.checks import require, require_count

WIDTHS = (64, 128, 256, 512)

Shared = Tensor | tuple[Tensor, Tensor]
"""A tensor that two layers use, or one tensor for each, so that no separate kernel adds their gradients."""


class Convolution(nn.Conv2d):
    """A convolution. `faster`, if set, is called in training instead: (x, weight, stride, padding)."""

    faster: Callable[..., Tensor] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if self.faster is None or not torch.is_grad_enabled():
            return super().forward(input)
        return self.faster(input, self.weight, self.stride, self.padding)


class Norm(nn.Module):
    """The layer relu(BatchNorm(x) + residual); the residual may be missing, and so may the ReLU.

    If `faster` is set and takes the input, it is called instead: (norm, x, residual).

    Args:
        batch_norm: The BatchNorm.
        relu: Whether a ReLU follows.
        users: How many layers use the result; for two it may be a pair.
    """

    def __init__(self, batch_norm: nn.BatchNorm2d, *, relu: bool = True, users: int = 1) -> None:
        super().__init__()
        self.batch_norm, self.relu, self.users = batch_norm, relu, users
        self.faster: Any = None

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Shared:
        if self.faster is not None and self.faster.takes(x):
            result: Shared = self.faster(self, x, residual)
            return result
        y = self.batch_norm(x)
        if residual is not None:
            y = y + residual
        return F.relu(y) if self.relu else y


def for_two(x: Shared) -> tuple[Tensor, Tensor]:
    """Return `x` for each of its two users."""
    return x if isinstance(x, tuple) else (x, x)


class ImageShape(NamedTuple):
    """The shape of the images that a network gets."""

    channels: int
    height: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Network(ABC):
    """The description of a network; its fields are its configuration.

    Args:
        affine: Whether BatchNorm has trainable scales and shifts. The paper's networks have none: every trainable
            parameter is a weight.
        logits_norm: Whether a BatchNorm (never affine) is on the logits, as in the AdaSTE and BayesBiNN networks. It
            floors the cross-entropy: at 0.278 for 10 classes.
        norm_momentum: That of the BatchNorms behind convolutions; those behind linear layers have torch's 0.1.
        two_levels: Whether weights start at half the difference of two, one for -1 and one for +1, each drawn for a
            layer of twice the outputs, as latents of two levels do in the code of md-bnn and pmf.

    Raises:
        ValueError: If a field is out of range.
    """

    affine: bool = False
    logits_norm: bool = True
    norm_momentum: float = 0.2
    two_levels: bool = False

    def __post_init__(self) -> None:
        require("norm_momentum", self.norm_momentum, above=0, most=1)

    def build(self, image: ImageShape, classes: int) -> nn.Module:
        """Return the network for these images; weights are Xavier-uniform or the difference of two such, biases 0.

        Args:
            image: The shape of the images.
            classes: The number of logits.

        Returns:
            A module of torch.

        Raises:
            ValueError: If the images are too small for it, or a number is no positive whole number.
        """
        for name, value in image._asdict().items():
            require_count(name, value, least=1)
        require_count("classes", classes, least=2)
        model = self.layers(image, classes)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                (_difference_of_two_levels_ if self.two_levels else nn.init.xavier_uniform_)(parameter)
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.num_batches_tracked = None  # unused, and it costs a kernel per layer and step
        model.register_load_state_dict_post_hook(_without_counts)  # type: ignore[no-untyped-call]
        return model

    @abstractmethod
    def layers(self, image: ImageShape, classes: int) -> nn.Module:
        """Return the layers, with torch's initial weights.

        Args:
            image: The shape of the images.
            classes: The number of logits.

        Returns:
            A module of torch.
        """

    def norm(self, channels: int, *, relu: bool = True, users: int = 1) -> Norm:
        """Return the BatchNorm behind a convolution, with its ReLU."""
        batch_norm = nn.BatchNorm2d(channels, momentum=self.norm_momentum, affine=self.affine)
        return Norm(batch_norm, relu=relu, users=users)

    def head(self, features: int, classes: int, *, bias: bool) -> nn.Sequential:
        """Return the last linear layer and, with `logits_norm`, the BatchNorm on its logits."""
        linear = nn.Linear(features, classes, bias=bias)
        return (
            nn.Sequential(linear, nn.BatchNorm1d(classes, affine=False)) if self.logits_norm else nn.Sequential(linear)
        )

    def hidden(self, features: int, width: int, *, bias: bool) -> list[nn.Module]:
        """Return a hidden linear layer with BatchNorm and ReLU."""
        return [nn.Linear(features, width, bias=bias), nn.BatchNorm1d(width, affine=self.affine), nn.ReLU()]


def _difference_of_two_levels_(parameter: Tensor) -> None:
    """Fill a weight with (u_plus - u_minus) / 2, both uniform up to sqrt(6 / (inputs + 2 outputs)): triangular."""
    levels = torch.cat((parameter, parameter)).detach()
    minus, plus = nn.init.xavier_uniform_(levels).chunk(2)
    with torch.no_grad():
        parameter.copy_((plus - minus) / 2)


def _without_counts(model: nn.Module, keys: Any) -> None:
    """Ignore the counts of batches that torch adds to a state dict loaded from plain tensors."""
    keys.unexpected_keys[:] = [name for name in keys.unexpected_keys if not name.endswith("num_batches_tracked")]


@dataclass(frozen=True, kw_only=True)
class ResNet(Network):
    """A residual network.

    It is conv3x3 - BN - ReLU, four stages of residual blocks of widths 64, 128, 256, 512, average pool 4, linear.

    Args:
        depth: 18 or 34 (basic blocks), 50 (bottlenecks).
        stem: "small": 3x3, stride 1 (CIFAR; also the paper's Imagenette network, whose last maps are 7x7 after the
            pool); "strided": 3x3, stride 2 (the paper's Tiny ImageNet network); "large": 7x7, stride 2 and a max pool
            (ImageNet).

    `Network` describes the other fields.
    """

    depth: int = 18
    stem: str = "small"

    BLOCKS: ClassVar = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
    SHRINKS: ClassVar = {"small": 1, "strided": 2, "large": 4}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth not in self.BLOCKS:
            raise ValueError(f"depth must be one of {sorted(self.BLOCKS)}, got {self.depth!r}")
        if self.stem not in self.SHRINKS:
            raise ValueError(f"stem must be one of {', '.join(self.SHRINKS)}, got {self.stem!r}")

    def layers(self, image: ImageShape, classes: int) -> nn.Module:
        block = Bottleneck if self.depth >= 50 else BasicBlock
        layers = self._stem(image.channels)
        plan = [
            (width, 2 if stage and not index else 1)
            for stage, (width, count) in enumerate(zip(WIDTHS, self.BLOCKS[self.depth], strict=True))
            for index in range(count)
        ]
        channels = WIDTHS[0]
        for place, (width, stride) in enumerate(plan):
            users = 1 if place == len(plan) - 1 else 2
            layers.append(block(self, channels, width, stride=stride, users=users))
            channels = width * block.expansion
        rows, columns = (self._last(size, image) // 4 for size in (image.height, image.width))
        pool = nn.AdaptiveAvgPool2d((rows, columns))
        return nn.Sequential(*layers, pool, nn.Flatten(), self.head(channels * rows * columns, classes, bias=True))

    def _stem(self, channels: int) -> list[nn.Module]:
        width = WIDTHS[0]
        if self.stem == "large":
            convolution = Convolution(channels, width, 7, stride=2, padding=3, bias=False)
            return [convolution, self.norm(width), nn.MaxPool2d(3, stride=2, padding=1)]
        convolution = Convolution(channels, width, 3, stride=self.SHRINKS[self.stem], padding=1, bias=False)
        return [convolution, self.norm(width, users=2)]

    def _last(self, size: int, image: ImageShape) -> int:
        """Return the side of the last maps; every halving rounds up, and the average pool needs four pixels."""
        shrink = 8 * self.SHRINKS[self.stem]
        last = -(-size // shrink)
        if last < 4:
            raise ValueError(
                f"this ResNet shrinks images by {shrink} and then averages 4x4: it needs at least {3 * shrink + 1} "
                f"pixels a side, got {image.height}x{image.width}"
            )
        return last


class BasicBlock(nn.Module):
    """The block relu(BN(conv(relu(BN(conv(x))))) + shortcut(x))."""

    expansion: ClassVar = 1

    def __init__(self, network: Network, channels: int, width: int, *, stride: int, users: int) -> None:
        super().__init__()
        self.conv1 = Convolution(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = network.norm(width)
        self.conv2 = Convolution(width, width, 3, padding=1, bias=False)
        self.norm2 = network.norm(width, users=users)
        self.shortcut = _shortcut(network, channels, width, stride)

    def forward(self, x: Shared) -> Shared:
        main, side = for_two(x)
        y = self.norm1(self.conv1(main))
        return cast("Shared", self.norm2(self.conv2(y), self.shortcut(side)))


class Bottleneck(nn.Module):
    """A block of three convolutions: 1x1, 3x3 (which carries the stride), 1x1 to four times the width."""

    expansion: ClassVar = 4

    def __init__(self, network: Network, channels: int, width: int, *, stride: int, users: int) -> None:
        super().__init__()
        self.conv1 = Convolution(channels, width, 1, bias=False)
        self.norm1 = network.norm(width)
        self.conv2 = Convolution(width, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = network.norm(width)
        self.conv3 = Convolution(width, 4 * width, 1, bias=False)
        self.norm3 = network.norm(4 * width, users=users)
        self.shortcut = _shortcut(network, channels, 4 * width, stride)

    def forward(self, x: Shared) -> Shared:
        main, side = for_two(x)
        y = self.norm1(self.conv1(main))
        y = self.norm2(self.conv2(y))
        return cast("Shared", self.norm3(self.conv3(y), self.shortcut(side)))


def _shortcut(network: Network, channels: int, width: int, stride: int) -> nn.Module:
    if stride == 1 and channels == width:
        return nn.Identity()
    return nn.Sequential(Convolution(channels, width, 1, stride=stride, bias=False), network.norm(width, relu=False))


@dataclass(frozen=True, kw_only=True)
class VGG(Network):
    """Stages of 3x3 convolutions, each ending in a max pool of 2, then linear layers, all with BatchNorm and ReLU.

    Args:
        stages: The widths of the convolutions, stage by stage. The default is VGG-16.
        hidden_widths: Those of the hidden linear layers.
        pool_last: The max pool comes after BatchNorm and ReLU instead of before (md-bnn's order).
        bias: Convolutions and linear layers have biases (md-bnn's networks).

    `Network` describes the other fields.
    """

    stages: tuple[tuple[int, ...], ...] = ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3)
    hidden_widths: tuple[int, ...] = (512, 512)
    pool_last: bool = False
    bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.stages or not all(self.stages):
            raise ValueError(f"stages must hold at least one width each, got {self.stages}")
        for width in (*self.hidden_widths, *(width for stage in self.stages for width in stage)):
            require_count("every width", width, least=1)

    def layers(self, image: ImageShape, classes: int) -> nn.Module:
        layers: list[nn.Module] = []
        channels = image.channels
        for stage in self.stages:
            for place, width in enumerate(stage):
                layers.append(Convolution(channels, width, 3, padding=1, bias=self.bias))
                layers += self._after(width, pooled=place == len(stage) - 1)
                channels = width
        rows, columns = (self._last(size, image) for size in (image.height, image.width))
        features = channels * rows * columns
        layers.append(nn.Flatten())
        for width in self.hidden_widths:
            layers += self.hidden(features, width, bias=self.bias)
            features = width
        return nn.Sequential(*layers, self.head(features, classes, bias=self.bias))

    def _after(self, width: int, *, pooled: bool) -> list[nn.Module]:
        pool = [nn.MaxPool2d(2)] if pooled else []
        return [self.norm(width), *pool] if self.pool_last else [*pool, self.norm(width)]

    def _last(self, size: int, image: ImageShape) -> int:
        last = size >> len(self.stages)
        if last < 1:
            raise ValueError(
                f"this VGG halves images {len(self.stages)} times: it needs at least {1 << len(self.stages)} pixels a "
                f"side, got {image.height}x{image.width}"
            )
        return last


@dataclass(frozen=True, kw_only=True)
class MLP(Network):
    """A multi-layer perceptron: hidden linear layers with BatchNorm and ReLU, without biases, over all pixels.

    Args:
        widths: Those of the hidden layers.
        norm_hidden: False leaves out the BatchNorms of the hidden layers and gives them biases instead.

    `Network` describes the other fields.
    """

    widths: tuple[int, ...] = (512, 512)
    norm_hidden: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for width in self.widths:
            require_count("every width", width, least=1)

    def layers(self, image: ImageShape, classes: int) -> nn.Module:
        features = image.channels * image.height * image.width
        layers: list[nn.Module] = [nn.Flatten()]
        for width in self.widths:
            plain = [nn.Linear(features, width), nn.ReLU()]
            layers += self.hidden(features, width, bias=False) if self.norm_hidden else plain
            features = width
        return nn.Sequential(*layers, self.head(features, classes, bias=not self.norm_hidden))
