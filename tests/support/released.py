"""Recipes of the family `released`, and short names of their setups."""

import pytest

from adaste.paper.families import SETUPS
from adaste.recipes.recipe import Recipe
from support.paper_runs import a_recipe

CIFAR_10_R, CIFAR_10_V = "cifar10-resnet18", "cifar10-vgg16"
CIFAR_100_R, CIFAR_100_V = "cifar100-resnet18", "cifar100-vgg16"
TINY, NETTE = "tiny-imagenet-resnet18", "imagenette-resnet18"
every_setup = pytest.mark.parametrize("where", SETUPS)


def released(method: str, where: str, epochs: int = 500) -> Recipe:
    return a_recipe("released", method, where, epochs=epochs)
