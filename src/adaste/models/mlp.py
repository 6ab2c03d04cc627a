"""A multi-layer perceptron."""

from dataclasses import dataclass

from torch import nn

from adaste._util.checks import require_count
from adaste.models.base import ImageShape, Network


@dataclass(frozen=True, kw_only=True)
class MLP(Network):
    """Hidden linear layers with BatchNorm and ReLU, without biases, over all pixels.

    widths  of the hidden layers.
    norm_hidden  False leaves out the BatchNorms of the hidden layers and gives them biases instead.
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
