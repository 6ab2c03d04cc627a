"""Summarise a binary network layer by layer."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from adaste.estimators import Estimator
from adaste.estimators.base import OutputAxis
from adaste.optim.latent_optimizer import LatentOptimizer
from adaste.optim.parameters import output_axes
from adaste.optim.partition import Matrix, weight_matrices
from adaste.optim.state import forget_gathered, whole


@dataclass(frozen=True)
class Layer:
    """One parameter of a model.

    Args:
        name: Its name.
        shape: Its shape.
        bits: Bits of each of its weights, 1 or 32.
        positive: The share of +1 among binary weights.
        float_bytes: Its size as float32.
        packed_bytes: Its size with eight binary weights to a byte.
        real_because: The reason why a weight matrix stays real; empty for all others.
    """

    name: str
    shape: tuple[int, ...]
    bits: int
    positive: float
    float_bytes: int
    packed_bytes: int
    real_because: str = ""


@dataclass(frozen=True)
class Summary:
    """All parameters of a model; `str()` is a table, and below it the weight matrices that stay real.

    Args:
        layers: The parameters in the model's order.
    """

    layers: tuple[Layer, ...]

    @property
    def float_bytes(self) -> int:
        """The size of all parameters as float32."""
        return sum(layer.float_bytes for layer in self.layers)

    @property
    def packed_bytes(self) -> int:
        """The size with eight binary weights to a byte."""
        return sum(layer.packed_bytes for layer in self.layers)

    def __str__(self) -> str:
        heading = ("parameter", "shape", "bits", "share of +1", "float32 bytes", "packed bytes")
        rows = [
            (
                layer.name,
                "x".join(map(str, layer.shape)) or "scalar",
                str(layer.bits),
                f"{layer.positive:.3f}" if layer.bits == 1 else "-",
                f"{layer.float_bytes:,}",
                f"{layer.packed_bytes:,}",
            )
            for layer in self.layers
        ]
        ratio = self.float_bytes / max(1, self.packed_bytes)
        total = ("total", "", "", f"1/{ratio:.1f}", f"{self.float_bytes:,}", f"{self.packed_bytes:,}")
        widths = [max(map(len, column)) for column in zip(heading, *rows, total, strict=True)]
        lines = [
            "  ".join(text.ljust(width) if place < 2 else text.rjust(width) for place, (text, width) in enumerate(row))
            for row in (list(zip(line, widths, strict=True)) for line in (heading, *rows, total))
        ]
        rule = "-" * len(lines[0])
        real = [f"  {layer.name.ljust(widths[0])}  {layer.real_because}" for layer in self.layers if layer.real_because]
        told = ["weight matrices that stay real:", *real] if real else []
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], *told])


def summary(model: nn.Module, optimizer: LatentOptimizer) -> Summary:
    """Print and return what `inspect_model` finds.

    Args:
        model: The network.
        optimizer: The optimizer that trains it.

    Returns:
        The table that was printed, as an object with `layers`, `float_bytes` and `packed_bytes`.
    """
    result = inspect_model(model, optimizer)
    print(result)
    return result


def inspect_model(model: nn.Module, optimizer: LatentOptimizer) -> Summary:
    """Return shape, bits per weight, share of +1 and size, as float32 and packed, of every parameter of a model.

    Args:
        model: The network.
        optimizer: The optimizer that trains it.

    Returns:
        An object with `layers`, `float_bytes` and `packed_bytes`; `str()` of it is a table. Each layer has `name`,
        `shape`, `bits`, `positive`, `float_bytes`, `packed_bytes` and `real_because`.
    """
    forget_gathered(model)  # parameters are read here and nothing is computed: FSDP2 must not show gathered ones
    with optimizer.binarized():
        trained = {
            weight: (group["estimator"], axis)
            for group in optimizer.param_groups
            for weight, axis in zip(group["params"], output_axes(group), strict=True)
        }
        matrices = weight_matrices(model)
        return Summary(
            tuple(
                _binary_layer(name, weight, *trained[weight])
                if weight in trained and trained[weight][0].binary
                else _real_layer(name, weight, matrices.get(weight), weight in trained)
                for name, weight in model.named_parameters()
            )
        )


def _real_layer(name: str, weight: nn.Parameter, matrix: Matrix | None, trained: bool) -> Layer:
    size, because = 4 * weight.numel(), ""
    if matrix is not None and not weight.requires_grad:
        because = "frozen: it requires no gradient"
    elif matrix is not None:
        chosen = "its group is trained in full precision" if trained else "the optimizer does not have it"
        because = matrix.real or chosen
    return Layer(name, tuple(weight.shape), 32, math.nan, size, size, because)


def _binary_layer(name: str, weight: nn.Parameter, estimator: Estimator, axis: OutputAxis) -> Layer:
    count, levels = weight.numel(), whole(weight.detach())
    positive = float((levels > 0).float().mean())
    by_output = axis.outputs_first(levels) if levels.ndim else levels.view(1)
    scales = _scale_bytes(by_output.abs().reshape(len(by_output), -1))
    return Layer(name, tuple(weight.shape), 1, positive, 4 * count, math.ceil(count / 8) + scales)


def _scale_bytes(sizes: Tensor) -> int:
    """Return the bytes of the scales of weights with these sizes (outputs, inputs of one).

    Scales other than 1 are float32, one per layer, per output channel or per group of inputs; in groups they are
    float16 if they all fit into it.
    """
    different = torch.unique(sizes)
    if len(different) < 2:
        return 0 if bool((different == 1).all()) else 4
    # A group ends where the size changes in any channel: neighbours of equal size by chance are still two groups.
    groups = 1 + int((sizes[:, 1:] != sizes[:, :-1]).any(0).sum())
    fits = groups > 1 and torch.equal(different, different.half().to(different.dtype))
    return len(sizes) * groups * (2 if fits else 4)
