"""The named recipes: `<data>-<network>-<method>`, as in "cifar10-resnet18-adaste", composed from three tables.

Some combinations of data and network also have recipes that are more than a method: `best`, which learns from
`teacher`, and `fast`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from adaste._util.checks import suggest
from adaste.data.augment import Crop, CutMix, Cutout, Flip, RandomResizedCrop, Transform
from adaste.models import MLP, VGG, Network, ResNet
from adaste.recipes.distillation import Distillation
from adaste.recipes.methods import METHODS, NamedMethod, Plan, fast_straight_through
from adaste.recipes.recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """The part of a recipe that depends on the data set.

    Args:
        data: The name of the data.
        images: How many there are for training.
        networks: The networks that suit the images, by the middle part of a recipe's name.
        epochs: The usual length of a run.
    """

    data: str
    images: int
    augmentation: tuple[Transform, ...]
    networks: Mapping[str, Network]
    epochs: int
    precision: str = "bfloat16"


Changes = Callable[[int], Mapping[str, Any]]
"""Fields of a recipe that differ from those of the common one, for a number of epochs."""


def no_changes(epochs: int) -> Mapping[str, Any]:
    """Return the changes of the common recipe itself."""
    return {}


@dataclass(frozen=True)
class Preset:
    """A recipe without its length.

    Args:
        norm_always: As in a recipe: on, unless the runs of before are to be repeated.
        epochs: The usual length, if it is not that of the setting.
        batch: Images per step.
        changes: Other differences from the common recipe.
    """

    name: str
    description: str
    setting: Setting
    network: Network
    method: NamedMethod
    norm_always: bool = True
    epochs: int | None = None
    batch: int = 128
    changes: Changes = no_changes

    def make(self, epochs: int | None = None) -> Recipe:
        """Return the recipe for so many epochs, or for the usual number of them."""
        setting, batch = self.setting, self.batch
        if epochs is None:
            epochs = setting.epochs if self.epochs is None else self.epochs
        treatment = self.method.treat(Plan(epochs, setting.images, batch))
        common = Recipe(
            data=setting.data,
            network=self.network,
            estimator=treatment.estimator,
            base=treatment.base,
            averaging=treatment.averaging,
            rest_lr=treatment.rest_lr,
            epochs=epochs,
            batch=batch,
            augmentation=setting.augmentation,
            precision=setting.precision,
            norm_always=self.norm_always,
        )
        return dataclasses.replace(common, **self.changes(epochs))


_RESNETS = {"resnet18": ResNet(depth=18), "resnet34": ResNet(depth=34), "resnet50": ResNet(depth=50)}
_STRIDED = {
    "resnet18": ResNet(depth=18, stem="strided"),
    "resnet34": ResNet(depth=34, stem="strided"),
    "resnet50": ResNet(depth=50, stem="strided"),
}
_BINARY_CONNECT = VGG(stages=((128, 128), (256, 256), (512, 512)), hidden_widths=(1024, 1024))
_CIFAR = {**_RESNETS, "vgg16": VGG(), "binaryconnect-vgg": _BINARY_CONNECT, "mlp": MLP(widths=(1024, 1024, 1024))}
_SMALL = {"mlp": MLP(widths=(256, 256)), "vgg-small": VGG(stages=((32, 32), (64, 64)), hidden_widths=())}

SETTINGS = MappingProxyType(
    {
        "cifar10": Setting("cifar10", 50_000, (Crop(4), Flip()), _CIFAR, epochs=160),
        "cifar100": Setting("cifar100", 50_000, (Crop(4), Flip()), _CIFAR, epochs=160),
        "tiny-imagenet": Setting(
            "tiny-imagenet", 100_000, (RandomResizedCrop(64), Flip()), {**_STRIDED, "vgg16": VGG()}, epochs=60
        ),
        "imagenette": Setting(
            "imagenette", 9_469, (RandomResizedCrop(224), Flip()), {**_RESNETS, "vgg16": VGG()}, epochs=60
        ),
        "mnist": Setting("mnist", 60_000, (Crop(2),), {"mlp": MLP(widths=(1024, 1024, 1024))}, epochs=20),
        "fashion-mnist": Setting(
            "fashion-mnist", 60_000, (Crop(2), Flip()), {"mlp": MLP(widths=(1024, 1024, 1024))}, epochs=20
        ),
        "digits": Setting("digits", 1_297, (Crop(1),), _SMALL, epochs=20, precision="float32"),
    }
)
"""The data by the first part of a recipe's name."""


def own_setting(data: str, images: int, side: int) -> Setting:
    """Return the setting of a user's own images: rates depend on their number, networks and augmentation on their side.

    Args:
        data: `folder` or `folder:SIDE`.
        images: How many there are for training.
        side: The side of each image, in pixels.
    """
    stem = "small" if side < 64 else "strided" if side < 128 else "large"
    networks: dict[str, Network] = {f"resnet{depth}": ResNet(depth=depth, stem=stem) for depth in (18, 34, 50)}
    cropping = Crop(max(1, side // 8)) if side < 64 else RandomResizedCrop(side)
    return Setting(data, images, (cropping, Flip()), {**networks, "vgg16": VGG(), **_SMALL}, epochs=60)


def presets(settings: Mapping[str, Setting]) -> Mapping[str, Preset]:
    """Return all recipes for some data, by name: `<data>-<network>-<method>`."""
    return MappingProxyType(
        {
            name: Preset(name, f"{method.title}: {network_name} on {setting.data}", setting, network, method)
            for data_name, setting in settings.items()
            for network_name, network in setting.networks.items()
            for method_name, method in METHODS.items()
            for name in [f"{data_name}-{network_name}-{method_name}"]
        }
    )


@dataclass(frozen=True)
class Lengths:
    """The usual epochs of a `best` recipe, and the most that its teacher is trained for."""

    epochs: int
    teacher: int


BEST = MappingProxyType(
    {
        ("cifar10", "resnet18"): Lengths(500, teacher=200),
        ("cifar10", "vgg16"): Lengths(500, teacher=200),
        ("cifar100", "resnet18"): Lengths(500, teacher=200),
        ("cifar100", "vgg16"): Lengths(500, teacher=200),
        ("tiny-imagenet", "resnet18"): Lengths(200, teacher=100),
        ("imagenette", "resnet18"): Lengths(100, teacher=100),
    }
)
"""Where there is a recipe `best`. All have one form, which studies/3-* choose on held-out images."""


def _best_and_teacher(data: str, network: str, lengths: Lengths) -> list[Preset]:
    """Return the recipe that learns most, with mixed images and from a teacher, and that of its teacher.

    A best one of fewer epochs than its teacher's usual ones has a teacher of as few.
    """
    setting, at = SETTINGS[data], f"{network} on {data}"
    augmentation = (*setting.augmentation, CutMix())

    def mixed(epochs: int) -> Mapping[str, Any]:
        return {"augmentation": augmentation, "evaluate_every": 10}

    teacher = Preset(
        f"{data}-{network}-teacher",
        f"Full precision with CutMix, the teacher of {data}-{network}-best",
        setting,
        setting.networks[network],
        METHODS["full-precision"],
        epochs=lengths.teacher,
        changes=mixed,
    )

    def taught(epochs: int) -> Mapping[str, Any]:
        digest = teacher.make(min(epochs, lengths.teacher)).digest
        return {**mixed(epochs), "distillation": Distillation(teacher=digest)}

    best = dataclasses.replace(
        teacher,
        name=f"{data}-{network}-best",
        description=f"AdaSTE (released update) with CutMix and a teacher: {at}",
        method=METHODS["adaste"],
        epochs=lengths.epochs,
        changes=taught,
    )
    return [best, teacher]


def _fast(epochs: int) -> Mapping[str, Any]:
    """Return what makes a run short and a measurement of its time fair: a test at the end alone."""
    return {"augmentation": (Crop(4), Flip(alternating=True), Cutout(8)), "evaluate_every": epochs}


FAST = Preset(
    "cifar10-resnet18-fast",
    "Few epochs to a good accuracy: resnet18 on cifar10",
    SETTINGS["cifar10"],
    SETTINGS["cifar10"].networks["resnet18"],
    NamedMethod("straight-through with decay", fast_straight_through),
    epochs=60,
    batch=256,
    changes=_fast,
)

_MORE = [FAST, *(preset for key, lengths in BEST.items() for preset in _best_and_teacher(*key, lengths))]

RECIPES: Mapping[str, Preset] = MappingProxyType(
    {**presets(SETTINGS), **{preset.name: preset for preset in _MORE}},
)
"""All named recipes but those for images of one's own."""


def recipe(name: str, *, epochs: int | None = None, seed: int = 0) -> Recipe:
    """Return the recipe of that name, for another number of epochs than usual if one is given."""
    return find_preset(name).make(epochs).with_seed(seed)


def find_preset(name: str, settings: Mapping[str, Setting] = SETTINGS) -> Preset:
    """Return the recipe of that name without its length, among those for some data."""
    known = RECIPES if settings is SETTINGS else presets(settings)
    if name not in known:
        networks = dict.fromkeys(network for setting in settings.values() for network in setting.networks)
        raise ValueError(
            f"there is no recipe {name!r}{suggest(name, known)}. Names are <data>-<network>-<method>: data "
            f"{', '.join(settings)}; networks {', '.join(networks)}; methods {', '.join(METHODS)}. "
            "`adaste list recipes` shows the combinations, and recipes beyond them"
        )
    return known[name]
