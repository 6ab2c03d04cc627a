"""State dicts and copies of a LatentOptimizer: training goes on from them, or they are refused."""

import copy
import dataclasses
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)

import adaste
from adaste import AdaSTE, Geometric, LatentOptimizer, MirrorDescent
from support.latent_optimizers import SGD, every_base, make
from support.methods import latents, small_model, train


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_how_the_base_computes_stays_when_a_state_is_loaded() -> None:
    """A rate in a tensor goes with fused=True, not with foreach=True."""
    saved = make(first := small_model(), base=partial(torch.optim.Adam, lr=0.01, foreach=True))
    loaded = make(second := small_model(), base=partial(torch.optim.Adam, lr=0.5, fused=True), capturable=True)
    train(first, saved, range(2))
    second.load_state_dict(first.state_dict())
    loaded.load_state_dict(saved.state_dict())
    assert float(loaded.param_groups[0]["lr"]) == pytest.approx(0.01)
    train(first, saved, range(2, 4))
    train(second, loaded, range(2, 4))
    for one, two in zip(latents(saved), latents(loaded), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


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


def test_parameters_of_a_state_dict_may_have_any_names_as_torch_allows() -> None:
    model, other = small_model(), small_model(seed=1)
    optimizer, resumed = make(model, averaging=0.5), make(other, averaging=0.5)
    train(model, optimizer, range(3))
    saved = optimizer.state_dict()
    named = {
        "state": {f"weight {slot}": entries for slot, entries in saved["state"].items()},
        "param_groups": [
            {**group, "params": [f"weight {slot}" for slot in group["params"]]} for group in saved["param_groups"]
        ],
    }
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(named)
    train(model, optimizer, range(3, 5))
    train(other, resumed, range(3, 5))
    assert all(torch.equal(one, two) for one, two in zip(latents(optimizer), latents(resumed), strict=True))


def test_states_pass_through_torchs_distributed_checkpoints() -> None:
    model, other = small_model(), small_model(seed=1)
    optimizer, resumed = make(model), make(other)
    train(model, optimizer, range(3))
    set_state_dict(
        other,
        resumed,
        model_state_dict=get_model_state_dict(model),
        optim_state_dict=get_optimizer_state_dict(model, optimizer),
    )
    train(model, optimizer, range(3, 5))
    train(other, resumed, range(3, 5))
    assert all(torch.equal(one, two) for one, two in zip(latents(optimizer), latents(resumed), strict=True))


def _parts(model: nn.Module, optimizer: LatentOptimizer) -> dict[str, object]:
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))


@every_base
def test_a_new_optimizer_goes_on_from_a_distributed_checkpoint(base, tmp_path: Path) -> None:
    """torch reads only what the new optimizer shows a place for."""
    model, other = small_model(), small_model(seed=1)
    optimizer, resumed = make(model, base=base, averaging=0.5), make(other, base=base, averaging=0.5)
    train(model, optimizer, range(3))
    dcp.save(_parts(model, optimizer), checkpoint_id=tmp_path)
    loaded = _parts(other, resumed)
    dcp.load(loaded, checkpoint_id=tmp_path)
    set_state_dict(other, resumed, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    train(model, optimizer, range(3, 5))
    train(other, resumed, range(3, 5))
    assert all(torch.equal(one, two) for one, two in zip(latents(optimizer), latents(resumed), strict=True))


@every_base
def test_a_state_of_before_the_first_step_begins_anew_and_to_ask_for_it_changes_nothing(base) -> None:
    model, untouched, other = small_model(), small_model(), small_model()
    optimizer, resumed = make(model, base=base), make(other, base=base)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(other, resumed, range(5, 8))
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    expected = make(untouched, base=base)
    for network, trained in ((model, optimizer), (untouched, expected), (other, resumed)):
        network[2].bias.requires_grad_(False)  # what has no gradient then must not have one of before
        train(network, trained, range(3))
    for trained in (optimizer, resumed):
        assert all(torch.equal(one, two) for one, two in zip(latents(trained), latents(expected), strict=True))


def test_a_flattened_distributed_state_is_refused_for_it_lacks_the_steps() -> None:
    model = small_model()
    optimizer = make(model)
    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    saved = get_optimizer_state_dict(model, optimizer, options=flat)
    with pytest.raises(ValueError, match="flatten_optimizer_state_dict loses them"):
        set_optimizer_state_dict(model, optimizer, saved, options=flat)


def test_hooks_see_the_whole_state_and_may_change_it() -> None:
    model = small_model()
    optimizer = make(model)
    train(model, optimizer, range(2))
    told: list[object] = []
    optimizer.register_state_dict_pre_hook(lambda optimizer: told.append(optimizer.steps))
    optimizer.register_state_dict_post_hook(lambda _, saved: {**saved, "note": sorted(saved["state"][0])})
    saved = copy.deepcopy(optimizer.state_dict())
    assert told == [2]
    assert saved["note"] == ["base.momentum_buffer", "latent"]

    def with_zeros(_: torch.optim.Optimizer, given: dict) -> dict:
        state = {
            slot: {**entries, "latent": torch.zeros_like(entries["latent"])} for slot, entries in given["state"].items()
        }
        return {**given, "state": state}

    train(model, optimizer, range(2, 5))
    optimizer.register_load_state_dict_pre_hook(with_zeros)
    optimizer.register_load_state_dict_post_hook(lambda optimizer: told.append((optimizer.steps, latents(optimizer))))
    optimizer.load_state_dict(saved)
    steps, seen = told[-1]
    assert steps == 2
    assert len(seen) == 4
    assert all(not latent.any() for latent in seen)


def test_a_copy_made_inside_binarized_can_be_trained() -> None:
    model = small_model()
    optimizer = make(model)
    with optimizer.binarized():
        twin, optimizer_twin = copy.deepcopy((model, optimizer))
    train(twin, optimizer_twin, range(2))
    assert optimizer_twin.steps == 2


def test_a_state_of_before_an_estimator_had_gained_a_field_is_loaded() -> None:
    model, other = small_model(), small_model()
    estimator = MirrorDescent(stable=False, beta=Geometric(start=1.0, stop=9.0, length=9))
    optimizer = make(model, estimator)
    train(model, optimizer, range(2))
    saved = copy.deepcopy(optimizer.state_dict())
    del saved["param_groups"][0]["estimator"]["absorbing"]
    del saved["param_groups"][0]["estimator"]["beta"]["delay"]
    resumed = make(other, estimator)
    resumed.load_state_dict(saved)
    assert resumed.steps == 2
    absorbing = make(other, dataclasses.replace(estimator, absorbing=True))
    with pytest.raises(ValueError, match=r"trained with estimator .*uses .*'absorbing': True"):
        absorbing.load_state_dict(saved)
    saved["param_groups"][0]["estimator"]["of tomorrow"] = 1
    with pytest.raises(ValueError, match=r"trained with estimator .*of tomorrow"):
        resumed.load_state_dict(saved)


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
