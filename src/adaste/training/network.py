"""From a recipe's network to one on a device, in the precision and memory format it computes in."""

import torch
from torch import nn

from adaste.data import Dataset
from adaste.data.augment import Augmentation
from adaste.models import ImageShape
from adaste.recipes.recipe import Recipe


def build_network(recipe: Recipe, dataset: Dataset, device: torch.device) -> nn.Module:
    """The network of `recipe` for the images and classes of `dataset`, with the initial weights of its seed."""
    height, width, channels = dataset.train.images.shape[1:]
    height, width = Augmentation(recipe.augmentation, dataset.mean, dataset.std).output_size((height, width))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = recipe.network.build(ImageShape(channels, height, width), len(dataset.classes))
    return in_precision(model, dtype_of(recipe)).to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def dtype_of(recipe: Recipe) -> torch.dtype:
    """The type of the images and weights a network computes with."""
    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[recipe.precision]


def in_precision(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Weights and biases of layers in `dtype`; the statistics and scales of norms stay float32."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.to(dtype)
    return model
