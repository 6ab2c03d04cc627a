"""BatchNorm over all processes of a run."""

from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn


class SynchronizedBatchNorm(nn.BatchNorm2d):
    """BatchNorm with the statistics of the global batch, on CPUs as well as on GPUs.

    Not torch's own SyncBatchNorm, which runs on GPUs only and could not be tested without several of them.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least two dimensions, got {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        axes = [axis for axis in range(input.dim()) if axis != 1]
        shape = [1, -1, *(1 for _ in range(input.dim() - 2))]
        values, channels = input.float(), input.shape[1]
        count = values.new_tensor([values.numel() / channels])
        total = _added(torch.cat([values.sum(axes), count]))
        size = total[-1].detach()
        mean = total[:-1] / size
        # Around the mean, at the price of a second exchange: the difference of two large sums would lose its digits.
        centred = values - mean.view(shape)
        variance = _added((centred * centred).sum(axes)) / size
        with torch.no_grad():
            if self.running_mean is not None and self.running_var is not None and self.momentum is not None:
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * size / (size - 1), self.momentum)
        normal = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            normal = normal * self.weight.view(shape) + self.bias.view(shape)
        return normal.to(input.dtype)


class _Sum(torch.autograd.Function):
    """The sum over all processes, as autograd sees it.

    Not torch's own: 2.13 deprecates that in favour of one which silently loses the gradient in earlier versions.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _added(grad)


def _added(values: Tensor) -> Tensor:
    """The sum over all processes; its gradient is the sum of theirs."""
    return cast("Tensor", _Sum.apply(values))  # type: ignore[no-untyped-call]


def synchronize_norms(model: nn.Module) -> nn.Module:
    """`model` with every BatchNorm replaced by one over all processes, its statistics and parameters kept."""
    for name, module in model.named_children():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and not isinstance(module, SynchronizedBatchNorm):
            new = SynchronizedBatchNorm(
                module.num_features, eps=module.eps, momentum=module.momentum, affine=module.affine
            )
            new._parameters, new._buffers, new.training = module._parameters, module._buffers, module.training
            setattr(model, name, new)
        else:
            synchronize_norms(module)
    return model
