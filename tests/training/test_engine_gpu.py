"""On a CUDA device, whatever the recipe: steps resume exactly, streamed ones never wait, and all report NaN."""

import copy
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from adaste.data.augment import Crop, Flip, Mixup
from adaste.estimators.schedules import Steps
from adaste.recipes.recipe import Recipe
from adaste.training.batches import Resident, Streaming, _stream_of_copies
from adaste.training.execution import ExecutionMode, algorithms
from adaste.training.records import DivergedError, Record
from adaste.training.trainer import Training
from support.small_runs import (
    CONVOLUTIONAL,
    InterruptedTrainingError,
    Pooled,
    assert_same,
    small_data,
    small_recipe,
    timeless,
    weights_of,
)

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda", 0)
several_devices = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
RECIPES = {
    "annealed": small_recipe("adaste-printed-annealed", network=CONVOLUTIONAL, augmentation=(Crop(1), Flip())),
    "adam, mixup": small_recipe("pmf", augmentation=(Crop(1), Mixup())),
    "noise": small_recipe("bayesbinn"),
    "bfloat16": small_recipe("adaste", network=CONVOLUTIONAL, precision="bfloat16", holdout=20),
}


@pytest.fixture(autouse=True)
def _deterministic():
    with algorithms(True, CUDA):
        yield


def training_on_gpu(made: Recipe, engine: str = "graph") -> Training:
    training = Training(made, small_data(), device=CUDA, engine=engine)
    assert training.execution.mode is ExecutionMode(engine), training.execution.reason
    return training


def finished(training: Training) -> list[Record]:
    records = list(training.run())
    torch.cuda.synchronize()
    return records


@pytest.mark.parametrize(
    ("name", "engine", "interrupted_after"),
    [*((name, "graph", 9) for name in RECIPES), *(("annealed", mode.value, 2) for mode in ExecutionMode)],
)
def test_an_interrupted_training_resumed_ends_the_same_to_the_last_bit(
    name: str, engine: str, interrupted_after: int
) -> None:
    made = RECIPES[name]
    whole = training_on_gpu(made, engine)
    wanted = timeless(finished(whole))
    first, steps = training_on_gpu(made, engine), 0

    def stop() -> None:
        nonlocal steps
        steps += 1
        if steps == interrupted_after:
            raise InterruptedTrainingError

    with pytest.raises(InterruptedTrainingError):
        list(first.run(stop))
    state = copy.deepcopy(first.state_dict())
    second = training_on_gpu(made, engine)
    second.load_state_dict(state)
    rest = timeless(finished(second))
    assert rest == wanted[len(wanted) - len(rest) :]
    assert_same(weights_of(second), weights_of(whole))


@pytest.mark.parametrize("engine", [mode.value for mode in ExecutionMode])
@pytest.mark.parametrize("name", [name for name in RECIPES if name != "noise"])
def test_a_training_warmed_up_and_restarted_trains_as_a_new_one(name: str, engine: str) -> None:
    made = RECIPES[name]
    wanted = finished(training_on_gpu(made.with_seed(3), engine))
    used = training_on_gpu(made, engine)
    used.warm_up()
    assert len(finished(used)) == made.epochs
    used.restart(3)
    found = finished(used)
    # A new one makes its first step uncompiled, which rounds otherwise: a sign or two may be others.
    assert found[0].loss == pytest.approx(wanted[0].loss, rel=0.0 if engine == "eager" else 1e-2)
    weights = weights_of(used)
    used.restart(3)
    assert timeless(finished(used)) == timeless(found)
    assert_same(weights_of(used), weights)


def test_a_graph_of_each_side_trains_as_the_eager_step() -> None:
    made = small_recipe("adaste", network=Pooled(), side=Steps(values=(4, 5, 8), ticks=(1, 2)), precision="bfloat16")
    graphs, eager = training_on_gpu(made), training_on_gpu(made, "eager")
    graphs.warm_up()
    for record, wanted in zip(finished(graphs), finished(eager), strict=True):
        assert record.loss == pytest.approx(wanted.loss, rel=5e-2)
    graphs.restart()
    first = [record.loss for record in finished(graphs)]
    graphs.restart()
    assert [record.loss for record in finished(graphs)] == first


@pytest.mark.parametrize("engine", ["eager", "compiled", "graph"])
def test_a_gradient_that_is_not_finite_is_reported_with_epoch_step_and_parameter(engine: str) -> None:
    training = training_on_gpu(small_recipe("full-precision"), engine)

    def spoil() -> None:
        if (training.epoch, training.step) == (1, 3):
            with torch.no_grad():
                next(training.model.parameters()).fill_(math.nan)

    with pytest.raises(DivergedError, match=r"epoch 2, step 4: the gradient of .*weight") as caught:
        list(training.run(spoil))
    assert (caught.value.epoch, caught.value.step) == (1, 3)


def test_a_diverged_training_gives_no_state() -> None:
    training = training_on_gpu(small_recipe("full-precision"))

    def spoil() -> None:
        if (training.epoch, training.step) == (1, 3):
            with torch.no_grad():
                next(training.model.parameters()).fill_(math.nan)
        if (training.epoch, training.step) == (1, 5):
            training.state_dict()

    with pytest.raises(DivergedError, match=r"epoch 2, step 4"):
        list(training.run(spoil))
    assert training.step == 5


@pytest.mark.parametrize(("name", "engine"), [("annealed", "eager"), ("annealed", "graph"), ("adam, mixup", "graph")])
def test_streaming_equals_resident_to_the_last_bit(name: str, engine: str, monkeypatch) -> None:
    made = RECIPES[name]
    resident = training_on_gpu(made, engine)
    assert isinstance(resident.feed, Resident)
    wanted = timeless(finished(resident))
    monkeypatch.setattr("adaste.training.batches.SHARE_OF_MEMORY", 0.0)
    streamed = training_on_gpu(made, engine)
    assert isinstance(streamed.feed, Streaming)
    assert timeless(finished(streamed)) == wanted
    assert_same(weights_of(streamed), weights_of(resident))


def test_a_feed_made_while_the_device_is_busy_brings_its_first_batch() -> None:
    test = small_data().test
    order = torch.arange(20).view(1, 20)
    torch.cuda._sleep(1_000_000_000)  # type: ignore[attr-defined]  # about half a second
    feed = Streaming(test, CUDA, 20)
    feed.start(order, 0)
    feed.advance()
    images, labels = feed.batch(order[0])
    assert_same([images.cpu(), labels.cpu()], [torch.tensor(test.images[:20]), torch.tensor(test.labels[:20])])


def test_copies_have_a_stream_that_no_capture_gets() -> None:
    """torch's streams come round again: a feed that shared one with a capture would end up in the graph."""
    pool = {torch.cuda.Stream(CUDA).cuda_stream for _ in range(64)}  # type: ignore[no-untyped-call]
    assert _stream_of_copies(CUDA).cuda_stream not in pool


def test_a_feed_waits_on_streams_of_its_own_device(monkeypatch) -> None:
    """The current stream is that of the current device, where a feed need not be."""
    current = torch.cuda.current_stream

    def of_a_device(device=None):
        assert device is not None or threading.current_thread() is not threading.main_thread()
        return current(device)

    feed, order = Streaming(small_data().test, CUDA, 5), torch.arange(40).view(8, 5)
    monkeypatch.setattr(torch.cuda, "current_stream", of_a_device)
    feed.start(order, 0)
    for _ in order:
        feed.advance()


@several_devices
def test_a_feed_on_another_device_than_the_current_one_brings_every_batch() -> None:
    test, order, other = small_data().test, torch.arange(40).view(8, 5), torch.device("cuda", 1)
    feed = Streaming(test, other, 5)
    with torch.cuda.device(other):
        torch.cuda._sleep(1_000_000_000)  # type: ignore[attr-defined]  # about half a second
    feed.start(order, 0)
    taken = []
    for index in order:
        feed.advance()
        taken += [batch.clone() for batch in feed.batch(index)]
    wanted = [torch.tensor(part[index.numpy()]) for index in order for part in (test.images, test.labels)]
    assert_same([batch.cpu() for batch in taken], wanted)


def test_a_device_without_a_number_has_the_stream_of_the_current_one() -> None:
    with torch.cuda.device(CUDA):
        feeds = [Streaming(small_data().test, device, 5) for device in (torch.device("cuda"), CUDA)]
    assert feeds[0]._slots[0]._stream == feeds[1]._slots[0]._stream


ON_THE_SECOND = """
import torch
from support.small_runs import small_data
from adaste.training.batches import Streaming
torch.cuda.set_device(1)
feed = Streaming(small_data().test, torch.device("cuda", 1), 5)
feed.start(torch.arange(40).view(8, 5), 0)
for _ in range(8):
    feed.advance()
torch.cuda.synchronize()
assert not torch._C._cuda_hasPrimaryContext(0)
"""


@several_devices
def test_a_feed_on_the_second_device_takes_nothing_of_the_first() -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run([sys.executable, "-c", ON_THE_SECOND], env={**os.environ, "PYTHONPATH": paths}, timeout=120)
    assert done.returncode == 0


@pytest.mark.parametrize("streaming", [False, True], ids=["resident", "streaming"])
def test_steps_never_wait_for_the_device(streaming: bool, monkeypatch) -> None:
    if streaming:
        monkeypatch.setattr("adaste.training.batches.SHARE_OF_MEMORY", 0.0)
    made = small_recipe("adaste-printed-annealed", network=CONVOLUTIONAL, augmentation=(Crop(1), Flip()))
    training, watched = training_on_gpu(made), 0

    def watch() -> None:
        """From the second step of later epochs to their last: replays only."""
        nonlocal watched
        inside = training.epoch > 0 and training.step < training.steps_per_epoch
        torch.cuda.set_sync_debug_mode("error" if inside else "default")
        watched += inside

    try:
        list(training.run(watch))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert watched == 2 * (training.steps_per_epoch - 1)


def test_evaluation_in_the_middle_of_an_epoch_changes_nothing() -> None:
    made = RECIPES["annealed"]
    whole, disturbed = training_on_gpu(made), training_on_gpu(made)
    wanted = timeless(finished(whole))
    assert timeless(list(disturbed.run(disturbed.evaluate))) == wanted
    assert_same(weights_of(disturbed), weights_of(whole))


def test_a_device_without_a_number_gets_that_of_the_current_one() -> None:
    with torch.cuda.device(CUDA):
        training = Training(RECIPES["annealed"], small_data(), device=torch.device("cuda"), engine="graph")
    assert training.device == training._cursor.device == CUDA


@several_devices
def test_a_training_stays_on_its_device_whichever_is_current_later() -> None:
    made = RECIPES["annealed"]
    wanted = timeless(finished(training_on_gpu(made)))
    with torch.cuda.device(CUDA):
        training = Training(made, small_data(), device=torch.device("cuda"), engine="graph")
    with torch.cuda.device(1):
        assert timeless(finished(training)) == wanted
