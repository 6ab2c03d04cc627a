"""The rules of the base optimizers as pure functions, before any compiler sees them."""

from functools import partial

import pytest
import torch

from adaste import FullPrecision
from adaste.optim.fused import RULES, fused_step
from support.latent_optimizers import every_base, make
from support.methods import METHODS, Method, every_method, latents, small_model, train


def assert_the_rule_trains_alike(base) -> None:
    """Train by a base optimizer and by its rule: the weights come out the same."""
    models = [small_model().double(), small_model().double()]
    optimizers = [
        make(models[0], FullPrecision(), base=base),
        make(models[1], FullPrecision(), base=base, compile=True),
    ]
    optimizers[1]._compiled.fused = fused_step
    for model, optimizer in zip(models, optimizers, strict=True):
        train(model, optimizer, range(6), dtype=torch.float64)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-7)


@every_base
def test_the_rule_of_a_base_optimizer_is_that_optimizer(base) -> None:
    assert_the_rule_trains_alike(base)


SETTINGS = {
    torch.optim.SGD: ("nesterov", "momentum"),
    torch.optim.Adam: ("amsgrad",),
    torch.optim.AdamW: ("amsgrad",),
    torch.optim.RMSprop: ("centered", "momentum"),
}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (kind, {"weight_decay": decay, "maximize": maximize, **extra})
        for kind, names in SETTINGS.items()
        for extra in ({}, {name: 0.9 if name == "momentum" else True for name in names})
        for decay in (0.0, 0.3)
        for maximize in (False, True)
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_every_setting_moves_the_latent_and_the_state_as_the_optimizer_does(kind, options) -> None:
    latent = torch.linspace(-1, 1, 5, dtype=torch.float64).requires_grad_()
    optimizer = kind([latent], lr=0.1, **options)
    for step in range(4):
        latent.grad = torch.sin(torch.arange(5, dtype=torch.float64) + step)
        state = {name: value.clone() for name, value in optimizer.state[latent].items() if torch.is_tensor(value)}
        before, settings, rule = latent.detach().clone(), optimizer.param_groups[0], RULES[kind]
        optimizer.step()
        if step == 0:
            continue  # it makes the state
        assert set(rule.needs(settings)) <= set(state)
        moved, advanced = rule.advance(before, latent.grad, state, settings)
        torch.testing.assert_close(moved, latent.detach(), rtol=1e-6, atol=0)
        assert set(advanced) == set(rule.needs(settings))
        for name, value in advanced.items():
            torch.testing.assert_close(value, optimizer.state[latent][name], rtol=1e-9, atol=0, check_dtype=False)


@pytest.mark.slow
@every_method
def test_the_fused_step_is_the_reference_step(method: Method) -> None:
    models = [small_model().double(), small_model().double()]
    optimizers = [method.optimizer(models[0]), method.optimizer(models[1], compile=True)]
    optimizers[1]._compiled.fused = fused_step
    for model, optimizer in zip(models, optimizers, strict=True):
        train(model, optimizer, range(5), dtype=torch.float64)
    for one, other in zip(latents(optimizers[0]), latents(optimizers[1]), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5 * float(one.detach().abs().max()))


def test_decoupled_decay_is_taken_from_adam_too() -> None:
    base = partial(torch.optim.Adam, lr=0.01, weight_decay=0.1)
    if "decoupled_weight_decay" not in base([torch.zeros(1)]).defaults:
        pytest.skip("this torch knows decoupled decay as AdamW only")
    assert_the_rule_trains_alike(partial(base, decoupled_weight_decay=True))


@pytest.mark.slow
def test_a_gradient_that_is_not_finite_is_masked_by_its_norm() -> None:
    """What a GPU does, on the CPU: the flag is in a parameter's part of the step, which does not branch on it."""
    model = small_model()
    optimizer = METHODS["AdaSTE, annealed"].optimizer(model, compile=True)
    optimizer._compiled.fused = fused_step
    train(model, optimizer, range(2))
    train(model, optimizer, range(2, 3))
    model[2].weight.grad[0, 0] = float("nan")
    before = [latent.detach().clone() for latent in latents(optimizer)]
    inspect = optimizer._guard.inspect
    optimizer._guard.inspect = lambda grads, slots, names: [grad.abs().amax() for grad in grads]
    optimizer.step()
    optimizer._guard.inspect = inspect
    assert torch.equal(before[1], latents(optimizer)[1])
    assert not torch.equal(before[0], latents(optimizer)[0])
