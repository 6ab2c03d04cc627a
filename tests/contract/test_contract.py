"""What every method promises, as sentences over the one table."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import adaste
from support.methods import METHODS, Method, batch, every_method, latents, small_model, train


@every_method
def test_binarized_weights_are_plus_or_minus_their_magnitude(method: Method) -> None:
    model = small_model()
    optimizer = method.optimizer(model)
    train(model, optimizer, range(5))
    estimator = adaste.at_step(method.estimator, optimizer.steps)
    with optimizer.binarized():
        for weight in adaste.binary_weights(model).binary.values():
            if estimator.binary:
                size = estimator.magnitude(optimizer.state[weight]["latent"].detach())
                assert torch.equal(weight.abs(), torch.as_tensor(size).expand_as(weight).to(weight.dtype))
            else:
                assert torch.equal(weight, optimizer.state[weight]["latent"])


@every_method
def test_weights_of_training_come_back_after_binarized_even_if_evaluation_fails(method: Method) -> None:
    model = small_model()
    optimizer = method.optimizer(model)
    train(model, optimizer, range(3))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ZeroDivisionError), optimizer.binarized():
        raise ZeroDivisionError
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


@every_method
def test_micro_batches_give_the_same_step_as_one_batch(method: Method) -> None:
    whole, parts = small_model(), small_model()
    optimizer_whole, optimizer_parts = method.optimizer(whole), method.optimizer(parts)
    for step in range(5):
        inputs, labels = batch(step)
        optimizer_whole.zero_grad()
        F.cross_entropy(whole(inputs), labels).backward()
        optimizer_parts.zero_grad()
        for part_inputs, part_labels in zip(inputs.chunk(4), labels.chunk(4), strict=True):
            (F.cross_entropy(parts(part_inputs), part_labels) / 4).backward()
        for one, four in zip(whole.parameters(), parts.parameters(), strict=True):
            assert one.grad is not None and four.grad is not None
            torch.testing.assert_close(one.grad, four.grad)
            # From here on the same bits: a sign that hangs on the last digit would end the comparison.
            four.grad.copy_(one.grad)
        optimizer_whole.step()
        optimizer_parts.step()
    for one, four in zip(latents(optimizer_whole), latents(optimizer_parts), strict=True):
        assert torch.equal(one, four)


@every_method
def test_a_resumed_run_is_bit_identical_to_an_uninterrupted_one(method: Method, tmp_path) -> None:
    model = small_model()
    optimizer = method.optimizer(model)
    train(model, optimizer, range(8))

    first = small_model()
    optimizer_first = method.optimizer(first)
    train(first, optimizer_first, range(4))
    torch.save({"model": first.state_dict(), "optimizer": optimizer_first.state_dict()}, tmp_path / "run.pt")

    second = small_model(seed=99)
    optimizer_second = method.optimizer(second)
    train(second, optimizer_second, range(2))  # a past that must not matter
    saved = torch.load(tmp_path / "run.pt", weights_only=True)
    second.load_state_dict(saved["model"])
    optimizer_second.load_state_dict(saved["optimizer"])
    for name, value in second.state_dict().items():
        assert torch.equal(value, saved["model"][name]), "loading the optimizer changed the weights"
    train(second, optimizer_second, range(4, 8))
    for name, value in model.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    for one, two in zip(latents(optimizer), latents(optimizer_second), strict=True):
        assert torch.equal(one, two)


@every_method
def test_a_deep_copy_goes_its_own_way_and_the_same_way(method: Method) -> None:
    model = small_model()
    optimizer = method.optimizer(model)
    train(model, optimizer, range(3))
    twin, optimizer_twin = copy.deepcopy((model, optimizer))
    frozen = copy.deepcopy(model.state_dict())
    train(twin, optimizer_twin, range(3, 6))
    assert all(torch.equal(value, frozen[name]) for name, value in model.state_dict().items())
    train(model, optimizer, range(3, 6))
    assert all(torch.equal(value, twin.state_dict()[name]) for name, value in model.state_dict().items())


@every_method
def test_a_latent_without_gradient_does_not_move(method: Method) -> None:
    model = small_model()
    optimizer = method.optimizer(model)
    train(model, optimizer, range(3))
    assert isinstance(model[2], nn.Linear)
    still = optimizer.state[model[2].weight]["latent"].detach().clone()
    moving = optimizer.state[model[0].weight]["latent"].detach().clone()
    for step in range(3, 6):
        inputs, labels = batch(step)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        model[2].weight.grad = None
        optimizer.step()
    assert torch.equal(optimizer.state[model[2].weight]["latent"], still)
    assert not torch.equal(optimizer.state[model[0].weight]["latent"], moving)


@pytest.mark.slow
@every_method
def test_a_compiled_step_equals_the_reference(method: Method) -> None:
    models = [small_model(), small_model()]
    optimizers = [method.optimizer(models[0]), method.optimizer(models[1], compile=True)]
    for step in range(4):
        inputs, labels = batch(step)
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            for plain, compiled in zip(models[0].parameters(), models[1].parameters(), strict=True):
                if compiled.grad is not None:
                    compiled.grad.copy_(plain.grad)
            optimizer.step()
    for plain, compiled in zip(latents(optimizers[0]), latents(optimizers[1]), strict=True):
        torch.testing.assert_close(compiled, plain, rtol=2e-5, atol=1e-6 * float(plain.detach().abs().max()) + 1e-12)
    assert optimizers[1].steps == 4


@every_method
def test_gradients_that_are_not_finite_leave_everything_as_it_was(method: Method) -> None:
    model = small_model()
    optimizer = method.optimizer(model)
    train(model, optimizer, range(2))
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    inputs, labels = batch(2)
    for poison in (float("nan"), float("inf")):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        model[2].weight.grad[1, 2] = poison
        with pytest.raises(adaste.NonFiniteGradientError, match=r"2\.weight"):
            optimizer.step()
    after = (model.state_dict(), optimizer.state_dict())
    assert all(torch.equal(before[0][name], value) for name, value in after[0].items())
    for slot, entries in after[1]["state"].items():
        assert all(torch.equal(before[1]["state"][slot][name], value) for name, value in entries.items())
    assert after[1]["param_groups"] == before[1]["param_groups"]


def test_the_table_has_a_row_for_every_method() -> None:
    classes = {type(method.estimator) for method in METHODS.values()}
    exported = {getattr(adaste, name) for name in adaste.__all__}
    methods = {thing for thing in exported if isinstance(thing, type) and issubclass(thing, adaste.Estimator)} - {
        adaste.Estimator
    }
    assert methods == classes
