"""Two processes train like one: under DDP, and with parameters in shards under FSDP2."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F

import adaste
from support.methods import METHODS, batch, latents, small_model, train

pytestmark = pytest.mark.slow

STEPS = 4
# In float64: an optimizer like Adam magnifies the rounding of a gradient that is almost zero.
PRECISION = torch.float64
Record = dict[str, dict[str, list[torch.Tensor]]]


def _record(model: nn.Module, optimizer: adaste.LatentOptimizer) -> dict[str, list[torch.Tensor]]:
    with optimizer.binarized():
        rounded = [_whole(weight) for weight in model.parameters()]
    return {
        "weights": [_whole(weight) for weight in model.parameters()],
        "latents": [_whole(latent) for latent in latents(optimizer)],
        "binarized": rounded,
    }


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).clone()


def _train_half(model: nn.Module, optimizer: adaste.LatentOptimizer, rank: int) -> None:
    for step in range(STEPS):
        inputs, labels = (part.chunk(2)[rank] for part in batch(step, dtype=PRECISION))
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def _outputs_around_binarized(mesh: Any) -> dict[str, list[torch.Tensor]]:
    """What a sharded network computes before, inside and after binarized(), without any backward pass between."""
    from torch.distributed.fsdp import fully_shard

    model = small_model().to(PRECISION)
    fully_shard(model, mesh=mesh)
    optimizer = METHODS["MD-tanh-s"].optimizer(model)
    inputs, _ = batch(0, dtype=PRECISION)
    with torch.no_grad():
        before = model(inputs)
        with optimizer.binarized(model):
            inside = model(inputs)
        after = model(inputs)
    sizes = [layer.packed_bytes for layer in adaste.inspect_model(model, optimizer).layers]
    return {"outputs": [before, inside, after], "bytes": [torch.tensor(sizes)]}


def _worker(rank: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    results: dict[str, Any] = {"ddp": {}, "fsdp": {}, "fsdp resumed": {}}
    for name, method in METHODS.items():
        model = small_model().to(PRECISION)
        wrapped = DistributedDataParallel(model)
        optimizer = method.optimizer(model)
        _train_half(wrapped, optimizer, rank)
        results["ddp"][name] = _record(model, optimizer)

        model = small_model().to(PRECISION)
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = method.optimizer(model)
        _train_half(model, optimizer, rank)
        results["fsdp"][name] = _record(model, optimizer)

        saved = optimizer.state_dict(), {key: value.clone() for key, value in model.state_dict().items()}
        optimizer = method.optimizer(model)
        model.load_state_dict(saved[1])
        optimizer.load_state_dict(saved[0])
        results["fsdp resumed"][name] = _record(model, optimizer)
    results["rounding"] = _outputs_around_binarized(mesh)
    if rank == 0:
        torch.save(results, f"{folder}/results.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("distributed")
    mp.spawn(_worker, args=(str(folder),), nprocs=2)
    return torch.load(folder / "results.pt", weights_only=True)


def _assert_close(given: dict[str, list[torch.Tensor]], wanted: dict[str, list[torch.Tensor]]) -> None:
    assert given.keys() == wanted.keys()
    for part, tensors in wanted.items():
        for one, other in zip(given[part], tensors, strict=True):
            size = float(other.abs().max())
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8 * size)


@pytest.mark.parametrize("name", list(METHODS))
def test_two_ddp_ranks_equal_one_process(name: str, results: dict[str, Record]) -> None:
    model = small_model().to(PRECISION)
    optimizer = METHODS[name].optimizer(model)
    train(model, optimizer, range(STEPS), dtype=PRECISION)
    _assert_close(results["ddp"][name], _record(model, optimizer))


@pytest.mark.parametrize("name", list(METHODS))
def test_sharded_parameters_equal_ddp(name: str, results: dict[str, Record]) -> None:
    _assert_close(results["fsdp"][name], results["ddp"][name])


@pytest.mark.parametrize("name", list(METHODS))
def test_sharded_parameters_resume_exactly(name: str, results: dict[str, Record]) -> None:
    for part, tensors in results["fsdp"][name].items():
        for one, other in zip(results["fsdp resumed"][name][part], tensors, strict=True):
            assert torch.equal(one, other)


def test_a_sharded_network_computes_with_rounded_weights_inside_binarized_only(results: Any) -> None:
    model = small_model().to(PRECISION)
    optimizer = METHODS["MD-tanh-s"].optimizer(model)
    inputs, _ = batch(0, dtype=PRECISION)
    with torch.no_grad():
        soft = model(inputs)
        with optimizer.binarized():
            rounded = model(inputs)
    before, inside, after = results["rounding"]["outputs"]
    torch.testing.assert_close(before, soft)
    torch.testing.assert_close(inside, rounded)
    torch.testing.assert_close(after, soft)
    sizes = [layer.packed_bytes for layer in adaste.inspect_model(model, optimizer).layers]
    assert results["rounding"]["bytes"][0].tolist() == sizes
