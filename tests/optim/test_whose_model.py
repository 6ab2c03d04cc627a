"""The model that `binarized` is given: the optimizer's own in any form, and none that shares no weight with it."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

import adaste
from support.latent_optimizers import make
from support.methods import small_model

OTHER = r"this model shares no weight with the optimizer: the \d parameters of \w+.*Give the one it was made for"


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def replaced(model: nn.Module) -> nn.Module:
    """The same module with parameters that the optimizer does not know."""
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    return model


@pytest.mark.parametrize(
    "other_of",
    [copy.deepcopy, AveragedModel, lambda model: nn.Linear(3, 3), lambda model: nn.ReLU(), replaced],
    ids=["a copy", "an average", "another", "without parameters", "replaced"],
)
@pytest.mark.parametrize("batches", [None, [torch.zeros(2, 3)]], ids=["", "with batches"])
def test_a_model_that_holds_none_of_the_weights_is_refused(
    other_of: Callable[[nn.Module], nn.Module], batches: list[torch.Tensor] | None
) -> None:
    model = small_model()
    optimizer = make(model, adaste.MirrorDescent())
    other = other_of(model)
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(ValueError, match=OTHER), optimizer.binarized(other, statistics_from=batches):
        pytest.fail("not reached")
    assert all(map(torch.equal, before, model.parameters()))
    optimizer.step()  # it would be refused inside


def test_a_copy_can_load_the_rounded_weights_inside_of_the_block() -> None:
    model = small_model()
    optimizer, copied = make(model, adaste.MirrorDescent()), copy.deepcopy(model)
    with optimizer.binarized(model):
        copied.load_state_dict(model.state_dict())
    assert optimizer.is_soft()
    assert set(copied[0].weight.flatten().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize(
    "form_of",
    [
        DistributedDataParallel,
        DataParallel,
        lambda model: torch.compile(model, backend="eager"),
        lambda model: torch.compile(DistributedDataParallel(model), backend="eager"),
        lambda model: model[2],
        lambda model: nn.Sequential(nn.Linear(3, 3), model),
        copy.copy,
    ],
    ids=["DDP", "DataParallel", "compiled", "compiled DDP", "a part", "one around", "shallow copy"],
)
def test_the_optimizers_own_may_be_wrapped_or_a_part(
    one_process: None, form_of: Callable[[nn.Module], nn.Module]
) -> None:
    model = small_model()
    optimizer = make(model, adaste.MirrorDescent())
    with optimizer.binarized(form_of(model)):
        assert not optimizer.is_soft()
    assert optimizer.is_soft()


@pytest.mark.parametrize("when", ["before", "after"])
def test_weights_may_be_tied_or_frozen(when: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2))
    model[1].weight = model[0].weight

    def freeze() -> None:
        model[2].requires_grad_(False)

    if when == "before":
        freeze()
    optimizer = make(model, adaste.MirrorDescent())
    freeze()
    for part in (model, model[1]):
        with optimizer.binarized(part):
            assert not optimizer.is_soft()


def test_shards_are_the_optimizers_own_also_while_the_model_holds_gathered_weights(one_process: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = small_model(), init_device_mesh("cpu", (1,))
    for part in (model[2], model):
        fully_shard(part, mesh=mesh)
    optimizer, copied = make(model, adaste.MirrorDescent()), fully_shard(small_model(), mesh=mesh)
    with torch.no_grad():
        model(torch.zeros(2, model[0].in_features))
    assert all(parameter is not optimizer.param_groups[0]["params"][0] for parameter in model.parameters())
    for form in (model, model[2]):
        with optimizer.binarized(form):
            assert not optimizer.is_soft()
    with pytest.raises(ValueError, match=OTHER), optimizer.binarized(copied):
        pytest.fail("not reached")
