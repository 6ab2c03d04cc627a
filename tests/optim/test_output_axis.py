"""Weights whose output channels do not lie along dimension 0: scales, steps, checkpoints and shards know it."""

import io
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import adaste
from adaste.estimators.base import OutputAxis

ADAM = partial(torch.optim.Adam, lr=0.02)
SCALED = {
    "fan-in": adaste.Scaled(adaste.StraightThrough(), adaste.FanIn()),
    "channel mean": adaste.Scaled(adaste.BinaryConnect(), adaste.ChannelMean()),
    "group mean": adaste.Scaled(adaste.BinaryConnect(), adaste.GroupMean(5)),
    "PARQ": adaste.PARQ(rho=adaste.Sigmoid(start=1.0, stop=0.0, length=8)),
    "BinaryRelax": adaste.BinaryRelax(share=adaste.Linear(start=0.0, stop=1.0, length=8)),
    "two levels": adaste.Scaled(adaste.PMF(beta=3.0), adaste.ChannelMean()),
}


class Conv1D(nn.Module):
    """GPT-2's linear layer, as transformers has it."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.randn(nx, nf) / math.sqrt(nx))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


def two_forms() -> tuple[nn.Module, nn.Module]:
    """The same network twice: of Conv1D layers beside a linear one, and of linear layers alone."""
    torch.manual_seed(0)
    one = nn.Sequential(Conv1D(16, 12), nn.Tanh(), nn.Linear(16, 9), nn.Tanh(), Conv1D(3, 9))
    other = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 9), nn.Tanh(), nn.Linear(9, 3))
    with torch.no_grad():
        for mine, its in zip(one, other, strict=True):
            if isinstance(its, nn.Linear):
                its.weight.copy_(as_linear(mine))
                its.bias.copy_(mine.bias)
    return one.double(), other.double()


def as_linear(layer: nn.Module) -> Tensor:
    return layer.weight.T if isinstance(layer, Conv1D) else layer.weight


def optimizer_of(model: nn.Module, estimator: adaste.Estimator, **options) -> adaste.LatentOptimizer:
    return adaste.LatentOptimizer(adaste.binary_weights(model), base=ADAM, estimator=estimator, **options)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(16, 12, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, 3, (16,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def assert_same_weights(one: nn.Module, other: nn.Module, tolerance: float) -> None:
    for mine, its in zip(one, other, strict=True):
        if isinstance(its, nn.Linear):
            torch.testing.assert_close(as_linear(mine), its.weight, rtol=tolerance, atol=0.01 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "compiled"),
    [*((name, False) for name in SCALED), ("fan-in", True), *((name, True) for name in ("channel mean", "group mean"))],
)
def test_a_transposed_weight_is_trained_and_rounded_as_the_linear_layer_it_is(name: str, compiled: bool) -> None:
    one, other = two_forms()
    optimizers = [optimizer_of(one, SCALED[name], compile=compiled), optimizer_of(other, SCALED[name])]
    for model, optimizer in zip((one, other), optimizers, strict=True):
        train(model, optimizer, range(5))
    tolerance = 1e-5 if compiled else 1e-9  # a compiled Adam counts its steps in float32
    assert_same_weights(one, other, tolerance)
    with optimizers[0].binarized(), optimizers[1].binarized():
        assert_same_weights(one, other, tolerance)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_transposed_convolution_has_a_magnitude_for_each_of_its_outputs_in_every_group(groups: int) -> None:
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(8, 12, 3, groups=groups, bias=False)
    real = layer.weight.detach().clone()
    optimizer = optimizer_of(layer, SCALED["channel mean"])
    inputs, outputs = 8 // groups, 12 // groups
    with optimizer.binarized():
        for group in range(groups):
            rows = slice(group * inputs, (group + 1) * inputs)
            for output in range(outputs):
                wanted = real[rows, output].abs().mean().expand(inputs, 3, 3)
                torch.testing.assert_close(layer.weight[rows, output].abs(), wanted)
    layer.weight.data.copy_(real)
    fan_in = optimizer_of(layer, SCALED["fan-in"])
    with fan_in.binarized():
        wanted = torch.full_like(real, math.sqrt(2 / (inputs * 9)))
        torch.testing.assert_close(layer.weight.detach().abs(), wanted)


@pytest.mark.parametrize("groups", [1, 2])
def test_groups_of_a_transposed_convolution_hold_the_inputs_of_one_output(groups: int) -> None:
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(8, 6, (2, 1), groups=groups, bias=False)
    real = layer.weight.detach().clone()
    optimizer = optimizer_of(layer, SCALED["group mean"])
    inputs, outputs = 8 // groups, 6 // groups
    with optimizer.binarized():
        for group in range(groups):
            rows = slice(group * inputs, (group + 1) * inputs)
            for output in range(outputs):
                sizes = real[rows, output].abs().flatten()
                wanted = torch.cat([part.mean().expand(len(part)) for part in sizes.split(5)])
                torch.testing.assert_close(layer.weight[rows, output].detach().abs().flatten(), wanted)


def test_a_summary_counts_one_scale_per_output() -> None:
    for layer, outputs in ((Conv1D(16, 12), 16), (nn.ConvTranspose2d(8, 12, 3, groups=4), 12)):
        optimizer = optimizer_of(layer, SCALED["channel mean"])
        (binary,) = (each for each in adaste.inspect_model(layer, optimizer).layers if each.bits == 1)
        assert binary.packed_bytes == layer.weight.numel() / 8 + 4 * outputs


@pytest.mark.parametrize("averaging", [0.0, 0.9])
def test_training_goes_on_from_a_saved_state_to_the_last_bit(averaging: float) -> None:
    one, other = two_forms()[0], two_forms()[0]
    optimizer, resumed = (optimizer_of(model, SCALED["channel mean"], averaging=averaging) for model in (one, other))
    train(one, optimizer, range(3))
    file = io.BytesIO()
    torch.save((one.state_dict(), optimizer.state_dict()), file)
    file.seek(0)
    of_model, of_optimizer = torch.load(file, weights_only=True)
    other.load_state_dict(of_model)
    resumed.load_state_dict(of_optimizer)
    assert resumed.param_groups[0]["output_axes"] == optimizer.param_groups[0]["output_axes"]
    train(one, optimizer, range(3, 6))
    train(other, resumed, range(3, 6))
    for mine, its in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_training_goes_on_through_the_states_of_torch_distributed_checkpoint() -> None:
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    one, other = two_forms()[0], two_forms()[0]
    optimizer, resumed = (optimizer_of(model, SCALED["channel mean"]) for model in (one, other))
    train(one, optimizer, range(3))
    of_model, of_optimizer = get_state_dict(one, optimizer)
    set_state_dict(other, resumed, model_state_dict=of_model, optim_state_dict=of_optimizer)
    train(one, optimizer, range(3, 5))
    train(other, resumed, range(3, 5))
    for mine, its in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_a_state_of_weights_with_other_output_channels_is_refused() -> None:
    model = two_forms()[0]
    saved = optimizer_of(model, SCALED["channel mean"]).state_dict()
    partition = adaste.binary_weights(model)
    groups = [{**group, "output_axes": [OutputAxis()] * len(group["params"])} for group in partition]
    unaware = adaste.LatentOptimizer(groups, base=ADAM, estimator=SCALED["channel mean"])
    with pytest.raises(ValueError, match="output_axes"):
        unaware.load_state_dict(saved)


def test_a_group_added_later_has_output_axes_of_its_own() -> None:
    torch.manual_seed(0)
    late = Conv1D(5, 4)
    wanted = late.weight.detach().abs().mean(0).expand(4, 5)
    optimizer = optimizer_of(nn.Linear(3, 2), SCALED["channel mean"])
    binary, _ = adaste.binary_weights(late)
    optimizer.add_param_group(binary)
    with optimizer.binarized():
        torch.testing.assert_close(late.weight.detach().abs(), wanted)


@pytest.mark.parametrize(
    "axes", [[OutputAxis(1)], [1, 1], [OutputAxis(2), OutputAxis()], [OutputAxis(1, groups=5)] * 2]
)
def test_output_axes_that_do_not_fit_the_parameters_are_refused(axes: list) -> None:
    weights = [("first", nn.Parameter(torch.ones(4, 3))), ("second", nn.Parameter(torch.ones(4, 3)))]
    with pytest.raises(ValueError, match=r"output_axes must be|first cannot have its output channels along"):
        adaste.LatentOptimizer(
            [{"params": weights, "output_axes": axes}], base=ADAM, estimator=adaste.Scaled(adaste.BinaryConnect())
        )


def test_an_output_axis_is_checked_when_it_is_made() -> None:
    for wrong in ({"dim": -1}, {"dim": 1, "groups": 0}, {"dim": 0, "groups": 2}):
        with pytest.raises(ValueError, match=r"dim|groups"):
            OutputAxis(**wrong)


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_process_of_ddp_trains_as_one_alone(one_process: None) -> None:
    alone, model = two_forms()[0], two_forms()[0]
    wrapped = nn.parallel.DistributedDataParallel(model)
    for network, parameters in ((alone, alone), (wrapped, model)):
        train(network, optimizer_of(parameters, SCALED["channel mean"]), range(4))
    for mine, its in zip(alone.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_a_scale_of_a_shard_that_holds_a_part_of_every_channel_is_refused(one_process: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, plain = two_forms()[0], two_forms()[0]
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    for name in ("fan-in", "channel mean", "group mean", "PARQ"):
        with pytest.raises(ValueError, match=r"0\.weight has its output channels along dimension 1 and is sharded"):
            optimizer_of(model, SCALED[name])
    optimizers = [optimizer_of(network, adaste.BinaryConnect()) for network in (model, plain)]
    for network, optimizer in zip((model, plain), optimizers, strict=True):
        train(network, optimizer, range(3))
    for mine, its in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine.full_tensor(), its), "without a scale a shard is trained as the whole"


def test_a_vector_in_shards_has_no_scale_of_a_mean(one_process: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = nn.Linear(4, 3)
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    for name in ("channel mean", "group mean", "PARQ"):
        with pytest.raises(ValueError, match="bias is a sharded vector"):
            adaste.LatentOptimizer(adaste.binary_weights(model, include="*"), base=ADAM, estimator=SCALED[name])
    adaste.LatentOptimizer(adaste.binary_weights(model, include="*"), base=ADAM, estimator=SCALED["fan-in"])
