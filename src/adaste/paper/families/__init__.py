"""The setups of the paper (a data set and a network), and families of recipes: a recipe of each method for a setup.

There are four families, in three modules:

    printed    what the paper prints
    released   what the published scripts do (those of md-bnn and pmf are in md_bnn)
    ours       one common recipe for all methods, and the ablation
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from adaste._util.checks import suggest
from adaste.estimators import Estimator
from adaste.models import VGG, Network, ResNet
from adaste.recipes.bases import Base
from adaste.recipes.methods import Plan
from adaste.recipes.presets import SETTINGS, Setting
from adaste.recipes.recipe import Recipe


@dataclass(frozen=True)
class Setup:
    """A column of the paper's tables: a data set and the network that is trained on it.

    Args:
        network: The form of the AdaSTE and BayesBiNN code: no affine BatchNorm, a BatchNorm on the logits.
        md_form: The form of the md-bnn and pmf code: none on the logits, biases in VGG, pools behind BatchNorm.
    """

    name: str
    title: str
    setting: Setting
    network: Network
    md_form: Network

    @property
    def data(self) -> str:
        """The name of the data."""
        return self.setting.data

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Patterns of the names of shortcut convolutions."""
        return ("*.shortcut.*",) if isinstance(self.network, ResNet) else ()


def _resnet(stem: str = "small") -> tuple[Network, Network]:
    return ResNet(depth=18, stem=stem), ResNet(depth=18, stem=stem, logits_norm=False, norm_momentum=0.1)


def _vgg() -> tuple[Network, Network]:
    return VGG(), VGG(logits_norm=False, norm_momentum=0.1, pool_last=True, bias=True)


SETUPS = MappingProxyType(
    {
        setup.name: setup
        for setup in (
            Setup("cifar10-vgg16", "CIFAR-10 VGG-16", SETTINGS["cifar10"], *_vgg()),
            Setup("cifar10-resnet18", "CIFAR-10 ResNet-18", SETTINGS["cifar10"], *_resnet()),
            Setup("cifar100-vgg16", "CIFAR-100 VGG-16", SETTINGS["cifar100"], *_vgg()),
            Setup("cifar100-resnet18", "CIFAR-100 ResNet-18", SETTINGS["cifar100"], *_resnet()),
            Setup("tiny-imagenet-resnet18", "Tiny ImageNet ResNet-18", SETTINGS["tiny-imagenet"], *_resnet("strided")),
            Setup("imagenette-resnet18", "Imagenette ResNet-18", SETTINGS["imagenette"], *_resnet()),
        )
    }
)
"""All columns by name."""


def setup(name: str) -> Setup:
    """Return the setup of that name. Raise ValueError if there is none."""
    if name not in SETUPS:
        raise ValueError(f"there is no setup {name!r}{suggest(name, SETUPS)}; setups are {', '.join(SETUPS)}")
    return SETUPS[name]


Make = Callable[[Setup, int], Recipe | None]
"""The recipe of a method in a setup for so many epochs; None where its source has none for that setup."""


@dataclass(frozen=True)
class Family:
    """The recipes of several methods that have one source.

    Args:
        about: One sentence on where they come from.
        epochs: The usual length of a run.
        makers: Functions that make recipes, by method.
    """

    name: str
    about: str
    epochs: int
    makers: Mapping[str, Make]

    def recipe(self, method: str, setup: Setup, epochs: int | None = None, seed: int = 0) -> Recipe | None:
        """Return the recipe of `method` in `setup`; None if the family has none."""
        make = self.makers.get(method)
        made = make(setup, self.epochs if epochs is None else epochs) if make else None
        return made.with_seed(seed) if made else None

    def has(self, method: str, setup: Setup) -> bool:
        """Return whether there is a recipe of `method` in `setup`."""
        return self.recipe(method, setup) is not None


EVERYTHING = ("*",)
"""All parameters are binary."""

HELD_OUT = MappingProxyType({"cifar10": 5_000, "cifar100": 5_000})
"""Images that the scripts do not train with, by data; of those not named here they use all."""


def assemble(
    setup: Setup,
    epochs: int,
    *,
    network: Network,
    estimator: Estimator,
    base: Base,
    include: tuple[str, ...] = EVERYTHING,
    exclude: tuple[str, ...] = (),
    norm_batches: int = 50,
    holdout: int | None = None,
    batch: int = 128,
) -> Recipe:
    """Return a recipe with the data and the augmentation of a setup."""
    return Recipe(
        data=setup.data,
        network=network,
        estimator=estimator,
        base=base,
        include=include,
        exclude=exclude,
        epochs=epochs,
        batch=batch,
        augmentation=setup.setting.augmentation,
        holdout=held_out(setup) if holdout is None else holdout,
        norm_batches=norm_batches,
    )


def held_out(setup: Setup) -> int:
    """Return how many images of a setup the scripts do not train with."""
    return HELD_OUT.get(setup.data, 0)


def plan_of(setup: Setup, epochs: int, batch: int = 128) -> Plan:
    """Return the plan of a run, which knows its length in steps."""
    return Plan(epochs, setup.setting.images - held_out(setup), batch)
