"""A network: a description that builds a torch module for the images of a data set."""

from dataclasses import dataclass

from torch import nn

from adaste.models import ImageShape, Network


@dataclass(frozen=True, kw_only=True)
class TinyConv(Network):
    """One convolution, BatchNorm and ReLU, the mean over all pixels, and a linear layer.

    Args:
        width: the channels of the convolution.
    """

    width: int = 16

    def layers(self, image: ImageShape, classes: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(image.channels, self.width, 3, padding=1, bias=False),
            nn.BatchNorm2d(self.width, momentum=self.norm_momentum, affine=self.affine),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(self.width, classes, bias=False),
        )
