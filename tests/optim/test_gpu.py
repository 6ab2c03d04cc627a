"""On a CUDA device: no step waits for the host, a CUDA graph holds a step, bad gradients are masked and reported."""

import copy
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import adaste
from adaste import AdaSTE, FullPrecision, Geometric, LatentOptimizer
from support.methods import METHODS, Method, every_method, latents, small_model

pytestmark = pytest.mark.gpu


def cuda_model(seed: int = 0) -> nn.Module:
    return small_model(seed).cuda()


def cuda_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 + step)
    labels = torch.randint(0, 3, (16,), generator=generator)
    return torch.randn(16, 12, generator=generator).cuda(), labels.cuda()


def gradients(model: nn.Module, step: int) -> None:
    inputs, labels = cuda_batch(step)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    F.cross_entropy(model(inputs), labels).backward()


@every_method
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_no_step_waits_for_the_host(method: Method, compiled: bool) -> None:
    model = cuda_model()
    optimizer = method.optimizer(model, compile=compiled)
    for step in range(3):
        gradients(model, step)
        optimizer.step()
    gradients(model, 3)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert optimizer.steps == 6


@every_method
def test_the_device_trains_as_the_cpu_does(method: Method) -> None:
    device, host = cuda_model().double(), small_model().double()
    optimizer_device, optimizer_host = method.optimizer(device), method.optimizer(host)
    for step in range(4):
        inputs, labels = cuda_batch(step)
        for model, optimizer, place in ((device, optimizer_device, "cuda"), (host, optimizer_host, "cpu")):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs.double().to(place)), labels.to(place)).backward()
            optimizer.step()
    for one, other in zip(latents(optimizer_device), latents(optimizer_host), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-7 * float(other.detach().abs().max()))


@every_method
def test_a_captured_step_equals_the_reference(method: Method) -> None:
    """The graph must see lr, mu, the step count and new random numbers at every replay."""
    if method.base.func is not torch.optim.SGD:
        method = Method(method.estimator, partial(method.base, capturable=True), method.averaging)
    captured, plain = cuda_model(), cuda_model()
    optimizer, reference = method.optimizer(captured, compile=True), method.optimizer(plain)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.9) for each in (optimizer, reference)]

    def follow(step: int) -> None:
        gradients(plain, step)
        for own, given in zip(captured.parameters(), plain.parameters(), strict=True):
            own.grad = given.grad.clone() if own.grad is None else own.grad.copy_(given.grad)

    stream = torch.cuda.Stream()
    for step in range(3):
        follow(step)
        reference.step()
        stream.wait_stream(torch.cuda.current_stream())  # for the gradients
        with torch.cuda.stream(stream):
            optimizer.step()
        torch.cuda.synchronize()
    follow(3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    for step in range(3, 8):
        follow(step)
        graph.replay()
        reference.step()
        for scheduler in schedulers:
            scheduler.step()
    assert optimizer.steps == reference.steps == 8
    for one, other in zip(latents(optimizer), latents(reference), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.detach().abs().max()) + 1e-12)


def step_as(way: str, optimizer: LatentOptimizer, parameter: nn.Parameter, steps: int) -> Iterator[int]:
    """So many steps with the gradient the parameter has; between them the caller looks on.

    Captured, all but the first three are replays of a CUDA graph.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    for step in range(steps):
        yield step
        torch.cuda.synchronize()
        if way == "captured" and step == 3:
            with torch.cuda.graph(graph):
                optimizer.step()
        if way == "captured" and step >= 3:
            graph.replay()
        else:
            with torch.cuda.stream(stream):
                optimizer.step()
        torch.cuda.synchronize()


every_way = pytest.mark.parametrize("way", ["eager", "compiled", "captured"])


@every_way
@pytest.mark.parametrize(
    "estimator", [AdaSTE(), AdaSTE(slope=adaste.ExactSlope()), adaste.FiniteDifference()], ids=lambda one: str(one)[:30]
)
def test_latents_of_zero_and_gradients_whose_product_with_them_underflows_move(
    way: str, estimator: adaste.Estimator
) -> None:
    start = torch.tensor([[0.0, 0.0, 1e-30, -1e-30, 1e-30, -1e-30]], device="cuda")
    grad = torch.tensor([[1.0, -1.0, 1e-30, -1e-30, -1e-30, 1e-30]], device="cuda")
    parameter = nn.Parameter(start.clone())
    base = partial(torch.optim.SGD, lr=0.5)
    optimizer = LatentOptimizer([parameter], base=base, estimator=estimator, compile=way != "eager")
    latent = optimizer.state[parameter]["latent"].detach()
    parameter.grad = grad.clone()
    expected = start - 0.5 * grad * torch.tensor([[1, 0, 1, 1, 0, 0]], device="cuda")
    for step in step_as(way, optimizer, parameter, 6):
        if step:
            torch.testing.assert_close(latent, expected, rtol=1e-6, atol=0.0)
        latent.copy_(start)
        parameter.grad.copy_(grad)
    torch.testing.assert_close(latent, expected, rtol=1e-6, atol=0.0)


@every_way
def test_scaled_mirror_descent_takes_its_scale_from_dual_points_inside_their_reach(way: str) -> None:
    beta, rate, reach = 20.0, 0.01, adaste.TanhMirror.reach
    start = torch.linspace(-1.5, 1.5, 12).view(3, 4)
    start[1, 2], start[2, 0] = 20.0, -30.0
    inner = adaste.MirrorDescent(stable=False, beta=beta, absorbing=True)
    parameter = nn.Parameter(start.cuda())
    base = partial(torch.optim.SGD, lr=rate)
    estimator = adaste.Scaled(inner, adaste.ChannelMean())
    optimizer = LatentOptimizer([parameter], base=base, estimator=estimator, compile=way != "eager")
    dual, absorbed = start.double(), start.abs() >= reach
    parameter.grad = torch.empty_like(parameter)
    for step in step_as(way, optimizer, parameter, 8):
        size = dual.clamp(-reach, reach).abs().mean(dim=1, keepdim=True)
        torch.testing.assert_close(parameter.detach().cpu().double(), size * torch.tanh(dual), rtol=1e-4, atol=1e-5)
        grad = torch.sin(torch.arange(12.0) + step).view(3, 4)
        parameter.grad.copy_(grad)
        dual = torch.where(absorbed, dual, dual - beta * rate * size * grad)
    with optimizer.binarized():
        assert parameter.detach().abs().max() < reach


def test_a_learning_rate_set_by_hand_reaches_a_captured_step() -> None:
    model = cuda_model()
    base = partial(torch.optim.SGD, lr=0.1)
    optimizer = LatentOptimizer(adaste.binary_weights(model), base=base, estimator=FullPrecision(), compile=True)
    gradients(model, 0)
    for _ in range(3):
        optimizer.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    before = [latent.detach().clone() for latent in latents(optimizer)]
    graph.replay()
    for one, other in zip(latents(optimizer), before, strict=True):
        assert torch.equal(one, other)


def test_a_graph_may_hold_weights_that_are_changed_and_put_back() -> None:
    model = cuda_model()
    optimizer = METHODS["BinaryConnect"].optimizer(model, compile=True)
    gradients(model, 0)
    for _ in range(3):
        optimizer.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        model[0].weight.add_(1.0).sub_(1.0)
        optimizer.step()
    graph.replay()
    assert optimizer.steps == 4


def test_a_graph_of_an_eager_step_writes_into_no_memory_that_others_use() -> None:
    model = cuda_model()
    base = partial(torch.optim.SGD, lr=0.1, fused=True)
    optimizer = LatentOptimizer(adaste.binary_weights(model), base=base, estimator=AdaSTE(), capturable=True)
    gradients(model, 0)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            optimizer.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    kept, model[0].weight.grad = model[0].weight.grad, None
    optimizer.step()  # of other parameters: what the steps before knew is given up
    model[0].weight.grad = kept
    others = [torch.zeros(8, dtype=torch.uint8, device="cuda") for _ in range(10_000)]
    graph.replay()
    torch.cuda.synchronize()
    assert optimizer.steps == 5
    assert not torch.cat(others).any()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["full precision", "AdaSTE, annealed", "MD-tanh", "BinaryConnect"])
def test_a_poisoned_gradient_leaves_its_latent_and_is_reported(name: str, compiled: bool) -> None:
    model = cuda_model()
    optimizer = METHODS[name].optimizer(model, compile=compiled)
    for step in range(3):
        gradients(model, step)
        optimizer.step()
    before = [latent.detach().clone() for latent in latents(optimizer)]
    gradients(model, 3)
    model[2].weight.grad[1, 1] = float("nan")
    optimizer.step()
    assert torch.isfinite(torch.cat([latent.detach().flatten() for latent in latents(optimizer)])).all()
    moved = {
        name: not torch.equal(old, optimizer.state[weight]["latent"])
        for old, (name, weight) in zip(
            before,
            [pair for group in adaste.binary_weights(model) for pair in group["params"]],
            strict=True,
        )
    }
    assert not moved["2.weight"] and moved["0.weight"]
    with pytest.raises(adaste.NonFiniteGradientError, match=r"2\.weight"):
        optimizer.check_gradients()
    gradients(model, 4)
    optimizer.step()  # the news was told once; training can go on
    optimizer.check_gradients()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_state_that_is_loaded_leaves_poisoned_gradients_behind(compiled: bool) -> None:
    model = cuda_model()
    optimizer = METHODS["AdaSTE"].optimizer(model, compile=compiled)
    gradients(model, 0)
    optimizer.step()
    state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    model[0].weight.grad[0, 0] = float("nan")
    optimizer.step()
    model.load_state_dict(state[0])
    optimizer.load_state_dict(state[1])
    for step in range(1, 4):
        gradients(model, step)
        optimizer.step()
        torch.cuda.synchronize()
    optimizer.check_gradients()


def test_a_poisoned_gradient_is_reported_by_a_later_step_without_being_asked() -> None:
    model = cuda_model()
    optimizer = METHODS["AdaSTE"].optimizer(model)
    gradients(model, 0)
    model[0].weight.grad[0, 0] = float("inf")
    with pytest.raises(adaste.NonFiniteGradientError, match=r"0\.weight"):
        for step in range(1, 50):
            optimizer.step()
            torch.cuda.synchronize()
            gradients(model, step)


@pytest.mark.parametrize(
    "base",
    [
        partial(torch.optim.SGD, lr=0.1, momentum=0.9, fused=True),
        partial(torch.optim.Adam, lr=0.01, foreach=True),
        partial(torch.optim.AdamW, lr=0.01, fused=True),
    ],
)
def test_full_precision_is_bit_identical_to_the_base_optimizer_alone(base) -> None:
    through, alone = cuda_model(), cuda_model()
    optimizer = LatentOptimizer(adaste.binary_weights(through), base=base, estimator=FullPrecision())
    reference = base(alone.parameters())
    for step in range(4):
        gradients(through, step)
        gradients(alone, step)
        optimizer.step()
        reference.step()
    for one, other in zip(through.parameters(), alone.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_resumed_run_is_bit_identical() -> None:
    def make(model: nn.Module) -> LatentOptimizer:
        estimator = AdaSTE(mu=Geometric(start=1.0, stop=100.0, length=10))
        base = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
        return LatentOptimizer(
            adaste.binary_weights(model), base=base, estimator=estimator, averaging=0.9, compile=True
        )

    def advance(model: nn.Module, optimizer: LatentOptimizer, steps: range) -> None:
        for step in steps:
            gradients(model, step)
            optimizer.step()

    model, other = cuda_model(), cuda_model(seed=9)
    optimizer, resumed = make(model), make(other)
    advance(model, optimizer, range(4))
    state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    advance(model, optimizer, range(4, 8))
    other.load_state_dict(state[0])
    resumed.load_state_dict(state[1])
    advance(other, resumed, range(4, 8))
    for one, two in zip(latents(optimizer), latents(resumed), strict=True):
        assert torch.equal(one, two)
