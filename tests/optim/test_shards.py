"""Parameters in shards, in one process: what a rank does with its part."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from adaste.optim.state import first_element, local, whole
from support.methods import METHODS, latents, small_model, train


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("name", ["AdaSTE, annealed", "BinaryConnect, stochastic", "MD-softmax", "scaled by channel"])
def test_one_shard_is_the_whole(one_process: None, name: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    plain, sharded = small_model(), small_model()
    fully_shard(sharded, mesh=init_device_mesh("cpu", (1,)))
    optimizers = METHODS[name].optimizer(plain), METHODS[name].optimizer(sharded)
    for model, optimizer in zip((plain, sharded), optimizers, strict=True):
        train(model, optimizer, range(3))
    for one, other in zip(latents(optimizers[0]), latents(optimizers[1]), strict=True):
        assert torch.equal(one, whole(other))


def test_a_shard_knows_where_it_begins_and_other_dimensions_are_refused(one_process: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (1,))
    rows = distribute_tensor(torch.zeros(4, 3), mesh, [Shard(0)])
    assert first_element(rows) == 0
    assert local(rows).shape == (4, 3)
    with pytest.raises(ValueError, match="dimension 0 only"):
        first_element(distribute_tensor(torch.zeros(4, 3), mesh, [Shard(1)]))


def test_a_new_optimizer_of_shards_goes_on_from_a_whole_state(one_process: None) -> None:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, other = small_model(), small_model(seed=1)
    for network in (model, other):
        fully_shard(network, mesh=init_device_mesh("cpu", (1,)))
    optimizer, resumed = METHODS["BinaryConnect"].optimizer(model), METHODS["BinaryConnect"].optimizer(other)
    train(model, optimizer, range(3))
    whole_state = StateDictOptions(full_state_dict=True)
    saved = get_state_dict(model, optimizer, options=whole_state)
    set_state_dict(other, resumed, model_state_dict=saved[0], optim_state_dict=saved[1], options=whole_state)
    train(model, optimizer, range(3, 5))
    train(other, resumed, range(3, 5))
    for one, two in zip(latents(optimizer), latents(resumed), strict=True):
        assert torch.equal(whole(one), whole(two))
