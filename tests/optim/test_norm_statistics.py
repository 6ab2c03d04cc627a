"""Statistics of BatchNorm re-estimated for a while: which they are, whose, and that nothing else remembers it."""

import warnings
from collections import UserDict
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import adaste
from adaste import reestimate_norms
from support.latent_optimizers import make

BATCHES = [torch.randn(8, 3, generator=torch.Generator().manual_seed(seed)) for seed in range(5)]
OLD = r"binarized\(model\) leaves BatchNorm its running statistics.*statistics_from=loader"


def network(**options: Any) -> nn.Sequential:
    """Its norms count at 1 and 4."""
    return nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4, **options), nn.ReLU(), nn.Dropout(), nn.BatchNorm1d(4), nn.Linear(4, 2)
    )


def snapshot(model: nn.Module) -> list[Any]:
    """All that a re-estimation touches for a while, to be compared."""
    modes = [
        (module.training, getattr(module, "momentum", None), len(module._forward_hooks)) for module in model.modules()
    ]
    return [*modes, *(tensor.tolist() for tensor in model.state_dict().values()), torch.get_rng_state().tolist()]


def stepped(model: nn.Module) -> adaste.LatentOptimizer:
    """An optimizer of the model that has made a step."""
    optimizer = make(model)
    model(BATCHES[0]).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return optimizer


@pytest.mark.parametrize("momentum", [0.3, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_statistics_are_the_means_over_batches_and_afterwards_those_of_before(
    dtype: torch.dtype, momentum: float | None
) -> None:
    model = network(momentum=momentum).to(dtype)
    batches = [batch.to(dtype) for batch in BATCHES * 10]
    model(batches[0])
    before = snapshot(model)
    with reestimate_norms(model, batches):
        reached = [model[0](batch) for batch in batches]
        near = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 2 * torch.finfo(dtype).eps}
        means, variances = ([getattr(batch.double(), name)(0) for batch in reached] for name in ("mean", "var"))
        torch.testing.assert_close(model[1].running_mean.double(), torch.stack(means).mean(0), **near)
        torch.testing.assert_close(model[1].running_var.double(), torch.stack(variances).mean(0), **near)
    assert snapshot(model) == before


def test_they_are_those_of_the_network_that_is_tested_and_not_of_dropout() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3))
    with reestimate_norms(model, [torch.full((8, 3), 2.0)]):
        assert model[1].running_mean.tolist() == [2.0] * 3
        assert model[1].running_var.tolist() == [0.0] * 3


def test_every_call_of_a_norm_counts_and_a_norm_without_calls_keeps_its_statistics() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.unused = nn.BatchNorm1d(3), nn.BatchNorm1d(3)

        def forward(self, images: Tensor) -> Tensor:
            return self.norm(images) + self.norm(images + 10)

    model = Twice()
    model.unused.running_mean.fill_(7.0)
    with reestimate_norms(model, BATCHES):
        torch.testing.assert_close(model.norm.running_mean, torch.stack(BATCHES).mean((0, 1)) + 5)
        assert model.unused.running_mean.tolist() == [7.0] * 3


@pytest.mark.parametrize("where", ["inside", "in the model", "in the batches", "without batches"])
def test_everything_is_as_before_after_an_error(where: str) -> None:
    def failing() -> Iterator[Tensor]:
        yield BATCHES[0]
        raise ZeroDivisionError

    model = network()
    model[3].eval()
    given = {"in the batches": failing(), "in the model": [BATCHES[0], torch.ones(8, 9)], "without batches": []}
    before = snapshot(model)
    with (
        pytest.raises((ZeroDivisionError, RuntimeError, ValueError)),
        reestimate_norms(model, given.get(where, BATCHES)),
    ):
        assert where == "inside"
        raise ZeroDivisionError
    assert snapshot(model) == before


def test_blocks_may_be_nested() -> None:
    model = network()
    before = snapshot(model)
    with reestimate_norms(model, BATCHES):
        outer = snapshot(model)
        with reestimate_norms(model, BATCHES[:1]):
            assert snapshot(model) != outer
        assert snapshot(model) == outer
    assert snapshot(model) == before


def test_frozen_norms_and_those_without_running_statistics_are_left_alone() -> None:
    model = network(track_running_stats=False)
    with reestimate_norms(model, BATCHES):
        assert model[1].running_mean is None
    model = network()
    model[1].eval()
    with reestimate_norms(model, BATCHES):
        assert model[1].running_mean.tolist() == [0.0] * 4
        assert model[4].running_mean.any()
        assert not model[1].training


def test_of_a_model_in_evaluation_mode_all_norms_are_meant() -> None:
    model = network().eval()
    with reestimate_norms(model, BATCHES):
        assert model[1].running_mean.any() and model[4].running_mean.any()
        assert not any(module.training for module in model.modules())


def test_random_numbers_of_the_training_go_on_as_if_no_batch_had_been_drawn() -> None:
    loader = DataLoader(TensorDataset(torch.cat(BATCHES)), batch_size=8, shuffle=True)
    model = network()
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    with reestimate_norms(model, loader, forward=lambda batch: (torch.rand(2), model(batch[0]))):
        assert torch.equal(torch.rand(4), expected)


def test_no_more_batches_are_drawn_than_wanted() -> None:
    endless = repeat(BATCHES[0])
    with reestimate_norms(network(), endless, most=3):
        pass
    drawn: list[int] = []
    with reestimate_norms(network(), (BATCHES[0] for number in range(100) if not drawn.append(number))):
        assert len(drawn) == 50


@pytest.mark.parametrize(
    "batch",
    [BATCHES[0], (BATCHES[0], torch.zeros(8)), [BATCHES[0]], {"input": BATCHES[0]}, UserDict(input=BATCHES[0])],
    ids=lambda batch: type(batch).__name__,
)
def test_a_batch_is_what_a_loader_yields(batch: Any) -> None:
    model = network()
    with reestimate_norms(model, [batch]):
        torch.testing.assert_close(model[1].running_mean, model[0](BATCHES[0]).mean(0))


def test_a_model_may_be_called_in_another_way() -> None:
    model = network()
    with reestimate_norms(model, [{"pixels": BATCHES[0]}], forward=lambda batch: model(batch["pixels"])):
        torch.testing.assert_close(model[1].running_mean, model[0](BATCHES[0]).mean(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batches": []}, "at least one batch, and there was none: give a list or a DataLoader"),
        ({"batches": ["image.png"]}, "batches may be tensors.*got str: pass forward="),
        ({"batches": BATCHES, "forward": lambda batch: batch}, "no BatchNorm of the model was called"),
        ({"batches": BATCHES, "most": 0}, "most must be a whole number of at least 1"),
    ],
    ids=["none", "text", "another model", "most"],
)
def test_what_gives_no_statistics_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message), reestimate_norms(network(), **options):
        pytest.fail("not reached")


def test_a_model_without_norms_draws_no_batches() -> None:
    with reestimate_norms(nn.Linear(3, 2), iter(())):
        pass


def test_a_compiled_model_gets_the_same_statistics_and_computes_with_them() -> None:
    model = network()
    compiled = torch.compile(model, backend="eager")
    compiled(BATCHES[0])
    with reestimate_norms(model, BATCHES):
        expected = [buffer.clone() for buffer in model.buffers()]
        outputs = model.eval()(BATCHES[0])
    model.train()
    for _ in range(2):  # the second time nothing of the first is left
        with reestimate_norms(compiled, BATCHES):
            assert all(map(torch.equal, model.buffers(), expected))
            torch.testing.assert_close(compiled.eval()(BATCHES[0]), outputs)
        compiled.train()


def test_binarized_rounds_re_estimates_and_puts_both_back() -> None:
    model = network()
    optimizer = make(model, adaste.MirrorDescent())
    before = snapshot(model)
    with optimizer.binarized(model, statistics_from=BATCHES, most=2):
        assert set(model[0].weight.flatten().tolist()) <= {-1.0, 1.0}
        expected = torch.stack([model[0](batch).mean(0) for batch in BATCHES[:2]]).mean(0)
        torch.testing.assert_close(model[1].running_mean, expected)
    assert snapshot(model) == before
    with pytest.raises(ValueError, match="at least one batch"), optimizer.binarized(model, statistics_from=[]):
        pytest.fail("not reached")
    assert snapshot(model) == before
    optimizer.step()  # it would be refused inside


def test_statistics_without_a_model_are_refused() -> None:
    optimizer = make(network())
    with (
        pytest.raises(ValueError, match="statistics_from needs the model"),
        optimizer.binarized(statistics_from=BATCHES),
    ):
        pytest.fail("not reached")


def test_statistics_of_before_a_step_are_warned_of_once_and_on_the_users_line() -> None:
    model = network()
    optimizer = stepped(model)
    with pytest.warns(UserWarning, match=OLD) as warned, optimizer.binarized(model):
        pass
    assert [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.binarized(model):
            pass


def test_nothing_is_warned_of_where_statistics_are_right_or_nobody_asks() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = network()
        with make(model).binarized(model):  # no step yet
            pass
        optimizer = stepped(model)
        adaste.inspect_model(model, optimizer)
        with optimizer.binarized():
            pass
        with optimizer.binarized(model, statistics_from=BATCHES), optimizer.binarized(model):
            pass
        for norms in (nn.LayerNorm(4), nn.BatchNorm1d(4, track_running_stats=False), nn.BatchNorm1d(4).eval()):
            other = nn.Sequential(nn.Linear(3, 4), norms, nn.Linear(4, 2))
            with stepped(other).binarized(other):
                pass


@pytest.mark.parametrize("since", ["nothing", "a step"])
def test_statistics_that_were_put_back_are_old_again(since: str) -> None:
    model = network()
    optimizer = stepped(model)
    running = model[1].running_mean.clone()
    with optimizer.binarized(model, statistics_from=BATCHES):
        pass
    if since == "a step":
        model(BATCHES[0]).sum().backward()
        optimizer.step()
    with pytest.warns(UserWarning, match=OLD), optimizer.binarized(model):
        assert since == "a step" or torch.equal(model[1].running_mean, running)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough, also where both forms alternate
        for _ in range(2):
            with optimizer.binarized(model, statistics_from=BATCHES):
                pass
            with optimizer.binarized(model):
                pass


def test_an_estimation_that_failed_makes_no_statistics_right() -> None:
    model = network()
    optimizer = stepped(model)
    with pytest.raises(ValueError, match="at least one batch"), optimizer.binarized(model, statistics_from=[]):
        pytest.fail("not reached")
    with pytest.warns(UserWarning, match=OLD), optimizer.binarized(model):
        pass
