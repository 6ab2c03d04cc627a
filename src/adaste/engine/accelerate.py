"""A network told to use this package's GPU kernels."""

import torch
from torch import nn

from adaste.kernels.aside import Sidetrack
from adaste.models.layers import Convolution, Norm


def accelerate(model: nn.Module, device: torch.device) -> Sidetrack:
    """Let the layers of `model` run on fused kernels, and weight gradients on the sidetrack that is returned.

    `join` it after every backward pass.
    """
    from adaste.kernels.norm import FastNorm  # needs Triton, which only a GPU asks for

    sidetrack = Sidetrack(device)
    for module in model.modules():
        if isinstance(module, Norm) and not module.batch_norm.affine:
            module.faster = FastNorm(device)
        if isinstance(module, Convolution) and module.bias is None and module.groups == 1:
            module.faster = sidetrack.convolution
    return sidetrack
