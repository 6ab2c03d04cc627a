"""Training in several processes (DDP), or in one alone."""

import gc
import os
import secrets
import time
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

MOST_STEPS = 16
"""The most steps between two questions, each of which makes a GPU wait."""

MOST_SECONDS = 4.0
"""The longest time between two questions, unless a single step takes longer. Processes have to save within the 30
seconds after which torchrun kills those that it has asked to end."""


@dataclass(frozen=True)
class World:
    """The processes that train one network together."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints for all."""
        return self.rank == 0

    def share(self, batch: int) -> int:
        """Return the size of each process's part of a global batch."""
        if batch % self.size:
            raise ValueError(
                f"the batch is divided among all processes: it must be a multiple of {self.size}, got {batch}"
            )
        return batch // self.size

    def add(self, values: Tensor) -> Tensor:
        """Return the sum over all processes, computed in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def largest(self, value: int, device: torch.device) -> int:
        """Return the largest of the values of all processes, to all of them."""
        if self.size == 1:
            return value
        values = torch.tensor(value, device=device)
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return int(values)

    def from_leader(self, value: Any) -> Any:
        """Return the value of the leading process."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]

    def average_buffers(self, model: nn.Module) -> None:
        """Average the BatchNorm statistics over all processes, each of which has those of its own part.

        Running statistics are linear in those of the batches: averaging them now or later is the same.
        """
        for buffer in model.buffers():
            if self.size > 1 and buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= self.size


ALONE = World()
"""A single process."""


def announced_world() -> World:
    """Return the world that torchrun started this process in, which may not have joined it; ALONE without torchrun."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    return ALONE if size == 1 else World(int(os.environ.get("RANK", "0")), size)


def join_world(device: torch.device) -> World:
    """Return the world that torchrun started this process, of that device, in; ALONE without torchrun."""
    if announced_world().size == 1:
        return ALONE
    if device.type == "cuda":
        torch.cuda.set_device(device)  # where NCCL puts what it exchanges
    store, rank, size = next(rendezvous("env://"))
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=dist.PrefixStore(name_of_start(store, rank, size), store),  # type: ignore[attr-defined]
        rank=rank,
        world_size=size,
    )
    return World(rank, size)


def name_of_start(store: Any, rank: int, size: int) -> str:
    """Return a name that is the same in all processes of this start, and that no earlier start had.

    After a restart torchrun's store still holds the addresses of processes that have died, and whoever reads one of
    them waits for half an hour: every start needs a place of its own there. Torchrun's count of restarts does not name
    it, because every machine counts only what has failed on itself.
    """
    own = secrets.token_hex(8)
    if rank:
        store.set(f"asks-{rank}", own)
        name: str = store.get(f"answer-{own}").decode()  # waits for it
        store.set(f"joins-{name}-{rank}", "")
        return name
    for other in range(1, size):
        while not store.check([f"joins-{own}-{other}"]):
            # Again and again: the first question may be one of an earlier start.
            store.set(f"answer-{store.get(f'asks-{other}').decode()}", own)
            time.sleep(0.02)
    return own


def leave_world() -> None:
    """Destroy the process group, if there is one."""
    if dist.is_initialized():
        gc.collect()  # a network of DDP in a cycle of garbage would outlive the group, and torch abort at the exit
        dist.destroy_process_group()


def local_device(device: torch.device) -> torch.device:
    """Return the device of this process: with torchrun, every process of a machine has a GPU of its own."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    return device


class RankConsensus:
    """Requests of ranks, to save or to stop, that all ranks learn of after the same step.

    Requests are whole numbers, of which the largest counts for all; 0 is none.
    """

    def __init__(self, world: World, device: torch.device) -> None:
        self._world, self._device = world, device
        self._every, self._steps, self._asked_at = 1, 0, time.monotonic()

    def largest(self, request: int, step: int) -> int:
        """Return the largest request of all ranks, or 0 if they do not ask now. All call it after each `step`."""
        if self._world.size == 1:
            return request
        self._steps += 1
        if step % self._every:
            return 0
        found = self._world.largest(request, self._device)
        now = time.monotonic()
        milliseconds = int(1000 * (now - self._asked_at) / self._steps) + 1
        # All must ask after the same steps, so the slowest decides for all.
        slowest = self._world.largest(milliseconds, self._device)
        self._every = min(MOST_STEPS, max(1, int(1000 * MOST_SECONDS / slowest)))
        self._steps, self._asked_at = 0, now
        return found


class SynchronizedBatchNorm(nn.BatchNorm2d):
    """BatchNorm with the statistics of the global batch, on CPUs as well as on GPUs.

    torch's own SyncBatchNorm refuses CPUs (still in torch 2.13).
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
    """The differentiable sum over all processes.

    torch 2.13 deprecates its own in favour of one that loses the gradient, silently, in earlier versions.
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
    """Return the sum over all processes; its gradient is the sum of theirs."""
    return cast("Tensor", _Sum.apply(values))  # type: ignore[no-untyped-call]


def synchronize_norms(model: nn.Module) -> nn.Module:
    """Replace every BatchNorm of `model` by one over all processes with the same statistics and parameters."""
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
