"""Comparisons, masks, and choices of places, at several shapes: each is packed, and computes what torch does."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import adaste
from adaste.packed.format import from_bytes
from adaste.packed.torch_module import PackedNetwork
from support.packed_networks import Function

MAPS = [(2, 4, 6), (4, 6, 4), (8, 2, 2), (6, 12, 10)]
TABLE = torch.randn(40, 3)


def seen_columns(x: Tensor) -> Tensor:
    """Return a mask of keys, of which one at least is seen."""
    size = x.mean(3)[:, :1, None]
    return size >= size.amax(3, keepdim=True) - 0.5


OF_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "equal": lambda x: (x.relu() == 0) * x + x,
    "not equal": lambda x: (x.relu() != 0) * 1.5 + x,
    "less": lambda x: (x < 0.25) + x,
    "less than another": lambda x: (x < x.mean(1, keepdim=True)) * 2 - x,
    "greater": lambda x: (x > x.flip(2)).float() - x,
    "at least": lambda x: (x >= 0) * x * 2 + x,
    "at most": lambda x: (x <= x.mean(3, keepdim=True)) + x,
    "and": lambda x: ((x > -1) & (x < 1)) * x + x,
    "and with a constant": lambda x: (torch.ones(x.shape[2:], dtype=torch.bool) & (x < 1)) * x + x,
    "or": lambda x: ((x < -1) | (x > 1)) * x + x,
    "not": lambda x: ~(x < 0) * x - x,
    "where": lambda x: torch.where(x > 0, x * 2, x - 1),
    "where with constants": lambda x: torch.where(x > 0, x, -2.0) + torch.where(x < -1, 3.0, x),
    "masked fill": lambda x: x.masked_fill(x > 1, -3.0),
    "masked fill of a mask": lambda x: x.masked_fill(x < x.amax(3, keepdim=True) - 0.5, float("-inf")).softmax(3),
    "truth of numbers": lambda x: x.relu().bool() * 3 + x,
    "cumulative sum of channels": lambda x: x.cumsum(1),
    "cumulative sum of columns": lambda x: x.cumsum(-1),
    "cumulative sum of one axis": lambda x: x.mean((2, 3)).cumsum(1),
    "flip": lambda x: x.flip(1, 3),
    "index of channels": lambda x: x[:, [1, 0, 1]],
    "index of columns": lambda x: x[..., [0, 1, 1]] + x[..., torch.tensor([1, 0, 0])],
    "index from the end": lambda x: x[:, :, [-1, -2]],
    "index of the batch and columns": lambda x: x[torch.arange(len(x))[:, None], torch.tensor([[0, 1]])],
    "index select": lambda x: x.index_select(2, torch.tensor([1, 0])),
    "every other": lambda x: x[:, torch.arange(0, x.shape[1], 2)],
    "windows side by side": lambda x: x.unfold(3, 2, 2).mean(4),
    "windows that leave some over": lambda x: x.unfold(2, 2, 2)[..., 1],
    "windows that overlap": lambda x: x.unfold(1, 2, 1).amax(-1),
    "long windows": lambda x: x.unfold(3, x.shape[3] - 1, 1) * 2,
    "unfold": lambda x: F.unfold(x, 2, stride=2),
    "fold": lambda x: F.fold(F.unfold(x, 2, stride=2) * 2, x.shape[2:], 2, stride=2),
    "reshape as": lambda x: x.flatten(1).reshape_as(x) + x,
    "a shifted product": lambda x: torch.baddbmm(
        x[:, 0], x[:, 1], x[:, 1].transpose(1, 2) @ x[:, 0], beta=0.5, alpha=2
    ),
    "other axes": lambda x: x.swapaxes(1, -1) + x.swapdims(2, 1).swapaxes(1, 2).swapaxes(3, 1),
    "scores by an einsum": lambda x: torch.einsum("b c i d, b c j d -> b c i j", x, x * 2),
    "values by an einsum": lambda x: torch.einsum("bcij,bcik->bkcj", x, x + 1),
    "weights in an einsum": lambda x: torch.einsum("bchw,wo->bcho", x, TABLE[: x.shape[3]].sign()),
    "a sum with a product": lambda x: torch.addcmul(x, x.relu(), x[:, :1], value=0.5),
    "a shift with a scale": lambda x: torch.addcmul(TABLE[0, :1], x, TABLE[1, :1]),
    "constant queries": lambda x: F.scaled_dot_product_attention(TABLE[:3, :2].expand(1, 1, 3, 2), x[..., :2], x),
    "keys of one head": lambda x: F.scaled_dot_product_attention(x, x[:, :1], x[:, :1]),
    "a mask of attention": lambda x: F.scaled_dot_product_attention(x, x, x, seen_columns(x)),
    "rows of a table": lambda x: TABLE[(x > 0).long() + 2],
    "an average of more than there is": lambda x: F.avg_pool2d(x, 20, ceil_mode=True),
}

OF_TOKENS: dict[str, Callable[[Tensor], Tensor]] = {
    "positions": lambda t: F.embedding((t != 1).int().cumsum(1).type_as(t) * (t != 1) + 1, TABLE),
    "tokens as numbers": lambda t: t.float() * 0.5 + t,
    "a mask": lambda t: (1.0 - t.bool()[:, None].float()) * -10,
    "another shape": lambda t: F.embedding(t.view(len(t), -1, 1), TABLE).squeeze(2),
    "types of tokens": lambda t: F.embedding(torch.arange(40)[None].expand(len(t), -1).gather(1, t), TABLE),
    "twice the tokens": lambda t: F.embedding(t[:, 1:] * 2, TABLE),
    "causal and padded": lambda t: (torch.ones(t.shape[1], t.shape[1]).tril().bool() & (t != 1)[:, None]).float(),
}


@torch.no_grad()
def assert_same(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    model = Function(function)
    graph = from_bytes(adaste.pack(model, x))
    runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    wanted = model(x).float().numpy()
    for found in (
        PackedNetwork(graph)(x).numpy(),
        runtime.load_bytes(adaste.pack(model, x))(x.numpy()),
    ):
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= 2e-6 * max(1, np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("sides", MAPS, ids=str)
@pytest.mark.parametrize("name", OF_MAPS)
def test_comparisons_and_places_of_maps_are_those_of_torch(name: str, sides: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    assert_same(OF_MAPS[name], torch.randn(3, *sides))


@pytest.mark.parametrize("count", [2, 5, 19])
@pytest.mark.parametrize("name", OF_TOKENS)
def test_computations_on_tokens_are_those_of_torch(name: str, count: int) -> None:
    tokens = torch.randint(0, 15, (3, count))
    tokens[0, -1] = tokens[1, 0] = 1
    assert_same(OF_TOKENS[name], tokens)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x.round().int() & 1, "aten.round"),
        (lambda x: (x > 0).int() & (x < 1).int(), r"must be of truth values \(bool\), got torch.int32"),
        (lambda x: x.int().float(), "values are float32, got torch.int32"),
        (lambda x: x[(x > 0).long()], "must not depend on the image"),
        (lambda x: x[:, [0, 1], [0, 1]], "those of one dimension"),
        (lambda x: x[:, torch.tensor([[0, 1], [1, 0]])], r"must be a row, got \(2, 2\)"),
        (lambda x: x[..., torch.arange(200) % 3], "may fall into 64 slices"),
        (
            lambda x: x.gather(1, torch.zeros(1, 1, 1, 1, dtype=torch.long).expand(len(x), 1, 4, 6)),
            "from a constant by computed places alone",
        ),
        (
            lambda x: (
                torch.randn(1, 4)
                .expand(len(x), 4)
                .mul(torch.arange(len(x))[:, None])
                .gather(1, (x[:, 0, 0] > 0).long())
            ),
            "the same for all inputs",
        ),
        (lambda x: F.unfold(x, 3, padding=1), "side by side and cover the map"),
        (lambda x: F.fold(F.unfold(x, 2, stride=2), (4, 6), 2, stride=2, padding=0)[:, :, ::3].cumprod(1), "cumprod"),
        (lambda x: torch.einsum("bchw->bhw", x), "an einsum must be a product of two tensors"),
        (lambda x: torch.einsum("bchw,bchw->bch", x, x).cumprod(1), "cumprod"),
        (lambda x: torch.einsum("bchw,bcij->bij", x, x), "whose letters are all in the result or in both"),
        (lambda x: x.flatten(1).repeat(1, 200).cumsum(1), "may have 4096 places"),
    ],
)
def test_what_cannot_be_packed_is_refused_with_the_reason(function: Callable[[Tensor], Tensor], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adaste.pack(Function(function), torch.randn(3, 2, 4, 6))


class Masked(nn.Module):
    """Attention that leaves out what a mask of whole numbers does."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(15, 8), nn.Linear(8, 8)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.layer(self.table(tokens)).unflatten(2, (2, 4)).transpose(1, 2)
        seen = mask.bool()[:, None, None]
        return F.scaled_dot_product_attention(x, x, x, seen.expand(-1, -1, x.shape[2], -1)) * seen.transpose(2, 3)


@torch.no_grad()
def test_what_a_mask_leaves_out_changes_nothing() -> None:
    runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")
    tokens, mask = torch.randint(0, 15, (4, 7)), (torch.arange(7) < torch.tensor([[7], [1], [4], [2]])).long()
    example: Mapping[str, Tensor] = {"tokens": tokens, "mask": mask}
    net = runtime.load_bytes(adaste.pack(Masked().eval(), example, allow_float=True))
    first = net(tokens=tokens.numpy(), mask=mask.numpy())
    other = torch.where(mask > 0, tokens, torch.randint(0, 15, (4, 7)))
    np.testing.assert_array_equal(net(tokens=other.numpy(), mask=mask.numpy()), first)
    assert np.abs(net(tokens=other.numpy(), mask=np.ones((4, 7), np.int64)) - first).max() > 0.01
