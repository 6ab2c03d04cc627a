"""A step works on blocks of elements, and computes to the bit what is defined for one parameter after the other."""

import copy
import itertools
from contextlib import nullcontext
from functools import partial
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import adaste
from adaste import AdaSTE, BinaryConnect, FullPrecision, LatentOptimizer
from adaste.estimators import ChannelMean, FanIn, PrintedSlope, Scaled
from adaste.estimators.base import OutputAxis
from adaste.estimators.noise import Noise
from adaste.optim import step as step_module
from support.literal_step import bits, taken_literally
from support.methods import Method, every_method

SHAPES = [(5, 3, 3, 3), (40, 11), (), (17,), (64, 7), (3, 100, 2), (1, 1), (9, 4, 1, 1)]
"""With blocks of 256 elements: some of them lie together in a block, others in several."""


@pytest.fixture(autouse=True, params=["CPU", "GPU"])
def blocks(request, monkeypatch) -> None:
    """Blocks of a few elements, as a CPU has them, or as large as on a GPU."""
    monkeypatch.setattr(step_module, "SMALL", 256 if request.param == "CPU" else 2**24)


def parameters(dtypes: list[torch.dtype], channels_last: bool = False, device: str = "cpu") -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    made = []
    for shape, dtype in zip(SHAPES, itertools.cycle(dtypes), strict=False):
        weight = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        if channels_last and weight.dim() == 4:
            weight = weight.contiguous(memory_format=torch.channels_last)
        made.append(nn.Parameter(weight.to(device)))
    return made


def give_gradients(weights: list[nn.Parameter], step: int, without: int | None = None) -> None:
    generator = torch.Generator().manual_seed(step)
    for place, weight in enumerate(weights):
        grad = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight.dtype)
        weight.grad = None if place == without else torch.empty_like(weight).copy_(grad)


def assert_steps_are_literal(make, dtypes=(torch.float32,), *, without=None, channels_last=False, device="cpu") -> None:
    runs = []
    for literal in (False, True):
        weights = parameters(list(dtypes), channels_last, device)
        optimizer = make(weights)
        for step in range(4):
            give_gradients(weights, step, without if step % 2 else None)
            if literal:
                with taken_literally():
                    optimizer.step()
            else:
                optimizer.step()
        runs.append(bits(optimizer))
    for ours, wanted in zip(*runs, strict=True):
        assert torch.equal(ours, wanted)


TYPES = [(torch.float32,), (torch.float32, torch.float64, torch.bfloat16, torch.float16)]


@every_method
@pytest.mark.parametrize("averaging", [0.0, 0.9])
@pytest.mark.parametrize("dtypes", TYPES, ids=["float32", "mixed"])
def test_every_method_computes_what_its_definition_says(method: Method, averaging: float, dtypes) -> None:
    # To the bit with any base: it sees the same latents and gradients, one parameter at a time.
    assert_steps_are_literal(
        partial(LatentOptimizer, base=method.base, estimator=method.estimator, averaging=averaging),
        dtypes,
        without=3,
    )


@pytest.mark.gpu
@every_method
@pytest.mark.parametrize("averaging", [0.0, 0.9])
def test_every_method_computes_on_a_gpu_what_its_definition_says(method: Method, averaging: float) -> None:
    assert_steps_are_literal(
        partial(LatentOptimizer, base=method.base, estimator=method.estimator, averaging=averaging),
        TYPES[1],
        without=3,
        device="cuda",
    )


@every_method
def test_memory_format_changes_no_bit(method: Method) -> None:
    assert_steps_are_literal(
        partial(LatentOptimizer, base=method.base, estimator=method.estimator, averaging=0.9), channels_last=True
    )


def test_groups_have_their_own_methods_and_axes_and_averages_may_follow_a_schedule() -> None:
    rate = adaste.Geometric(start=0.5, stop=0.99, length=4)
    scheduled = AdaSTE(mu=adaste.Geometric(start=1.0, stop=100.0, length=3))

    def make(weights: list[nn.Parameter]) -> LatentOptimizer:
        groups = [
            {"params": weights[:2], "averaging": rate, "output_axes": [OutputAxis(1), OutputAxis(1)]},
            {"params": weights[2:5], "estimator": FullPrecision()},
            {"params": weights[5:7], "estimator": Scaled(BinaryConnect(), ChannelMean()), "averaging": 0.5},
            {"params": weights[7:], "estimator": Scaled(AdaSTE(), FanIn()), "lr": 0.01},
        ]
        return LatentOptimizer(groups, base=partial(torch.optim.AdamW, lr=0.1), estimator=Scaled(scheduled, FanIn()))

    assert_steps_are_literal(make, TYPES[1], without=1)


@pytest.mark.parametrize("averaging", [0.0, 0.9])
@pytest.mark.parametrize("estimator", [AdaSTE(), Scaled(AdaSTE(), FanIn()), adaste.PMF(), FullPrecision()], ids=str)
def test_a_gradient_that_is_not_finite_leaves_its_parameter_alone(estimator, averaging) -> None:
    """What a GPU does, on the CPU: the largest |g| is in a parameter's part of the step."""

    def make(weights: list[nn.Parameter]) -> LatentOptimizer:
        made = LatentOptimizer(
            weights, base=partial(torch.optim.SGD, lr=0.1, momentum=0.9), estimator=estimator, averaging=averaging
        )
        made._guard.inspect = inspect
        return made

    def inspect(grads: list[Tensor], slots: list[int], names: list[str]) -> list[Tensor]:
        grads[1][0, 0] = float("nan")
        return [grad.abs().amax() for grad in grads]

    assert_steps_are_literal(make)
    weights = parameters([torch.float32])
    optimizer = make(weights)
    before = [optimizer.state[weight]["latent"].detach().clone() for weight in weights]
    give_gradients(weights, 0)
    optimizer.step()
    moved = [not torch.equal(optimizer.state[each]["latent"], old) for each, old in zip(weights, before, strict=True)]
    assert moved == [place != 1 for place in range(len(SHAPES))]


@pytest.mark.parametrize("base", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_states_that_are_loaded_copied_or_replaced_are_those_of_the_next_step(base) -> None:
    def run(optimizer: LatentOptimizer, weights: list[nn.Parameter], start: int) -> list[Tensor]:
        for step in range(start, start + 2):
            give_gradients(weights, step)
            optimizer.step()
        return bits(optimizer)

    def make() -> tuple[LatentOptimizer, list[nn.Parameter]]:
        weights = parameters([torch.float32])
        return LatentOptimizer(weights, base=partial(base, lr=0.1), estimator=AdaSTE(), averaging=0.9), weights

    optimizer, weights = make()
    run(optimizer, weights, 0)
    saved = copy.deepcopy(optimizer.state_dict())
    networks = [weight.detach().clone() for weight in weights]
    wanted = run(optimizer, weights, 2)
    for change in ("other", "same", "copied"):
        if change == "other":
            optimizer, weights = make()
        for weight, kept in zip(weights, networks, strict=True):
            weight.data = kept.clone()  # the memory is another one
        optimizer.load_state_dict(saved)
        if change == "copied":
            pair = copy.deepcopy((optimizer, weights))
            optimizer, weights = pair
        for ours, known in zip(run(optimizer, weights, 2), wanted, strict=True):
            assert torch.equal(ours, known)


@pytest.mark.parametrize("moved", ["weight", "order", "latent", "state"])
def test_tensors_that_move_between_steps_are_found_again(moved: str) -> None:
    def move(optimizer: LatentOptimizer, weight: nn.Parameter) -> None:
        state = optimizer.state[weight]
        if moved == "weight":
            weight.data = weight.data.clone()
        elif moved == "order" and weight.dim() == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        elif moved == "latent":
            state["latent"].data = state["latent"].data.clone()
        elif moved == "state":
            state["average"] = state["average"].clone()

    runs = []
    for moves in (False, True):
        weights = parameters([torch.float32])
        optimizer = LatentOptimizer(
            weights, base=partial(torch.optim.SGD, lr=0.1), estimator=AdaSTE(mu=0.5), averaging=0.9
        )
        for step in range(6):
            give_gradients(weights, step)
            optimizer.step()
            for weight in weights if moves and step % 2 else []:
                move(optimizer, weight)
        runs.append(bits(optimizer))
    for ours, wanted in zip(*runs, strict=True):
        assert torch.equal(ours, wanted)


def test_weights_that_change_their_type_between_steps_are_computed_in_it() -> None:
    runs = []
    for literal in (False, True):
        weights = parameters([torch.float32])
        optimizer = LatentOptimizer(weights, base=partial(torch.optim.SGD, lr=0.1), estimator=AdaSTE(mu=0.5))
        for step, dtype in enumerate((torch.float32, torch.bfloat16, torch.float64, torch.float32)):
            for weight in weights:
                weight.grad = None
                weight.data = weight.data.to(dtype)
            give_gradients(weights, step)
            with taken_literally() if literal else nullcontext():
                optimizer.step()
        runs.append(bits(optimizer))
    for ours, wanted in zip(*runs, strict=True):
        assert torch.equal(ours, wanted)


def test_the_memory_of_the_base_has_the_order_of_the_latents() -> None:
    class Reordered(BinaryConnect):
        def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
            return grad.contiguous()

    weight = nn.Parameter(torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last))
    optimizer = LatentOptimizer([weight], base=partial(torch.optim.SGD, lr=0.1, momentum=0.9), estimator=Reordered())
    give_gradients([weight], 0)
    optimizer.step()
    (kept,) = optimizer.base.state.values()
    assert kept["momentum_buffer"].stride() == optimizer.state[weight]["latent"].stride() == weight.stride()


def test_the_gradient_of_the_network_is_left_as_it_was() -> None:
    weights = parameters([torch.float32])
    optimizer = LatentOptimizer(
        weights, base=partial(torch.optim.SGD, lr=0.1, weight_decay=0.1, maximize=True), estimator=FullPrecision()
    )
    for step in range(3):
        give_gradients(weights, step)
        before = [weight.grad.clone() for weight in weights]
        optimizer.step()
        assert all(torch.equal(weight.grad, old) for weight, old in zip(weights, before, strict=True))


def test_an_estimator_that_does_not_say_that_it_is_element_wise_sees_whole_weights() -> None:
    class Centred(BinaryConnect):
        def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
            assert tuple(grad.shape) in SHAPES
            return grad - latent.mean()

    assert_steps_are_literal(partial(LatentOptimizer, base=partial(torch.optim.SGD, lr=0.1), estimator=Centred()))


@pytest.mark.parametrize("estimator", [AdaSTE(), Scaled(BinaryConnect(), FanIn())], ids=str)
def test_estimators_of_this_package_take_blocks(estimator) -> None:
    assert estimator.takes_blocks


def test_a_part_that_is_not_element_wise_keeps_the_whole_from_blocks() -> None:
    class Centred(BinaryConnect): ...

    assert not Scaled(Centred(), FanIn()).takes_blocks
    assert not Scaled(BinaryConnect(), ChannelMean()).takes_blocks
    assert not BinaryConnect(noise=Noise(0)).takes_blocks


class Moving(torch.optim.SGD):
    """A base that gives its parameters other memory, and keeps the gradients it was given."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    before = self.state[p].get("before")
                    p.data = p.data - group["lr"] * (p.grad if before is None else p.grad + 0.5 * before)
                    self.state[p]["before"] = p.grad


@pytest.mark.parametrize("estimator", [AdaSTE(), BinaryConnect()], ids=str)
@pytest.mark.parametrize("shape", [(8, 8), (600, 600)], ids=str)
def test_a_base_may_move_its_parameters_and_keep_their_gradients(shape, estimator) -> None:
    outcomes = []
    for literally in (False, True):
        torch.manual_seed(0)
        weights = [nn.Parameter(torch.randn(shape)), nn.Parameter(torch.randn(3, 7))]
        optimizer = LatentOptimizer(weights, base=partial(Moving, lr=0.5), estimator=estimator)
        with taken_literally() if literally else nullcontext():
            for step in range(4):
                give_gradients(weights, step)
                optimizer.step()
        outcomes.append([*weights, *(latent.clone() for _, latent in optimizer.latents())])
    assert all(map(torch.equal, *outcomes))


def test_gradients_of_a_step_that_failed_are_not_those_of_the_next() -> None:
    class Failing(torch.optim.SGD):
        fails = True

        def step(self, closure=None):
            if self.fails:
                raise RuntimeError("no step")
            return super().step(closure)

    weights = parameters([torch.float32])
    optimizer = LatentOptimizer(weights, base=partial(Failing, lr=0.1), estimator=AdaSTE())
    latent = optimizer.state[weights[0]]["latent"].detach()
    before = latent.clone()
    give_gradients(weights, 0)
    with pytest.raises(RuntimeError, match="no step"):
        optimizer.step()
    optimizer.base.fails = False
    give_gradients(weights, 1, without=0)
    optimizer.step()
    assert torch.equal(latent, before)


def test_parts_of_methods_that_look_at_whole_weights_see_them() -> None:
    class Normed(PrintedSlope):
        def gradient(self, grad, latent, well):
            return super().gradient(grad / grad.abs().mean(), latent, well)

    class Measured(FanIn):
        def of(self, position):
            return position.abs().mean()

    assert not AdaSTE(slope=Normed()).takes_blocks
    assert not Scaled(BinaryConnect(), Measured()).takes_blocks


class Launches(TorchDispatchMode):
    """Counts operators that are kernels, as a GPU would launch them: not those that make or compare views, or reserve
    memory.
    """

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        launches_none = name.startswith("profiler") or "empty" in name or "split" in name or "is_set_to" in name
        self.count += not (func.is_view or launches_none)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("estimator", [AdaSTE(), Scaled(AdaSTE(), FanIn())], ids=str)
def test_a_gpu_launches_few_kernels_however_many_parameters_there_are(estimator) -> None:
    counts = []
    for number in (5, 50):
        weights = [nn.Parameter(torch.randn(4, 2 + place % 3)) for place in range(number)]
        base = partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=True)
        optimizer = LatentOptimizer(weights, base=base, estimator=estimator)
        optimizer._guard.inspect = lambda grads, slots, names: list(torch._foreach_norm(grads, float("inf")))
        for step in range(2):
            give_gradients(weights, step)
            with Launches() as launches, mock.patch.object(step_module, "SMALL", step_module.LARGE):
                optimizer.step()
        counts.append(launches.count)
    assert counts[0] == counts[1] < 48


def test_a_step_of_many_parameters_takes_few_calls_of_an_estimator() -> None:
    calls = []

    class Counted(BinaryConnect):
        elementwise = True

        def gradient(self, grad: Tensor, latent: Tensor, weight: Tensor) -> Tensor:
            calls.append(grad.numel())
            return grad

    weights = [nn.Parameter(torch.randn(2, 2)) for _ in range(40)]
    optimizer = LatentOptimizer(weights, base=partial(torch.optim.SGD, lr=0.1), estimator=Counted())
    give_gradients(weights, 0)
    optimizer.step()
    assert calls == [160]
