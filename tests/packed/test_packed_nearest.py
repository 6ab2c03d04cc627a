"""What cannot be packed is refused with the nearest thing that can be, in the words of docs/deployment.md."""

import pytest
import torch
from torch import Tensor, nn

import adaste
from adaste.packed.aten import NEAREST, find_nearest
from support.pages import ROOT

OF_OTHERS = {"nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "wrap_with_autocast"}
"""Operations of torchvision, and one that is no operation of a library."""


class Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer = kind(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def test_the_table_of_the_page_has_the_rows_of_the_code() -> None:
    lines = (ROOT / "docs" / "deployment.md").read_text().splitlines()
    assert [
        f"| {row.what} | {row.nearest} |" for row in NEAREST if f"| {row.what} | {row.nearest} |" not in lines
    ] == []


def test_the_operations_of_the_rows_are_those_of_torch() -> None:
    names = [name for row in NEAREST for name in row.operations.split()]
    assert len(names) == len(set(names)), "an operation has one row"
    for name in set(names) - OF_OTHERS:
        packet, _, overload = name.partition(".")
        found = getattr(torch.ops.aten, packet)
        assert overload in ("", *found.overloads())
        assert find_nearest(getattr(found, overload or found.overloads()[0])) in NEAREST


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (Recurrent(nn.LSTM), "Instead of recurrent layers (RNN, LSTM, GRU), use `Conv1d` or attention"),
        (Recurrent(nn.GRU), "use `Conv1d` or attention"),
        (Function(lambda x: x.topk(2)[0]), "use a step behind the network's outputs"),
        (Function(lambda x: x.max(1)[1].float()), "use a step behind the network's outputs"),
        (Function(lambda x: x[:, torch.tensor([0, 1]), torch.tensor([1, 0])]), "or an embedding of computed places"),
        (Function(lambda x: x.round()), "use real numbers"),
        (Function(lambda x: torch.div(x, 2, rounding_mode="floor")), "use real numbers"),
        (Function(lambda x: x + torch.rand_like(x)), "use evaluation mode, with statistics"),
        (Function(lambda x: torch.fft.fft(x).abs()), "use `matmul`"),
        (Function(lambda x: x.sin()), "use `log`, `exp`, sums, maxima and products of tensors"),
        (Function(lambda x: torch.cdist(x, x)), "use `log`, `exp`, sums, maxima and products of tensors"),
        (nn.AdaptiveMaxPool1d(3), "and pools with windows of one size"),
        (Function(lambda x: x.pow(1.5)), "and pools with windows of one size"),
        (Function(lambda x: x.index_add(1, torch.tensor([0]), x[:, :1])), "leave the inputs of a batch apart"),
    ],
)
def test_a_refusal_ends_with_the_nearest_thing(model: nn.Module, advice: str) -> None:
    with pytest.raises(ValueError) as caught:
        adaste.pack(model, torch.rand(2, 3, 8), allow_float=True)
    assert str(caught.value).endswith(advice)
