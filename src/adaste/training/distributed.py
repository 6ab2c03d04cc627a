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
"""Between two questions: each makes a GPU wait."""

MOST_SECONDS = 4.0
"""Between two questions, unless a single step takes longer: half a minute after torchrun has asked its processes to end
it kills them, and they have to save until then."""


@dataclass(frozen=True)
class World:
    """The processes that train one network together."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks for all."""
        return self.rank == 0

    def share(self, batch: int) -> int:
        """The part of a global batch that falls on each process."""
        if batch % self.size:
            raise ValueError(
                f"the batch is divided among all processes: it must be a multiple of {self.size}, got {batch}"
            )
        return batch // self.size

    def add(self, values: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def largest(self, value: int, device: torch.device) -> int:
        """The largest value any process has: all learn the same."""
        if self.size == 1:
            return value
        values = torch.tensor(value, device=device)
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return int(values)

    def from_leader(self, value: Any) -> Any:
        """What the leading process has."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]

    def average_buffers(self, model: nn.Module) -> None:
        """Give all processes the mean of their BatchNorm statistics, which each has gathered from its own part.

        Running statistics are linear in those of the batches: averaging them now or later is the same.
        """
        for buffer in model.buffers():
            if self.size > 1 and buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= self.size


ALONE = World()
"""A single process."""


def join_world(device: torch.device) -> World:
    """The world that torchrun has started this process in; alone without torchrun. `device` is this process' own."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return World()
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
    """A name that the processes of this start agree on, which no earlier start had.

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
    """End the process group, if there is one."""
    if dist.is_initialized():
        gc.collect()  # a network of DDP in a cycle of garbage would outlive the group, and torch abort at the exit
        dist.destroy_process_group()


def local_device(device: torch.device) -> torch.device:
    """The device of this process: torchrun gives every process of a machine a GPU of its own."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    return device


class RankConsensus:
    """Wishes, as whole numbers of which the largest counts for all processes. 0 is none."""

    def __init__(self, world: World, device: torch.device) -> None:
        self._world, self._device = world, device
        self._every, self._steps, self._asked_at = 1, 0, time.monotonic()

    def largest(self, wish: int, step: int) -> int:
        """The largest wish of all; 0 where they do not ask. Called by all after each `step` of an epoch."""
        if self._world.size == 1:
            return wish
        self._steps += 1
        if step % self._every:
            return 0
        found = self._world.largest(wish, self._device)
        now = time.monotonic()
        milliseconds = int(1000 * (now - self._asked_at) / self._steps) + 1
        # All must ask after the same steps, so the slowest decides for all.
        slowest = self._world.largest(milliseconds, self._device)
        self._every = min(MOST_STEPS, max(1, int(1000 * MOST_SECONDS / slowest)))
        self._steps, self._asked_at = 0, now
        return found


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
