"""Training on a CUDA device: the ways to run a step, the kernels, resume, faults."""

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import adaste.training.trainer
from adaste.models import VGG, ResNet
from adaste.recipes.presets import recipe
from adaste.recipes.recipe import Recipe
from adaste.runs.run import Options, run
from adaste.training.batches import Streaming
from adaste.training.execution import algorithms
from adaste.training.records import Record
from adaste.training.trainer import DivergedError, Training
from support.small_runs import small_data, timeless

pytestmark = pytest.mark.gpu

GPU = torch.device("cuda")
DATA = small_data(train=96, test=50, side=32, channels=3)
NETWORK = VGG(stages=((64,), (64, 128)), hidden_widths=(32,))


def small(method: str = "adaste", network: Any = NETWORK, epochs: int = 3, **changes: Any) -> Recipe:
    made = recipe(f"cifar10-vgg16-{method}", epochs=epochs)
    return dataclasses.replace(made, network=network, batch=16, **{"precision": "float32", **changes})


@pytest.fixture(autouse=True)
def _exact_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """float32 means float32: by default convolutions round their inputs."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def trained(made: Recipe, engine: str, epochs: int | None = None) -> tuple[Training, list[Record]]:
    training = Training(made, DATA, device=GPU, engine=engine)
    records = []
    for record in training.run():
        records.append(record)
        if epochs is not None and len(records) == epochs:
            break
    return training, records


def weights(training: Training) -> list[Tensor]:
    return [latent.clone() for _, latent in training.optimizer.latents()]


@pytest.mark.parametrize("method", ["full-precision", "md-tanh-s"])
@pytest.mark.parametrize("network", [NETWORK, ResNet()], ids=["VGG", "ResNet"])
def test_all_ways_give_the_same_first_epochs_up_to_rounding(method: str, network: Any) -> None:
    made = small(method, network, epochs=2)
    with algorithms(deterministic=True, device=GPU):
        losses = {engine: [r.loss for r in trained(made, engine)[1]] for engine in ("eager", "compiled", "graph")}
    for engine in ("compiled", "graph"):
        first, second = losses[engine]
        assert first == pytest.approx(losses["eager"][0], rel=2e-2)
        # Rounding of another order grows from step to step.
        assert second == pytest.approx(losses["eager"][1], rel=5e-2)


def test_the_first_step_agrees_closely_in_all_ways() -> None:
    few = small_data(train=16, test=16, side=32, channels=3)
    moves: dict[str, Tensor] = {}
    for engine in ("eager", "compiled", "graph"):
        made = small("full-precision", ResNet(), epochs=1, augmentation=())
        training = Training(made, few, device=GPU, engine=engine)
        before = _flat(training.model)
        list(training.run())
        moves[engine] = _flat(training.model) - before
    # All of them together: alone, a bias before a BatchNorm moves by nothing but rounding.
    for engine in ("compiled", "graph"):
        assert (moves[engine] - moves["eager"]).norm() < 1e-2 * moves["eager"].norm()


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).clone()


def test_a_resumed_run_on_captured_steps_is_bit_identical() -> None:
    made = small("adaste-printed", ResNet(), precision="bfloat16")
    with algorithms(deterministic=True, device=GPU):
        whole, records = trained(made, "graph")
        half = Training(made, DATA, device=GPU, engine="graph")
        steps = 0

        class HaltError(Exception):
            pass

        def stop() -> None:
            nonlocal steps
            steps += 1
            if steps == 8:
                raise HaltError

        before: list[Record] = []
        with pytest.raises(HaltError):
            before.extend(half.run(stop))
        state = half.state_dict()
        resumed = Training(made, DATA, device=GPU, engine="graph")
        resumed.load_state_dict(state)
        after = list(resumed.run())
    for ours, other in zip(weights(resumed), weights(whole), strict=True):
        assert torch.equal(ours, other)
    assert timeless(after)[-1] == timeless(records)[-1]


def test_a_state_loaded_after_steps_were_captured_is_gone_on_from() -> None:
    made = small("binaryconnect", epochs=3)
    with algorithms(deterministic=True, device=GPU):
        training, _ = trained(made, "graph", epochs=1)
        state = copy.deepcopy(training.state_dict())
        first, expected = timeless(list(training.run())), weights(training)
        training.load_state_dict(state)
        assert timeless(list(training.run())) == first
    for ours, other in zip(weights(training), expected, strict=True):
        assert torch.equal(ours, other)


def test_streamed_images_train_as_resident_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    made = small(epochs=2)
    with algorithms(deterministic=True, device=GPU):
        _, resident = trained(made, "graph")
        monkeypatch.setattr(adaste.training.trainer, "choose_feed", Streaming)
        training, streamed = trained(made, "graph")
    assert isinstance(training.feed, Streaming)
    assert timeless(streamed) == timeless(resident)


def test_replayed_steps_never_wait_for_the_device() -> None:
    training = Training(small("adaste-printed-annealed", ResNet(), epochs=2), DATA, device=GPU, engine="graph")

    def strictly() -> None:
        torch.cuda.set_sync_debug_mode("error" if 4 <= training.step < training.steps_per_epoch else "default")

    try:
        records = list(training.run(strictly))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(records) == 2


def test_soft_weights_are_tested_with_statistics_of_their_own() -> None:
    training, records = trained(small("adaste-printed-annealed", ResNet(), epochs=2, norm_batches=3), "graph", epochs=1)
    assert training.optimizer.is_soft()
    assert records[0].test_loss is not None and records[0].test_loss < 1000


def test_a_diverging_run_names_epoch_step_and_parameter(tmp_path: Any) -> None:
    made = small("full-precision", NETWORK, epochs=3)
    training = Training(made, DATA, device=GPU, engine="graph")

    def poison() -> None:
        if training.epoch == 1 and training.step == 4:
            with torch.no_grad():
                next(training.model.parameters()).fill_(float("nan"))

    with pytest.raises(DivergedError, match=r"epoch 2, step 5.*weight") as caught:
        list(training.run(poison))
    assert (caught.value.epoch, caught.value.step) == (1, 4)


def test_a_run_on_the_gpu_leaves_results(tmp_path: Any) -> None:
    result = run(small(), tmp_path / "run", DATA, device=GPU, options=Options(save_every=0.5))
    again = run(small(), tmp_path / "run", DATA, device=GPU)
    assert result == again
    assert (tmp_path / "run" / "last.safetensors").exists()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("relu", "adds"), [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("shape", [(128, 64, 32), (128, 512, 4), (7, 128, 9), (1, 192, 2)], ids=str)
def test_the_fused_norm_is_batch_norm_residual_and_relu(
    dtype: torch.dtype, relu: bool, adds: bool, shape: tuple[int, int, int]
) -> None:
    from adaste.models.kernels.norm import FastNorm
    from adaste.models.networks import Norm

    count, channels, side = shape

    def images(seed: int) -> Tensor:
        generator = torch.Generator(GPU).manual_seed(seed)
        values = torch.randn(count, channels, side, side, generator=generator, device=GPU) * 3 + 2
        return values.to(dtype).contiguous(memory_format=torch.channels_last)

    for users in (1, 2):
        layer = Norm(nn.BatchNorm2d(channels, momentum=0.2, affine=False), relu=relu, users=users).to(GPU)
        plain = nn.BatchNorm2d(channels, momentum=0.2, affine=False).to(GPU)
        layer.faster = FastNorm(GPU)
        x, residual = images(0).requires_grad_(), images(1).requires_grad_() if adds else None
        results = layer(x, residual)
        results = results if isinstance(results, tuple) else (results,)
        assert len(results) == users
        expected = plain(x.float()) + (residual.float() if residual is not None else 0)
        expected = F.relu(expected) if relu else expected
        tolerance = {torch.float32: 2e-5, torch.bfloat16: 2e-2}[dtype]
        torch.testing.assert_close(results[0].float(), expected, rtol=tolerance, atol=tolerance)
        gradients = [images(2 + user) for user in range(users)]
        leaves = [x] if residual is None else [x, residual]
        ours = torch.autograd.grad(results, leaves, gradients)
        total = torch.stack([gradient.float() for gradient in gradients]).sum(0)
        for mine, theirs in zip(ours, torch.autograd.grad(expected, leaves, total), strict=True):
            # Where an output is zero up to rounding, the two may disagree on whether the ReLU lets a gradient pass.
            apart = (mine.float() - theirs.float()).abs() > 10 * tolerance * (1 + theirs.float().abs())
            assert apart.float().mean() < 1e-3
        for name in ("running_mean", "running_var"):
            torch.testing.assert_close(getattr(layer.batch_norm, name), getattr(plain, name), rtol=1e-4, atol=1e-4)
        layer.eval()
        plain.eval()
        frozen = plain(x.float()) + (residual.float() if residual is not None else 0)
        frozen = F.relu(frozen) if relu else frozen
        torch.testing.assert_close(layer(x, residual).float(), frozen, rtol=tolerance, atol=tolerance)


def test_weight_gradients_beside_the_backward_pass_are_the_usual_ones() -> None:
    from adaste.models.kernels.side_stream import SideStream
    from adaste.models.networks import Convolution

    for channels, stride, kernel in [(3, 1, 3), (64, 2, 3), (64, 2, 1), (16, 1, 3)]:
        layer = Convolution(channels, 64, kernel, stride=stride, padding=kernel // 2, bias=False).to(GPU)
        layer = layer.to(memory_format=torch.channels_last)
        x = torch.randn(8, channels, 16, 16, device=GPU).contiguous(memory_format=torch.channels_last).requires_grad_()
        y = layer(x)
        dy = torch.randn_like(y)
        dx, dw = torch.autograd.grad(y, (x, layer.weight), dy)
        side_stream = SideStream(GPU)
        layer.faster = side_stream.convolution
        again = layer(x)
        torch.testing.assert_close(again, y, rtol=1e-3, atol=1e-3)
        (ours,) = torch.autograd.grad(again, x, dy)
        side_stream.join()
        torch.testing.assert_close(ours, dx, rtol=1e-3, atol=1e-3)
        assert layer.weight.grad is not None and layer.weight.grad.stride() == layer.weight.stride()
        torch.testing.assert_close(layer.weight.grad, dw, rtol=1e-2, atol=1e-2)


def test_a_weight_gradient_that_fails_does_not_spoil_the_capture_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from adaste.models.kernels.side_stream import SideStream

    def failing(dy: Tensor, *others: Any, **settings: Any) -> Any:
        dy.add(1)  # the other stream has begun
        raise InterruptedError

    monkeypatch.setattr("adaste.models.kernels.side_stream._backward", failing)
    side_stream, images = SideStream(GPU), torch.ones(8, 8, 4, 4, device=GPU)
    weight = nn.Parameter(torch.ones(8, 8, 1, 1, device=GPU))
    # A stream that is not joined would be the error that is seen.
    with pytest.raises(InterruptedError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        try:
            images.add_(1)
            side_stream.weight_gradient(images, images, weight, (1, 1), (0, 0))
        finally:
            side_stream.join()
