"""LatentOptimizer around any torch optimizer, compiled or not, under torch's schedulers."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from adaste import AdaSTE, FullPrecision, Geometric, LatentOptimizer, StraightThrough
from support.latent_optimizers import SGD, every_base, make
from support.methods import latents, small_model, train

pytestmark = pytest.mark.slow


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


def test_a_schedule_that_cycles_momentum_goes_on_uncompiled_and_right() -> None:
    cycle = partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=14)
    with pytest.warns(UserWarning, match="goes on uncompiled.*cycle_momentum=False"):
        assert_scheduled_alike(cycle, steps=12, compiled=True)


def test_parameters_that_take_turns_go_on_uncompiled_and_right() -> None:
    """As the layers of a network do that leaves some out at random."""
    model, plain = (nn.ModuleList(nn.Linear(3, 2 + place, bias=False) for place in range(4)) for _ in range(2))
    plain.load_state_dict(model.state_dict())
    optimizer, reference = make(model, StraightThrough(), compile=True), make(plain, StraightThrough())
    with pytest.warns(UserWarning, match="which parameters have a gradient.*goes on uncompiled"):
        for turn in (15, *range(1, 13), 15):
            for layers, each in ((model, optimizer), (plain, reference)):
                each.zero_grad()
                chosen = [layer for place, layer in enumerate(layers) if turn >> place & 1]
                sum((layer(torch.arange(3.0)) ** 2).sum() for layer in chosen).backward()
                each.step()
    for one, other in zip(latents(optimizer), latents(reference), strict=True):
        torch.testing.assert_close(one, other)
    with torch.compiler.set_stance("fail_on_recompile"):
        optimizer.step()


def test_groups_may_be_added_one_after_the_other_to_a_compiled_optimizer() -> None:
    """As layers are unfrozen, from the last to the first."""
    estimator = AdaSTE(mu=Geometric(start=1.0, stop=100.0, length=20))
    weights = [[nn.Parameter(torch.ones(1, 2 + place)) for place in range(10)] for _ in range(2)]
    optimizers = [
        LatentOptimizer(group[:1], base=SGD, estimator=estimator, compile=compiled)
        for group, compiled in zip(weights, (True, False), strict=True)
    ]
    for place in range(1, 10):
        for group, optimizer in zip(weights, optimizers, strict=True):
            for weight in group[:place]:
                weight.grad = torch.linspace(-1, 2, weight.numel()).view_as(weight)
            optimizer.step()
            optimizer.add_param_group({"params": [group[place]]})
    for one, other in zip(*map(latents, optimizers), strict=True):
        torch.testing.assert_close(one, other)


def test_a_learning_rate_set_by_hand_does_not_compile_anew() -> None:
    model = small_model()
    optimizer = make(model, compile=True)
    train(model, optimizer, range(2))
    with torch.compiler.set_stance("fail_on_recompile"):
        for step in range(2, 14):
            optimizer.param_groups[0]["lr"] = 0.1 / step
            train(model, optimizer, range(step, step + 1))


@pytest.mark.parametrize("setting", ["compile", "capturable"])
def test_a_learning_rate_set_by_hand_goes_where_a_captured_step_reads_it(setting: str) -> None:
    model = small_model()
    optimizer = make(model, **{setting: True})
    optimizer.add_param_group({"params": [("extra", nn.Parameter(torch.ones(3)))], "lr": 2.0})
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.param_groups[0]["lr"] = 0.5
    train(model, optimizer, range(1))
    for rate, group in zip(rates, optimizer.param_groups, strict=True):
        assert group["lr"] is rate
    assert (float(rates[0]), float(rates[-1])) == (0.5, 2.0)


def test_a_learning_rate_that_groups_share_is_set_by_hand_for_one_of_them() -> None:
    model = small_model()
    optimizer = make(model, base=partial(torch.optim.SGD, lr=torch.tensor(0.1), fused=True), capturable=True)
    optimizer.add_param_group({"params": [("extra", nn.Parameter(torch.ones(3)))]})
    optimizer.param_groups[0]["lr"] = 0.5
    train(model, optimizer, range(1))
    first, *others = (float(group["lr"]) for group in optimizer.param_groups)
    assert first == 0.5
    assert others == pytest.approx([0.1] * len(others))


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


class Growing(torch.optim.SGD):
    """It finds its rate itself, and keeps it among its settings, as Prodigy and its like do."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] *= 2.0
            group["grown"] = group.get("grown", 0) + 1
        return super().step(closure)


class Counting(torch.optim.Optimizer):
    """It has no rate, and counts beside the states of its parameters: among them, as MADGRAD does, and around them."""

    def __init__(self, params) -> None:
        super().__init__(params, {"strength": 0.1})
        self.calls = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.calls += 1
        if "count" not in self.state:
            self.state["count"] = torch.rand(())
        self.state["count"] += 1
        for group in self.param_groups:
            for weight in group["params"]:
                weight -= group["strength"] / (self.calls * self.state["count"]) * weight.grad

    def state_dict(self):
        return {**super().state_dict(), "calls": self.calls}

    def load_state_dict(self, state_dict) -> None:
        super().load_state_dict(state_dict)
        self.calls = state_dict["calls"]


def test_what_a_base_keeps_beside_the_states_of_its_parameters_is_saved() -> None:
    alone, wrapped, other = small_model(), small_model(), small_model(seed=1)
    plain = Counting(alone.parameters())
    optimizer, resumed = (
        LatentOptimizer(model.parameters(), base=Counting, estimator=FullPrecision()) for model in (wrapped, other)
    )
    for model, trained in ((alone, plain), (wrapped, optimizer)):
        torch.manual_seed(3)
        trained.state_dict()  # to ask before the first step changes nothing, neither counts nor random numbers
        train(model, trained, range(3))
    other.load_state_dict(wrapped.state_dict())
    resumed.load_state_dict(optimizer.state_dict())
    for model, trained in ((other, resumed), (alone, plain), (wrapped, optimizer)):
        train(model, trained, range(3, 6))
    for one, two, three in zip(alone.parameters(), wrapped.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two) and torch.equal(two, three)


def test_a_base_without_a_rate_can_have_its_time_in_tensors() -> None:
    one, other = small_model(), small_model()
    for model, capturable in ((one, True), (other, False)):
        torch.manual_seed(3)
        train(model, make(model, FullPrecision(), base=Counting, capturable=capturable), range(3))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_what_a_base_changes_among_its_settings_is_kept_shown_and_saved() -> None:
    alone, wrapped, other = small_model(), small_model(), small_model(seed=1)
    base = partial(Growing, lr=1e-3)
    plain = base(alone.parameters())
    optimizer, resumed = (
        LatentOptimizer(model.parameters(), base=base, estimator=FullPrecision()) for model in (wrapped, other)
    )
    optimizer.state_dict()  # asked before the first step, the base makes one that does not count
    for model, trained in ((alone, plain), (wrapped, optimizer)):
        train(model, trained, range(3))
    assert optimizer.param_groups[0]["grown"] == 3 and optimizer.param_groups[0]["lr"] == plain.param_groups[0]["lr"]
    other.load_state_dict(wrapped.state_dict())
    resumed.load_state_dict(optimizer.state_dict())
    for model, trained in ((alone, plain), (wrapped, optimizer), (other, resumed)):
        train(model, trained, range(3, 6))
    for one, two, three in zip(alone.parameters(), wrapped.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two) and torch.equal(two, three)
    optimizer.param_groups[0]["lr"] = 0.0  # what users and schedulers say comes first
    before = [weight.clone() for weight in wrapped.parameters()]
    train(wrapped, optimizer, range(6, 7))
    assert all(torch.equal(one, two) for one, two in zip(before, wrapped.parameters(), strict=True))
