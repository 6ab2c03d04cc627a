"""Networks, as frozen descriptions that build ordinary torch modules; they know nothing of binary training."""

from adaste.models.networks import MLP, VGG, ImageShape, Network, ResNet

__all__ = ["MLP", "VGG", "ImageShape", "Network", "ResNet"]
