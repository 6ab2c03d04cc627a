"""Networks, as frozen descriptions that build ordinary torch modules; they know nothing of binary training."""

from adaste.models.base import ImageShape, Network
from adaste.models.mlp import MLP
from adaste.models.resnet import ResNet
from adaste.models.vgg import VGG

__all__ = ["MLP", "VGG", "ImageShape", "Network", "ResNet"]
