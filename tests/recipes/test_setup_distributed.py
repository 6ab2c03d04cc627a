"""What adaste.setup makes trains in two processes like in one: under DDP, FSDP2 and accelerate."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import adaste
from adaste.recipes.setup import RateScheduler
from support.methods import batch, latents, small_model

pytestmark = pytest.mark.slow

STEPS, LENGTH = 4, 150
PRECISION = torch.float64  # Adam magnifies the rounding of a gradient that is almost zero
METHODS = ("binaryconnect", "adaste", "md-tanh-s")


def start(model: nn.Module, method: str) -> tuple[adaste.LatentOptimizer, RateScheduler]:
    return adaste.setup(model, steps=LENGTH, method=method)


def train(model: nn.Module, optimizer: Any, scheduler: Any, *, rank: int = 0, ranks: int = 1) -> None:
    for step in range(STEPS):
        inputs, labels = (part.chunk(ranks)[rank] for part in batch(step, PRECISION))
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


def reached(model: nn.Module, optimizer: adaste.LatentOptimizer) -> dict[str, list[Tensor]]:
    with optimizer.binarized(model):
        rounded = [whole(weight) for weight in model.parameters()]
    rates = [torch.tensor(float(group["lr"])) for group in optimizer.param_groups]
    return {"weights": rounded, "latents": [whole(latent) for latent in latents(optimizer)], "rates": rates}


def whole(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).clone()


def with_ddp(method: str, rank: int) -> dict[str, list[Tensor]]:
    model = small_model().to(PRECISION)
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer, scheduler = start(model, method)
    train(wrapped, optimizer, scheduler, rank=rank, ranks=2)
    return reached(model, optimizer)


def with_fsdp(method: str, rank: int) -> dict[str, list[Tensor]]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = small_model().to(PRECISION)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer, scheduler = start(model, method)
    train(model, optimizer, scheduler, rank=rank, ranks=2)
    return reached(model, optimizer)


def with_accelerate(method: str, rank: int) -> dict[str, list[Tensor]]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, step_scheduler_with_optimizer=False)
    assert accelerator.num_processes == 2
    wrapped = accelerator.prepare(small_model().to(PRECISION))
    model = accelerator.unwrap_model(wrapped)
    own, own_scheduler = start(model, method)
    optimizer, scheduler = accelerator.prepare(own, own_scheduler)
    train(wrapped, optimizer, scheduler, rank=rank, ranks=2)
    return reached(model, own)


WRAPPERS = {"DDP": with_ddp, "FSDP2": with_fsdp, "accelerate": with_accelerate}


def worker(rank: int, wrapper: str, folder: str) -> None:
    torch.set_num_threads(1)
    # As torchrun and `accelerate launch` tell a process its place.
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    found = {method: WRAPPERS[wrapper](method, rank) for method in METHODS}
    if rank == 0:
        torch.save(found, f"{folder}/found.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_two_processes_train_like_one(wrapper: str, tmp_path: Path) -> None:
    if wrapper == "accelerate":
        pytest.importorskip("accelerate")
    mp.spawn(worker, args=(wrapper, str(tmp_path)), nprocs=2)
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    for method in METHODS:
        model = small_model().to(PRECISION)
        optimizer, scheduler = start(model, method)
        first = [whole(weight) for weight in model.parameters()]
        train(model, optimizer, scheduler)
        wanted = reached(model, optimizer)
        assert not all(map(torch.equal, first, wanted["weights"]))
        for part, tensors in wanted.items():
            for one, other in zip(found[method][part], tensors, strict=True):
                size = float(other.abs().max())
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8 * size, msg=f"{method}: {part}")
