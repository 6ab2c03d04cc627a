"""The columns of the paper's tables: a data set and a network."""

from dataclasses import dataclass
from types import MappingProxyType

from adaste._util.checks import near
from adaste.models import VGG, Network, ResNet
from adaste.recipes.presets import SETTINGS, Setting


@dataclass(frozen=True)
class Setup:
    """A column of the paper's tables: a data set and the network that is trained on it.

    network  in the form of the AdaSTE and BayesBiNN code: no affine BatchNorm, a BatchNorm on the logits.
    md_form  in the form of the md-bnn and pmf code: none on the logits, biases in VGG, pools behind BatchNorm.
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
        raise ValueError(f"there is no setting {name!r}{near(name, SETUPS)}; settings are {', '.join(SETUPS)}")
    return SETUPS[name]
