"""While a model is traced, torch is quiet, and nobody else."""

import logging
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import adaste
from support.packed_networks import binarized

LOGGERS = ("torch", "torch._subclasses.fake_tensor", "torch.export", "torch.fx.experimental.symbolic_shapes")


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class OneAtATime(nn.Module):
    """Its layer fits a batch of one alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.reshape(-1))[None]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x[None])[0][0]


class Talking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = binarized(nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        warnings.warn("the model warns", stacklevel=1)
        logging.getLogger("somebody").warning("the model logs")
        print("the model prints", file=sys.stderr)
        return F.relu(self.layer(x))


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What torch logs: its loggers have streams of their own, which tests do not see."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[method-assign]
    for name in LOGGERS:
        logging.getLogger(name).addHandler(handler)
    yield found
    for name in LOGGERS:
        logging.getLogger(name).removeHandler(handler)


@pytest.mark.parametrize("model", [Branching(), OneAtATime(), Recurrent()], ids=lambda model: type(model).__name__)
def test_a_model_that_is_refused_is_an_error_and_no_pages_of_torchs_log(
    model: nn.Module,
    logged: list[logging.LogRecord],
    capsys: pytest.CaptureFixture[str],
    recwarn: pytest.WarningsRecorder,
) -> None:
    before = sys.stderr, list(warnings.filters), [logging.getLogger(name).level for name in LOGGERS]
    with pytest.raises(ValueError):
        adaste.pack(model, torch.ones(1, 8), allow_float=True)
    assert not logged and not recwarn.list and capsys.readouterr() == ("", "")
    assert before == (sys.stderr, list(warnings.filters), [logging.getLogger(name).level for name in LOGGERS])
    logging.getLogger("torch.export").warning("torch may log again")
    assert len(logged) == 1


def test_what_a_model_itself_says_comes_through(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.warns(UserWarning, match="the model warns"):
        adaste.pack(Talking(), torch.ones(1, 8))
    assert capsys.readouterr().err == "the model prints\n"  # when it runs, not when torch follows it
    assert [record.message for record in caplog.records if record.name == "somebody"] == 2 * ["the model logs"]


def test_who_asks_torch_for_its_log_has_it(logged: list[logging.LogRecord]) -> None:
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    logger.setLevel(logging.WARNING)  # as TORCH_LOGS does
    try:
        with pytest.raises(ValueError, match="could not follow"):
            adaste.pack(OneAtATime(), torch.ones(1, 8), allow_float=True)
    finally:
        logger.setLevel(logging.NOTSET)
    assert logged


def settings_of_the_process() -> tuple[object, ...]:
    levels = [logging.getLogger(name).level for name in LOGGERS]
    return sys.stderr, list(warnings.filters), levels, torch.backends.mha.get_fastpath_enabled()


def test_threads_that_pack_at_once_leave_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    export, at_work, most = torch.export.export, [0], [0]

    def watched(*arguments: Any, **options: Any) -> Any:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        time.sleep(0.1)  # for the other thread to come, too
        try:
            return export(*arguments, **options)
        finally:
            at_work[0] -= 1

    monkeypatch.setattr(torch.export, "export", watched)
    before = settings_of_the_process()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: adaste.pack(binarized(nn.Linear(8, 4)), torch.ones(1, 8)), range(2))
    assert settings_of_the_process() == before
    assert most == [1] and len(first) == len(second)
