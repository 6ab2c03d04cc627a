"""A network that runs on this package's GPU kernels."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from adaste.models.kernels.side_stream import Sidetrack
from adaste.models.layers import Convolution, Norm


class Accelerator:
    """Inside `with accelerator():` the layers of `model` run on fused kernels, and weight gradients beside the rest.

    A backward pass belongs into the same block as its forward pass. Outside, the model is as torch made it.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        from adaste.models.kernels.norm import FastNorm  # needs Triton, which only a GPU asks for

        self._sidetrack = Sidetrack(device)
        modules = list(model.modules())
        norms = [module for module in modules if isinstance(module, Norm) and not module.batch_norm.affine]
        convolutions = [
            module
            for module in modules
            if isinstance(module, Convolution) and module.bias is None and module.groups == 1
        ]
        self._norms = [(module, FastNorm(device)) for module in norms]
        self._convolutions = convolutions

    @contextmanager
    def __call__(self) -> Iterator[None]:
        for norm, faster in self._norms:
            norm.faster = faster
        for convolution in self._convolutions:
            convolution.faster = self._sidetrack.convolution
        try:
            yield
        finally:
            for norm, _ in self._norms:
                norm.faster = None
            for convolution in self._convolutions:
                convolution.faster = None
            self._sidetrack.join()
