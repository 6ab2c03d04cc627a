"""LatentOptimizer is a torch optimizer: what users and torch's own tools expect of one."""

import copy
from functools import partial

import pytest
import torch
from contract.methods import batch, latents, small_model, train
from torch import nn
from torch.nn import functional as F

import adaste
from adaste import AdaSTE, BinaryConnect, FullPrecision, Geometric, LatentOptimizer, Linear, StraightThrough

SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)

BASES = {
    "SGD": SGD,
    "SGD, Nesterov and decay": partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "SGD, dampened": partial(torch.optim.SGD, lr=0.1, momentum=0.9, dampening=0.9),
    "SGD, fused": partial(torch.optim.SGD, lr=0.1, momentum=0.9, fused=True),
    "SGD, foreach, maximize": partial(torch.optim.SGD, lr=0.1, foreach=True, maximize=True),
    "Adam": partial(torch.optim.Adam, lr=0.01, weight_decay=1e-2),
    "Adam, amsgrad": partial(torch.optim.Adam, lr=0.01, amsgrad=True),
    "Adam, fused": partial(torch.optim.Adam, lr=0.01, fused=True),
    "AdamW": partial(torch.optim.AdamW, lr=0.01, weight_decay=0.1),
    "RMSprop": partial(torch.optim.RMSprop, lr=0.01),
    "RMSprop, centered, momentum": partial(torch.optim.RMSprop, lr=0.01, centered=True, momentum=0.9),
}
every_base = pytest.mark.parametrize("base", list(BASES.values()), ids=list(BASES))


def make(model: nn.Module, estimator: adaste.Estimator | None = None, **options) -> LatentOptimizer:
    settings = {"base": SGD, "estimator": estimator or BinaryConnect(), **options}
    return LatentOptimizer(adaste.binary_weights(model), **settings)


@every_base
def test_full_precision_is_bit_identical_to_the_base_optimizer_alone(base) -> None:
    through, alone = small_model(), small_model()
    train(through, make(through, FullPrecision(), base=base), range(6))
    train(alone, base(alone.parameters()), range(6))
    for one, other in zip(through.parameters(), alone.parameters(), strict=True):
        assert torch.equal(one, other)


@every_base
def test_the_compiled_rule_of_a_base_optimizer_equals_it(base) -> None:
    models = [small_model(), small_model()]
    optimizers = [
        make(models[0], FullPrecision(), base=base),
        make(models[1], FullPrecision(), base=base, compile=True),
    ]
    for model, optimizer in zip(models, optimizers, strict=True):
        train(model, optimizer, range(5))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)
    # The state is the base optimizer's own either way: each continues from the other's checkpoint.
    optimizers[0].load_state_dict(optimizers[1].state_dict())
    train(models[0], optimizers[0], range(5, 7))
    train(models[1], optimizers[1], range(5, 7))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)


def test_any_base_optimizer_works_uncompiled_and_compile_says_which_it_knows() -> None:
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=r"SGD, Adam, AdamW, RMSprop.*Adagrad"):
        make(model, base=partial(torch.optim.Adagrad, lr=0.1), compile=True)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    optimizer = make(model, base=partial(torch.optim.Adagrad, lr=0.1))
    train(model, optimizer, range(3))
    assert optimizer.steps == 3


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


def assert_scheduled_alike(schedule, steps: int, *, compiled: bool) -> None:
    """Full precision under a torch scheduler equals the base optimizer alone under the same one."""
    model, plain = small_model(), small_model()
    optimizer, reference = make(model, FullPrecision(), compile=compiled), SGD(plain.parameters())
    schedulers = [schedule(each) for each in (optimizer, reference)]
    for step in range(steps):
        train(model, optimizer, range(step, step + 1))
        train(plain, reference, range(step, step + 1))
        for scheduler in schedulers:
            scheduler.step()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_learning_rate_schedulers_reach_the_base_optimizer(compiled: bool) -> None:
    cosine = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=6)
    assert_scheduled_alike(cosine, steps=6, compiled=compiled)


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


def test_capturable_keeps_time_and_rates_in_tensors() -> None:
    model = small_model()
    optimizer = make(model, AdaSTE(mu=Geometric(start=1, stop=100, length=4)), capturable=True)
    assert isinstance(optimizer.param_groups[0]["lr"], torch.Tensor)
    plain = small_model()
    reference = make(plain, AdaSTE(mu=Geometric(start=1, stop=100, length=4)))
    train(model, optimizer, range(6))
    train(plain, reference, range(6))
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert optimizer.steps == 6


def test_a_compiled_run_resumes_and_anneals_without_compiling_again() -> None:
    model = small_model()
    estimator = AdaSTE(mu=Geometric(start=1, stop=100, length=20))
    optimizer = make(model, estimator, averaging=0.9, compile=True)
    train(model, optimizer, range(3))
    with torch.compiler.set_stance("fail_on_recompile"):
        train(model, optimizer, range(3, 6))
    other = small_model(seed=5)
    resumed = make(other, estimator, averaging=0.9, compile=True)
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(optimizer.state_dict())
    train(model, optimizer, range(6, 9))
    train(other, resumed, range(6, 9))
    for one, two in zip(latents(optimizer), latents(resumed), strict=True):
        assert torch.equal(one, two)


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


def test_parameters_keep_their_names_when_a_state_is_loaded() -> None:
    model = small_model()
    optimizer = make(model)
    optimizer.load_state_dict(optimizer.state_dict())
    model[2].weight.grad = torch.full_like(model[2].weight, float("nan"))
    with pytest.raises(adaste.NonFiniteGradientError, match=r"2\.weight"):
        optimizer.step()


def test_training_after_loading_does_not_write_into_the_loaded_state() -> None:
    model = small_model()
    optimizer = make(model)
    train(model, optimizer, range(2))
    saved = optimizer.state_dict()
    copied = copy.deepcopy(saved)
    other = small_model()
    resumed = make(other)
    resumed.load_state_dict(saved)
    train(other, resumed, range(2, 4))
    for slot, entries in saved["state"].items():
        for name, value in entries.items():
            if name.startswith("base."):
                assert torch.equal(value, copied["state"][slot][name])


# Bad input: a specific message, and nothing changed.


@pytest.mark.parametrize("averaging", [-0.1, 1.0, 1.5, float("nan"), "fast", Linear(start=0.5, stop=1.0, length=3)])
def test_averaging_outside_its_range_is_refused(averaging) -> None:
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="averaging must be"):
        make(model, averaging=averaging)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_something_else_than_an_estimator_is_refused() -> None:
    with pytest.raises(TypeError, match=r"estimator must be an Estimator.*'AdaSTE'"):
        make(small_model(), "AdaSTE")


def test_a_weight_in_two_groups_is_refused_by_name() -> None:
    model = small_model()
    optimizer = LatentOptimizer([("stem", model[0].weight)], base=SGD, estimator=AdaSTE())
    with pytest.raises(ValueError, match="again is in the optimizer twice, also as stem"):
        optimizer.add_param_group({"params": [("again", model[0].weight)]})
    assert len(optimizer.param_groups) == len(optimizer.base.param_groups) == 1
    with pytest.raises(ValueError, match="twice"):
        LatentOptimizer([model[0].weight, model[0].weight], base=SGD, estimator=AdaSTE())


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64])
def test_parameters_that_are_not_real_are_refused(dtype: torch.dtype) -> None:
    parameter = nn.Parameter(torch.zeros(2, 2, dtype=dtype), requires_grad=False)
    with pytest.raises(TypeError, match=f"codes is {dtype}.*real floating-point"):
        LatentOptimizer([("codes", parameter)], base=SGD, estimator=AdaSTE())
    with pytest.raises(TypeError, match="must be a tensor, got str"):
        LatentOptimizer(["weight"], base=SGD, estimator=AdaSTE())


def _other_shape() -> LatentOptimizer:
    return make(nn.Sequential(nn.Linear(12, 17), nn.Linear(17, 3)))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (_other_shape, r"latent of 0\.weight has shape \(17, 12\) .*, this optimizer needs \(16, 12\)"),
        (lambda: make(small_model(), AdaSTE()), "trained with estimator .*AdaSTE.*uses .*BinaryConnect"),
        (lambda: make(small_model(), averaging=0.5), "trained with averaging 0.5"),
        (lambda: make(nn.Linear(12, 16, bias=False)), "1 parameter groups, this optimizer has 2"),
        (lambda: make(nn.Sequential(nn.Linear(12, 16), nn.Linear(16, 3), nn.Linear(3, 3))), "group 0 .* 3 parameters"),
    ],
)
def test_a_state_of_something_else_is_refused_and_nothing_changes(other, message: str) -> None:
    model = small_model()
    optimizer = make(model)
    train(model, optimizer, range(2))
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(other().state_dict())
    assert all(torch.equal(value, before[0][name]) for name, value in model.state_dict().items())
    after = optimizer.state_dict()
    for slot, entries in before[1]["state"].items():
        assert all(torch.equal(after["state"][slot][name], value) for name, value in entries.items())


def test_large_finite_gradients_are_not_taken_for_infinite() -> None:
    model = nn.Linear(64, 64, bias=False)
    optimizer = make(model)
    model.weight.grad = torch.full_like(model.weight, 3e38)
    optimizer.step()
    assert optimizer.steps == 1


def test_weights_on_several_devices_cannot_be_captured() -> None:
    parameters = [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2, 2, device="meta"))]
    with pytest.raises(ValueError, match=r"one device, got \['cpu', 'meta'\]"):
        LatentOptimizer(parameters, base=SGD, estimator=BinaryConnect(), capturable=True)


@pytest.mark.parametrize(("saved_compiled", "loaded_compiled"), [(False, True), (True, False)])
def test_eager_and_compiled_runs_continue_from_each_other(saved_compiled: bool, loaded_compiled: bool) -> None:
    base = partial(torch.optim.Adam, lr=0.01)
    # In float64, for Adam magnifies the rounding of gradients that are almost zero.
    first, second = small_model().double(), small_model(seed=4).double()
    saved, loaded = make(first, base=base, compile=saved_compiled), make(second, base=base, compile=loaded_compiled)
    train(first, saved, range(3), dtype=torch.float64)
    second.load_state_dict(first.state_dict())
    loaded.load_state_dict(saved.state_dict())
    assert isinstance(loaded.param_groups[0]["lr"], torch.Tensor if loaded_compiled else float)
    train(first, saved, range(3, 5), dtype=torch.float64)
    train(second, loaded, range(3, 5), dtype=torch.float64)
    for one, two in zip(latents(saved), latents(loaded), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


def test_a_learning_rate_set_by_hand_does_not_compile_anew() -> None:
    model = small_model()
    optimizer = make(model, compile=True)
    train(model, optimizer, range(2))
    with torch.compiler.set_stance("fail_on_recompile"):
        for step in range(2, 14):
            optimizer.param_groups[0]["lr"] = 0.1 / step
            train(model, optimizer, range(step, step + 1))


def test_a_schedule_that_cycles_momentum_goes_on_uncompiled_and_right() -> None:
    cycle = partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=14)
    with pytest.warns(UserWarning, match="goes on uncompiled.*cycle_momentum=False"):
        assert_scheduled_alike(cycle, steps=12, compiled=True)


def test_a_state_of_another_base_optimizer_or_of_no_latent_optimizer_is_refused() -> None:
    model = small_model()
    optimizer = make(model)
    other = make(small_model(), base=partial(torch.optim.Adam, lr=0.01))
    with pytest.raises(ValueError, match="trained with base Adam, this optimizer's uses SGD"):
        optimizer.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="not the state dict of a LatentOptimizer"):
        optimizer.load_state_dict(SGD(model.parameters()).state_dict())
    broken = optimizer.state_dict()
    del broken["state"][0]["latent"]
    with pytest.raises(ValueError, match=r"lacks the latent of 0\.weight"):
        optimizer.load_state_dict(broken)
    with optimizer.binarized(), pytest.raises(RuntimeError, match=r"load_state_dict\(\) inside binarized"):
        optimizer.load_state_dict(optimizer.state_dict())


def test_a_copy_made_inside_binarized_can_be_trained() -> None:
    model = small_model()
    optimizer = make(model)
    with optimizer.binarized():
        twin, optimizer_twin = copy.deepcopy((model, optimizer))
    train(twin, optimizer_twin, range(2))
    assert optimizer_twin.steps == 2


def test_a_step_without_any_gradient_only_counts() -> None:
    model = small_model()
    optimizer = make(model, compile=True)
    before = [latent.detach().clone() for latent in latents(optimizer)]
    optimizer.step()
    assert optimizer.steps == 1
    assert all(torch.equal(one, two) for one, two in zip(before, latents(optimizer), strict=True))
