"""One process among several of a run (DDP), or alone."""

import gc
import os
import secrets
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous


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
