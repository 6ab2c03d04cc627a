"""A function as a CUDA graph: whole or not at all, on streams of its own device, and waited for after errors."""

import pytest
import torch

from adaste.training.execution import WARM_UP, CudaGraphed

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda", 0)


def test_an_error_during_the_capture_leaves_no_half_of_a_graph() -> None:
    first, second, interrupted = torch.zeros((), device=CUDA), torch.zeros((), device=CUDA), False

    def function() -> None:
        first.add_(1)
        if interrupted:
            raise InterruptedError
        second.add_(1)

    graphed = CudaGraphed(function, CUDA)
    for _ in range(WARM_UP):
        graphed()
    interrupted = True
    with pytest.raises(InterruptedError):
        graphed()
    interrupted = False
    for _ in range(2):
        graphed()
    assert (first.item(), second.item()) == (WARM_UP + 2, WARM_UP + 2)


def test_what_a_failing_call_has_begun_is_waited_for() -> None:
    written = torch.zeros((), device=CUDA)

    def function() -> None:
        torch.cuda._sleep(1_000_000_000)  # type: ignore[attr-defined]  # about half a second
        written.fill_(1)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        CudaGraphed(function, CUDA)()
    assert written.item() == 1


def test_a_capture_that_fails_at_its_end_leaves_the_current_stream_alone(monkeypatch) -> None:
    end, before = torch.cuda.CUDAGraph.capture_end, torch.cuda.current_stream(CUDA)

    def failing(graph) -> None:
        end(graph)
        raise RuntimeError("the capture has failed")

    count = torch.zeros((), device=CUDA)
    graphed = CudaGraphed(lambda: count.add_(1), CUDA)
    for _ in range(WARM_UP):
        graphed()
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_end", failing)
    with pytest.raises(RuntimeError, match="the capture has failed"):
        graphed()
    assert torch.cuda.current_stream(CUDA) == before


def test_a_capture_has_a_stream_of_its_own(monkeypatch) -> None:
    """The one that torch would take is of the device that was first captured on."""
    shared = torch.cuda.Stream(CUDA)  # type: ignore[no-untyped-call]
    monkeypatch.setattr(torch.cuda.graph, "default_capture_stream", shared)
    count, used = torch.zeros((), device=CUDA), []

    def function() -> None:
        count.add_(1)
        used.append(torch.cuda.current_stream())

    graphed = CudaGraphed(function, CUDA)
    for _ in range(WARM_UP + 2):
        graphed()
    assert len(used) == WARM_UP + 1
    assert shared not in used
    assert count.item() == WARM_UP + 2


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_functions_on_two_devices_are_both_replayed() -> None:
    counts = [torch.zeros((), device=torch.device("cuda", index)) for index in (0, 1)]
    for count in counts:
        graphed = CudaGraphed(lambda count=count: count.add_(1), count.device)
        for _ in range(WARM_UP + 2):
            graphed()
    assert [count.item() for count in counts] == [WARM_UP + 2, WARM_UP + 2]
