"""Networks, as frozen descriptions that build ordinary torch modules; they know nothing of binary training."""

from adaste.models.base import ImageShape, Network
from adaste.models.networks import MLP, VGG, ResNet

__all__ = ["MLP", "VGG", "ImageShape", "Network", "ResNet"]
