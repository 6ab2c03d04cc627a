"""LatentOptimizer is a torch optimizer: what users and torch's own tools expect of one."""

import copy
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import adaste
from adaste import AdaSTE, BinaryConnect, FullPrecision, Geometric, LatentOptimizer, Linear, StraightThrough
from support.latent_optimizers import SGD, make
from support.methods import batch, latents, small_model, train


def test_averaging_shows_the_estimator_an_unbiased_exponential_average() -> None:
    weight = nn.Parameter(torch.zeros(3, 2))
    rate, lr = 0.9, 0.1
    optimizer = LatentOptimizer(
        [weight], base=partial(torch.optim.SGD, lr=lr), estimator=FullPrecision(), averaging=rate
    )
    expected, total, mass = torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, 2, dtype=torch.float64), 0.0
    for step in range(10):
        weight.grad = torch.randn(3, 2, generator=torch.Generator().manual_seed(step))
        total = rate * total + (1 - rate) * weight.grad.double()
        mass = rate * mass + (1 - rate)
        expected -= lr * total / mass
        optimizer.step()
    torch.testing.assert_close(weight.double(), expected, rtol=1e-5, atol=1e-6)


def test_the_rate_of_the_average_may_follow_a_schedule() -> None:
    weight = nn.Parameter(torch.zeros(1, 1))
    schedule = Linear(start=0.0, stop=0.5, length=2)
    optimizer = LatentOptimizer(
        [weight], base=partial(torch.optim.SGD, lr=1.0), estimator=FullPrecision(), averaging=schedule
    )
    seen, rates, grads = [], [0.0, 0.25, 0.5], [4.0, 8.0, 2.0]
    for grad in grads:
        before = float(weight.detach())
        weight.grad = torch.full((1, 1), grad)
        optimizer.step()
        seen.append(before - float(weight.detach()))
    average, mass, expected = 0.0, 0.0, []
    for rate, grad in zip(rates, grads, strict=True):
        mass = rate * mass + 1 - rate
        average += (grad - average) * (1 - rate) / mass
        expected.append(average)
    assert seen == pytest.approx(expected)


def test_groups_have_their_own_settings_and_estimators() -> None:
    model = small_model()
    optimizer = LatentOptimizer(
        [
            {"params": [model[0].weight], "estimator": AdaSTE(), "averaging": 0.9, "lr": 1.0},
            {"params": [model[2].weight], "momentum": 0.0},
            {"params": [model[0].bias, model[2].bias], "estimator": FullPrecision(), "lr": 0.01},
        ],
        base=SGD,
        estimator=BinaryConnect(),
    )
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.1, 0.01]
    train(model, optimizer, range(2))
    assert "average" in optimizer.state[model[0].weight]
    assert "average" not in optimizer.state[model[2].weight]
    momenta = [optimizer.base.state[latent].get("momentum_buffer") is not None for latent in latents(optimizer)]
    assert momenta == [True, False, True, True]
    assert set(model[2].weight.unique().tolist()) == {-1.0, 1.0}
    assert len(model[0].bias.unique()) > 2


def test_a_group_can_be_added_later() -> None:
    model = small_model()
    optimizer = LatentOptimizer(
        [model[0].weight], base=SGD, estimator=AdaSTE(mu=Geometric(start=1, stop=100, length=9))
    )
    train(model, optimizer, range(2))
    optimizer.add_param_group({"params": model[2].weight, "estimator": BinaryConnect(), "lr": 0.5})
    assert set(model[2].weight.unique().tolist()) == {-1.0, 1.0}
    before = latents(optimizer)[1].detach().clone()
    train(model, optimizer, range(2, 4))
    assert not torch.equal(before, latents(optimizer)[1])
    assert [group["lr"] for group in optimizer.base.param_groups] == [0.1, 0.5]


def test_gradient_clipping_sees_the_gradient_of_the_weights() -> None:
    model = small_model()
    optimizer = make(model, StraightThrough(), base=partial(torch.optim.SGD, lr=1.0))
    before = [latent.detach().clone() for latent in latents(optimizer)]
    inputs, labels = batch(0)
    F.cross_entropy(model(inputs), labels).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    optimizer.step()
    moved = torch.cat([(one - two).flatten() for one, two in zip(before, latents(optimizer), strict=True)])
    assert float(moved.detach().norm()) == pytest.approx(1e-3, rel=1e-2)


def test_a_grad_scaler_unscales_first_and_skips_what_overflowed() -> None:
    model, plain = small_model(), small_model()
    optimizer, unscaled = make(model, AdaSTE()), make(plain, AdaSTE())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(3):
        inputs, labels = batch(step)
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(inputs), labels)).backward()
        scaler.step(optimizer)
        scaler.update()
        train(plain, unscaled, range(step, step + 1))
    for one, other in zip(latents(optimizer), latents(unscaled), strict=True):
        torch.testing.assert_close(one, other)
    optimizer.zero_grad()
    scaler.scale(F.cross_entropy(model(inputs), labels)).backward()
    model[0].weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    assert optimizer.steps == 3


def test_large_finite_gradients_are_not_taken_for_infinite() -> None:
    model = nn.Linear(64, 64, bias=False)
    optimizer = make(model)
    model.weight.grad = torch.full_like(model.weight, 3e38)
    optimizer.step()
    assert optimizer.steps == 1


def test_a_step_without_any_gradient_only_counts() -> None:
    model = small_model()
    optimizer = make(model, compile=True)
    before = [latent.detach().clone() for latent in latents(optimizer)]
    optimizer.step()
    assert optimizer.steps == 1
    assert all(torch.equal(one, two) for one, two in zip(before, latents(optimizer), strict=True))


def test_the_closure_is_called_with_gradients_and_its_loss_returned() -> None:
    model = small_model()
    optimizer = make(model)
    inputs, labels = batch(0)

    def closure() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) > 0
    assert optimizer.steps == 1


def test_weights_in_bfloat16_keep_float32_latents() -> None:
    model = small_model().to(torch.bfloat16)
    optimizer = make(model, AdaSTE(), averaging=0.9)
    train(model, optimizer, range(3), dtype=torch.bfloat16)
    assert {latent.dtype for latent in latents(optimizer)} == {torch.float32}
    assert model[0].weight.dtype == torch.bfloat16
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert {latent.dtype for latent in latents(optimizer)} == {torch.float32}


def test_channels_last_weights_train_as_contiguous_ones() -> None:
    torch.manual_seed(0)
    plain = nn.Conv2d(8, 4, 3)
    model = copy.deepcopy(plain).to(memory_format=torch.channels_last)
    for net in (plain, model):
        optimizer = make(net, BinaryConnect(noise=adaste.Noise(3)), base=partial(torch.optim.SGD, lr=5.0))
        for step in range(3):
            optimizer.zero_grad()
            net(torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(step))).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(model.weight, plain.weight)
    assert model.weight.is_contiguous(memory_format=torch.channels_last)


def test_binarized_may_nest_and_refuses_a_step() -> None:
    model = small_model()
    optimizer = make(model, adaste.MirrorDescent())
    soft = model[0].weight.detach().clone()
    with optimizer.binarized(), optimizer.binarized():
        assert set(model[0].weight.unique().tolist()) == {-1.0, 1.0}
        with pytest.raises(RuntimeError, match="binarized"):
            optimizer.step()
    assert torch.equal(model[0].weight, soft)
    train(model, optimizer, range(1))


@pytest.mark.parametrize("estimator", [FullPrecision(), AdaSTE()])
def test_sparse_gradients_of_an_embedding_train_as_dense_ones(estimator) -> None:
    def trained(sparse: bool) -> torch.Tensor:
        torch.manual_seed(0)
        embedding = nn.Embedding(6, 3, sparse=sparse)
        optimizer = LatentOptimizer([embedding.weight], base=SGD, estimator=estimator, averaging=0.5)
        for place in range(4):
            optimizer.zero_grad()
            (embedding(torch.tensor([place, place, 5])) ** 3).sum().backward()
            optimizer.step()
        (embedding(torch.tensor([1])) * float("nan")).sum().backward()
        with pytest.raises(adaste.NonFiniteGradientError):
            optimizer.step()
        return optimizer.state[embedding.weight]["latent"]

    torch.testing.assert_close(trained(sparse=True), trained(sparse=False))


def test_an_optimizer_without_weights_yet_is_not_soft() -> None:
    model = small_model()
    optimizer = LatentOptimizer([{"params": []}], base=SGD, estimator=AdaSTE(mu=1.0))
    assert not optimizer.is_soft()
    optimizer.add_param_group({"params": [model[0].weight]})
    assert optimizer.is_soft()


def test_a_step_calls_functions_of_few_files() -> None:
    """Who reads how a gradient becomes a weight reads these files."""
    model = small_model()
    optimizer = make(model, adaste.AdaSTE())
    train(model, optimizer, range(3))
    package = Path(adaste.__file__).parent
    called = set()

    def note(frame, event, argument) -> None:
        if event == "call" and package in (path := Path(frame.f_code.co_filename)).parents:
            called.add(str(path.relative_to(package)))

    sys.setprofile(note)
    optimizer.step()
    sys.setprofile(None)
    assert {"optim/latent_optimizer.py", "optim/step.py", "estimators/adaste.py"} <= called
    assert len(called) <= 8, sorted(called)
