"""A function graphed as a graph, on a device that only pretends: whole or not at all, and waited for after errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

from adaste.training.execution import WARM_UP, CudaGraphed
from support.small_runs import CPU


class Pretended:
    """Work is done at once, or noted in the graph that is being captured; streams note for whom they wait."""

    def __init__(self) -> None:
        self.counts, self.waits = [0, 0], list[tuple[str, str]]()
        self.graph: _Graph | None = None
        self.current = _Stream(self, "usual")

    def count(self, place: int) -> None:
        def work() -> None:
            self.counts[place] += 1

        work() if self.graph is None else self.graph.nodes.append(work)

    @contextmanager
    def stream(self, stream: "_Stream") -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def capture(self, graph: "_Graph", **settings: Any) -> Iterator[None]:
        self.graph = graph
        try:
            yield
        finally:  # as torch does: a capture is ended whatever happens in it
            self.graph = None


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[Callable[[], None]] = []

    def replay(self) -> None:
        for node in self.nodes:
            node()


class _Stream:
    def __init__(self, device: Pretended, name: str) -> None:
        self.device, self.name = device, name

    def wait_stream(self, other: "_Stream") -> None:
        self.device.waits.append((self.name, other.name))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    pretended = Pretended()
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "Stream", lambda: _Stream(pretended, "side"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: pretended.current)
    monkeypatch.setattr(torch.cuda, "stream", pretended.stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", _Graph)
    monkeypatch.setattr(torch.cuda, "graph", pretended.capture)
    return pretended


def failing_at(calls: set[int], device: Pretended) -> Callable[[], None]:
    """A function of two halves that fails between them at these calls."""
    made = -1

    def function() -> None:
        nonlocal made
        made += 1
        device.count(0)
        if made in calls:
            raise InterruptedError
        device.count(1)

    return function


def test_every_call_counts_and_those_after_the_first_few_are_replays(device: Pretended) -> None:
    called = 0

    def function() -> None:
        nonlocal called
        called += 1
        device.count(0)

    graphed = CudaGraphed(function, CPU)
    for calls in range(1, 8):
        graphed()
        assert device.counts[0] == calls
    assert called == WARM_UP + 1


def test_an_error_during_the_capture_leaves_no_half_of_a_graph(device: Pretended) -> None:
    graphed = CudaGraphed(failing_at({WARM_UP}, device), CPU)
    for _ in range(WARM_UP):
        graphed()
    with pytest.raises(InterruptedError):
        graphed()
    for _ in range(2):
        graphed()
    assert device.counts == [WARM_UP + 2, WARM_UP + 2]


def test_a_call_that_failed_is_made_up_for_before_the_capture(device: Pretended) -> None:
    graphed = CudaGraphed(failing_at({0}, device), CPU)
    with pytest.raises(InterruptedError):
        graphed()
    device.counts[:] = [0, 0]
    for _ in range(WARM_UP):
        graphed()
        assert graphed._graph is None
    graphed()
    assert graphed._graph is not None
    assert device.counts == [WARM_UP + 1, WARM_UP + 1]


def test_what_a_failing_call_has_begun_is_waited_for(device: Pretended) -> None:
    with pytest.raises(InterruptedError):
        CudaGraphed(failing_at({0}, device), CPU)()
    assert device.waits == [("side", "usual"), ("usual", "side")]
