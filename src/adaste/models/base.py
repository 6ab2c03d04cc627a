"""Networks as frozen descriptions that build ordinary torch modules, and the layers that all of them share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adaste._util.checks import require, require_count

Shared = Tensor | tuple[Tensor, Tensor]
"""A tensor that two layers use, or one tensor for each, so that no separate kernel adds their gradients."""


class Convolution(nn.Conv2d):
    """A convolution. `faster`, if set, is called in training instead: (x, weight, stride, padding)."""

    faster: Callable[..., Tensor] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if self.faster is None or not torch.is_grad_enabled():
            return super().forward(input)
        return self.faster(input, self.weight, self.stride, self.padding)


class Norm(nn.Module):
    """The layer relu(BatchNorm(x) + residual); the residual may be missing, and so may the ReLU.

    If `faster` is set and takes the input, it is called instead: (norm, x, residual).

    Args:
        batch_norm: The BatchNorm.
        relu: Whether a ReLU follows.
        users: How many layers use the result; for two it may be a pair.
    """

    def __init__(self, batch_norm: nn.BatchNorm2d, *, relu: bool = True, users: int = 1) -> None:
        super().__init__()
        self.batch_norm, self.relu, self.users = batch_norm, relu, users
        self.faster: Any = None

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Shared:
        if self.faster is not None and self.faster.takes(x):
            result: Shared = self.faster(self, x, residual)
            return result
        y = self.batch_norm(x)
        if residual is not None:
            y = y + residual
        return F.relu(y) if self.relu else y


def for_two(x: Shared) -> tuple[Tensor, Tensor]:
    """Return `x` for each of its two users."""
    return x if isinstance(x, tuple) else (x, x)


class ImageShape(NamedTuple):
    """The shape of the images that a network gets."""

    channels: int
    height: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Network(ABC):
    """The description of a network; its fields are its configuration.

    Args:
        affine: Whether BatchNorm has trainable scales and shifts. The paper's networks have none: every trainable
            parameter is a weight.
        logits_norm: Whether a BatchNorm (never affine) is on the logits, as in the AdaSTE and BayesBiNN networks. It
            floors the cross-entropy: at 0.278 for 10 classes.
        norm_momentum: That of the BatchNorms behind convolutions; those behind linear layers have torch's 0.1.
        two_levels: Whether weights start at half the difference of two, one for -1 and one for +1, each drawn for a
            layer of twice the outputs, as latents of two levels do in the code of md-bnn and pmf.

    Raises:
        ValueError: If a field is out of range.
    """

    affine: bool = False
    logits_norm: bool = True
    norm_momentum: float = 0.2
    two_levels: bool = False

    def __post_init__(self) -> None:
        require("norm_momentum", self.norm_momentum, above=0, most=1)

    def build(self, image: ImageShape, classes: int) -> nn.Module:
        """Return the network for these images; weights are Xavier-uniform or the difference of two such, biases 0.

        Args:
            image: The shape of the images.
            classes: The number of logits.

        Returns:
            A module of torch.

        Raises:
            ValueError: If the images are too small for it, or a number is no positive whole number.
        """
        for name, value in image._asdict().items():
            require_count(name, value, least=1)
        require_count("classes", classes, least=2)
        model = self.layers(image, classes)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                (_difference_of_two_levels_ if self.two_levels else nn.init.xavier_uniform_)(parameter)
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.num_batches_tracked = None  # unused, and it costs a kernel per layer and step
        model.register_load_state_dict_post_hook(_without_counts)  # type: ignore[no-untyped-call]
        return model

    @abstractmethod
    def layers(self, image: ImageShape, classes: int) -> nn.Module:
        """Return the layers, with torch's initial weights.

        Args:
            image: The shape of the images.
            classes: The number of logits.

        Returns:
            A module of torch.
        """

    def norm(self, channels: int, *, relu: bool = True, users: int = 1) -> Norm:
        """Return the BatchNorm behind a convolution, with its ReLU."""
        batch_norm = nn.BatchNorm2d(channels, momentum=self.norm_momentum, affine=self.affine)
        return Norm(batch_norm, relu=relu, users=users)

    def head(self, features: int, classes: int, *, bias: bool) -> nn.Sequential:
        """Return the last linear layer and, with `logits_norm`, the BatchNorm on its logits."""
        linear = nn.Linear(features, classes, bias=bias)
        return (
            nn.Sequential(linear, nn.BatchNorm1d(classes, affine=False)) if self.logits_norm else nn.Sequential(linear)
        )

    def hidden(self, features: int, width: int, *, bias: bool) -> list[nn.Module]:
        """Return a hidden linear layer with BatchNorm and ReLU."""
        return [nn.Linear(features, width, bias=bias), nn.BatchNorm1d(width, affine=self.affine), nn.ReLU()]


def _difference_of_two_levels_(parameter: Tensor) -> None:
    """Fill a weight with (u_plus - u_minus) / 2, both uniform up to sqrt(6 / (inputs + 2 outputs)): triangular."""
    levels = torch.cat((parameter, parameter)).detach()
    minus, plus = nn.init.xavier_uniform_(levels).chunk(2)
    with torch.no_grad():
        parameter.copy_((plus - minus) / 2)


def _without_counts(model: nn.Module, keys: Any) -> None:
    """Ignore the counts of batches that torch adds to a state dict loaded from plain tensors."""
    keys.unexpected_keys[:] = [name for name in keys.unexpected_keys if not name.endswith("num_batches_tracked")]
