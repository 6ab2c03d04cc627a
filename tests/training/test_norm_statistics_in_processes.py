"""Statistics re-estimated by two processes are the means over the batches of both, under DDP and under FSDP2."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from support.latent_optimizers import make

BATCHES = [torch.randn(8, 3, generator=torch.Generator().manual_seed(seed)) for seed in range(6)]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2), nn.BatchNorm1d(2))


def outcome(model: nn.Module, forward: nn.Module, batches: list[Tensor]) -> dict[str, list[Tensor]]:
    """Train for a step, then what the network has and computes inside of binarized(), and its statistics afterwards."""
    optimizer = make(model)
    forward(BATCHES[0]).square().sum().backward()
    optimizer.step()
    model[4].eval()  # frozen
    before = [buffer.clone() for buffer in model.buffers()]
    with optimizer.binarized(forward, statistics_from=batches), torch.no_grad():
        inside = [buffer.clone() for buffer in model.buffers() if buffer.is_floating_point()]
        modes = [module.training for module in model]
        forward.eval()
        outputs = forward(BATCHES[0])
        forward.train()
    assert modes == [True, True, True, True, False]
    assert all(map(torch.equal, before, model.buffers()))
    return {"statistics": inside, "outputs": [outputs]}


def _worker(rank: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    mine, results = BATCHES[rank::2], {}
    model = network()
    wrapped = DistributedDataParallel(model)
    results["ddp"] = outcome(model, wrapped, mine)
    model = network()
    mesh = init_device_mesh("cpu", (2,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    results["fsdp"] = outcome(model, model, mine)
    torch.save(results, f"{folder}/results-{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder: Path = tmp_path_factory.mktemp("processes")
    mp.spawn(_worker, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f"results-{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_processes_have_the_statistics_and_the_outputs_of_one(way: str, results: list[Any]) -> None:
    model = network()
    alone = outcome(model, model, BATCHES)
    for rank in range(2):
        for part, tensors in alone.items():
            for given, wanted in zip(results[rank][way][part], tensors, strict=True):
                torch.testing.assert_close(given, wanted)
