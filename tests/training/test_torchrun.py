"""Several processes train one network as a single process would, and go on after one of them has died."""

import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch import nn

from adaste.data import Dataset
from adaste.runs.folder import RunFolder
from adaste.runs.run import Options
from adaste.training.distributed import (
    SynchronizedBatchNorm,
    World,
    join_world,
    local_device,
    name_of_start,
    synchronize_norms,
)
from adaste.training.evaluation import PADDING, evaluation_order
from support.small_runs import CPU, outcome, small_data, small_run
from support.train_in_world import recipes

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "support" / "train_in_world.py"


def torchrun(folder: Path, mark: Path, *networks: str, restarts: int = 0) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"--max-restarts={restarts}", "--monitor-interval=0.1", str(SCRIPT), str(folder), str(mark), *networks]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISTRIBUTED_DEBUG": "OFF"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "broadcast_buffers" not in done.stderr


def _data() -> Dataset:
    return small_data(test=53)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs of two processes."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "mark").touch()
    torchrun(folder, folder / "mark", *recipes())
    return folder


@pytest.mark.parametrize("network", list(recipes()))
def test_two_processes_train_as_one_does(tmp_path, network, two) -> None:
    folders = tmp_path, two / network
    small_run(recipes()[network], tmp_path, data=_data(), options=Options(save_every=0.0, teachers=two))
    one, other = (load_file(folder / "last.safetensors") for folder in folders)
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=1e-4, atol=1e-5)
    for alone, together in zip(*(RunFolder(folder).read_records() for folder in folders), strict=True):
        assert together.loss == pytest.approx(alone.loss, rel=1e-4)
        assert together.train_accuracy == alone.train_accuracy
        assert together.test_accuracy == alone.test_accuracy
        assert (together.test_loss or 0) == pytest.approx(alone.test_loss or 0, rel=1e-4)
    (start,) = json.loads((two / network / "environment.json").read_text())
    assert start["processes"] == 2


def test_after_a_killed_process_all_begin_again_where_it_was_saved(tmp_path, two) -> None:
    torchrun(tmp_path, tmp_path / "mark", "plain", restarts=3)
    assert (tmp_path / "mark").exists()
    starts = json.loads((tmp_path / "plain" / "environment.json").read_text())
    assert len(starts) == 2
    assert starts[1]["from_epoch"] == 1 and 0 < starts[1]["from_step"] < 20, "saved in the middle of an epoch"
    assert outcome(tmp_path / "plain") == outcome(two / "plain")


@pytest.mark.parametrize("count", [1, 2, 5, 999, 1000, 1001, 2500])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_processes_together_see_every_image_of_a_test_once(count, size) -> None:
    orders = [evaluation_order(count, World(rank, size)) for rank in range(size)]
    assert len({order.shape for order in orders}) == 1, "all make the same number of steps"
    seen = torch.cat([order.flatten() for order in orders])
    assert sorted(seen[seen != PADDING].tolist()) == list(range(count))


def test_a_batch_is_shared_equally_or_refused() -> None:
    assert World(1, 4).share(128) == 32
    with pytest.raises(ValueError, match=r"multiple of 3, got 128"):
        World(0, 3).share(128)


def test_a_batch_that_cannot_be_shared_is_refused_once_for_all_processes(tmp_path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", "-m", "adaste"]
    command += ["train", "digits-mlp-adaste", "--device", "cpu", "--data", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if "error: " in line] == [
        "error: the batch is divided among all processes: it must be a multiple of 3, got 128"
    ]
    assert "exitcode  : 1 " in done.stderr.partition("Root Cause")[2]
    assert not (tmp_path / "runs").exists()


def test_without_torchrun_a_process_is_alone(monkeypatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join_world(CPU) == World(0, 1)
    assert World().leads
    assert not World(1, 2).leads
    assert local_device(CPU) == CPU


@pytest.mark.parametrize("size", [2, 5])
def test_the_processes_of_every_start_agree_on_a_name_that_is_new(size: int) -> None:
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=20))
    store.set("asks-1", "of a process that has died before it was answered")
    names = []
    for _ in range(3):
        with ThreadPoolExecutor(size) as processes:
            found = set(processes.map(lambda rank: name_of_start(store, rank, size), range(size)))
        assert len(found) == 1
        names += found
    assert len(set(names)) == 3


def _norm_worker(rank: int, folder: str) -> None:
    warnings.simplefilter("error", FutureWarning)  # of what a coming torch takes away
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    results = {}
    for name, (norm, inputs, weights) in _norm_cases().items():
        model = synchronize_norms(nn.Sequential(norm))
        assert type(model[0]) is SynchronizedBatchNorm
        part, weight = inputs.chunk(2)[rank].requires_grad_(), weights.chunk(2)[rank]
        output = model(part)
        (output * weight).sum().backward()
        grads = [parameter.grad.clone() for parameter in model.parameters()]
        for grad in grads:
            dist.all_reduce(grad)
        model.eval()
        results[name] = [output.detach(), part.grad, *model.state_dict().values(), *grads, model(part).detach()]
    world = World(rank, 2)
    norm = nn.BatchNorm1d(2)
    norm.running_mean.fill_(float(rank))
    world.average_buffers(norm)
    results["averaged"] = [norm.running_mean]
    results["largest"] = [torch.tensor(world.largest(10 - rank, CPU))]
    results["leader"] = [torch.tensor(world.from_leader(rank + 7))]
    torch.save(results, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def _norm_cases() -> dict[str, tuple[nn.Module, torch.Tensor, torch.Tensor]]:
    """A norm, what goes in, and the gradient that comes back."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return {
        "linear": (_without_count(nn.BatchNorm1d(5, affine=False)), drawn(8, 5), drawn(8, 5)),
        "affine": (_without_count(nn.BatchNorm2d(3, momentum=0.2)), drawn(6, 3, 4, 4), drawn(6, 3, 4, 4)),
        "far from zero": (_without_count(nn.BatchNorm2d(3)), 1000 + drawn(6, 3, 4, 4), drawn(6, 3, 4, 4)),
    }


def _without_count(norm: Any) -> nn.Module:
    norm.num_batches_tracked = None
    return norm


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[torch.Tensor]]]:
    folder = tmp_path_factory.mktemp("norms")
    mp.spawn(_norm_worker, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", list(_norm_cases()))
def test_a_synchronized_norm_equals_a_norm_of_the_whole_batch(name, together) -> None:
    norm, inputs, weights = _norm_cases()[name]
    inputs.requires_grad_()
    output = norm(inputs)
    (output * weights).sum().backward()
    grads = [parameter.grad for parameter in norm.parameters()]
    norm.eval()
    wanted = [output.detach(), inputs.grad, *norm.state_dict().values(), *grads, norm(inputs).detach()]
    split = {0, 1, len(wanted) - 1}
    for place, value in enumerate(wanted):
        parts = [results[name][place] for results in together]
        found = torch.cat(parts) if place in split else parts[0]
        tolerance = 1e-3 if name == "far from zero" else 1e-5
        torch.testing.assert_close(found, value, rtol=tolerance, atol=tolerance)
        if place not in split:
            assert torch.equal(parts[0], parts[1])


def test_processes_agree(together) -> None:
    for results in together:
        assert results["averaged"][0].tolist() == [0.5, 0.5]
        assert results["largest"][0] == 10
        assert results["leader"][0] == 7
