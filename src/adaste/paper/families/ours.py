"""The family `ours`: one modern recipe for all methods, the fairest comparison here.

The same network (affine-free BatchNorm, one on the logits), all training images, crop and flip, a learning rate that
falls to zero along a cosine (but for ProxQuant, whose pull would overtake it), BatchNorm re-estimated for rounded
weights before a test where training has soft ones. A method includes the base optimizer and its rates.

The named recipes (`adaste train cifar10-resnet18-adaste`) train alike, but re-estimate BatchNorm before every test.
"""

import dataclasses
from types import MappingProxyType

from adaste.data.augment import Mixup
from adaste.paper.families.family import Family, Make
from adaste.paper.setups import Place
from adaste.recipes.methods import METHODS, NamedMethod
from adaste.recipes.presets import Preset
from adaste.recipes.recipe import Recipe


def under_common_recipe(method: NamedMethod) -> Make:
    """The recipes of a method that differ from those of all others in nothing but the method."""

    def make(place: Place, epochs: int) -> Recipe:
        preset = Preset(place.name, method.title, place.setting, place.network, method, norm_always=False)
        return preset.make(epochs)

    return make


def with_mixup(make: Make) -> Make:
    """The same with mixup as in He et al. 2019: a share per batch from Beta(0.2, 0.2). The paper names none."""

    def mixed(place: Place, epochs: int) -> Recipe | None:
        made = make(place, epochs)
        return dataclasses.replace(made, augmentation=(*made.augmentation, Mixup(0.2))) if made else None

    return mixed


_MAKERS = {name: under_common_recipe(method) for name, method in METHODS.items()}

_WITH_MIXUP = ("bayesbinn", "adaste", "adaste-annealed")

OURS = Family(
    name="ours",
    about="One common recipe for all methods: same network, 50,000 images, cosine.",
    epochs=160,
    makers=MappingProxyType({**_MAKERS, **{f"{name}-mixup": with_mixup(_MAKERS[name]) for name in _WITH_MIXUP}}),
)
