"""Plain convolutional networks (Simonyan and Zisserman 2014) in the forms of the paper's experiments."""

from dataclasses import dataclass

from torch import nn

from adaste._util.checks import require_count
from adaste.models.base import Convolution, ImageShape, Network


@dataclass(frozen=True, kw_only=True)
class VGG(Network):
    """Stages of 3x3 convolutions, each ending in a max pool of 2, then linear layers, all with BatchNorm and ReLU.

    stages          the widths of the convolutions, stage by stage. The default is VGG-16.
    hidden_widths   those of the hidden linear layers.
    pool_last       the max pool comes after BatchNorm and ReLU instead of before (md-bnn's order).
    bias            convolutions and linear layers have biases (md-bnn's networks).
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
