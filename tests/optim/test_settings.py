"""The settings that a base optimizer shares with ours: whose value counts, and where it is kept."""

import pytest
import torch

from adaste.optim.state import adopt, keep_rates, loaded_group, mirror


def test_a_base_that_counts_on_a_gpu_is_told_so_and_others_are_left_alone() -> None:
    for counts_on_gpu in (False, True):
        group: dict[str, object] = {"lr": 0.1}
        adopt(group, {"lr": 0.5, "capturable": False}, counts_on_gpu=counts_on_gpu)
        assert group == {"lr": 0.1, "capturable": counts_on_gpu}
    without: dict[str, object] = {"lr": 0.1}
    adopt(without, {"momentum": 0.9}, counts_on_gpu=True)
    assert without == {"lr": 0.1, "momentum": 0.9}


@pytest.mark.parametrize("compiled", [False, True])
def test_a_compiled_optimizer_gives_the_base_its_rate_as_a_number(compiled: bool) -> None:
    rate = torch.tensor(0.25)
    base = {"lr": 0.1}
    mirror([{"lr": rate, "params": []}], [base], compiled=compiled)
    assert float(base["lr"]) == 0.25
    assert isinstance(base["lr"], float) == compiled


def test_a_loaded_rate_goes_where_the_rate_is_kept() -> None:
    rate = torch.tensor(0.5)
    assert loaded_group({"lr": 0.25}, {"lr": rate})["lr"] is rate and float(rate) == 0.25
    assert loaded_group({"lr": torch.tensor(0.25)}, {"lr": 0.5}) == {"lr": 0.25}
    assert loaded_group({"momentum": 0.9}, {"momentum": 0.5}) == {"momentum": 0.9}, "a base without a rate"


def test_a_rate_that_is_a_number_is_always_put_into_the_same_tensor() -> None:
    groups: list[dict[str, object]] = [{"lr": 0.5}, {}]
    own: dict[int, torch.Tensor] = {}
    keep_rates(groups, own, torch.device("cpu"))
    kept = own[0]
    groups[0]["lr"] = 0.25
    keep_rates(groups, own, torch.device("cpu"))
    assert groups == [{"lr": kept}, {}] and groups[0]["lr"] is kept
    assert float(kept) == 0.25
