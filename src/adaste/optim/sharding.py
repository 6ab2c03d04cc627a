"""Parameters that live in shards (FSDP2's DTensor): element-wise work on the part of this rank."""

import math
import sys

import torch
from torch import Tensor, nn


def is_shard(tensor: Tensor) -> bool:
    """Whether `tensor` is a DTensor."""
    # No DTensor exists before its module is imported; importing it here would slow down every start.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this rank holds; it shares memory with it."""
    return tensor.to_local() if is_shard(tensor) else tensor  # type: ignore[attr-defined]


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, gathered from the ranks that hold it (they must all ask for it)."""
    return tensor.full_tensor() if is_shard(tensor) else tensor  # type: ignore[attr-defined]


def forget_gathered(model: nn.Module | None) -> None:
    """Make FSDP2 gather the parameters anew: after a forward pass without backward it keeps the old ones."""
    module = sys.modules.get("torch.distributed.fsdp")
    if model is not None and module is not None:
        for part in model.modules():
            if isinstance(part, module.FSDPModule):
                part.reshard()


def like_shard(part: Tensor, whole: Tensor) -> Tensor:
    """`part` as a tensor distributed like `whole` (`part` may have further trailing dimensions)."""
    if not is_shard(whole):
        return part
    from torch.distributed.tensor import DTensor

    shape = torch.Size((*whole.shape, *part.shape[whole.ndim :]))
    stride = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return DTensor.from_local(
        part,
        whole.device_mesh,  # type: ignore[attr-defined]
        whole.placements,  # type: ignore[attr-defined]
        run_check=False,
        shape=shape,
        stride=stride,
    )


def first_element(tensor: Tensor) -> int:
    """The index, inside the whole, of the first element that this rank holds."""
    if not is_shard(tensor):
        return 0
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    placements = tensor.placements  # type: ignore[attr-defined]
    if any(isinstance(placement, Shard) and placement.dim != 0 for placement in placements):
        raise ValueError(
            f"binary weights may be sharded along dimension 0 only (as fully_shard does: output channels stay whole), "
            f"got {placements}"
        )
    mesh = tensor.device_mesh  # type: ignore[attr-defined]
    _, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
    return offset[0] * math.prod(tensor.shape[1:]) if offset else 0
