"""On a CUDA device, whatever the recipe: steps resume exactly, streamed ones never wait, and all report NaN."""

import copy
import math

import pytest
import torch
from small_runs import (
    CONVOLUTIONAL,
    InterruptedTrainingError,
    assert_same,
    small_data,
    small_recipe,
    timeless,
    weights_of,
)

from adaste.augment import Crop, Flip, Mixup
from adaste.engine import Resident, Streaming, Way, algorithms
from adaste.engine.streaming import _stream_of_copies
from adaste.recipe import Recipe
from adaste.records import DivergedError, Record
from adaste.train import Training

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda", 0)
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
    assert training.choice.way is Way(engine), training.choice.reason
    return training


def finished(training: Training) -> list[Record]:
    records = list(training.run())
    torch.cuda.synchronize()
    return records


@pytest.mark.parametrize(
    ("name", "engine", "interrupted_after"),
    [*((name, "graph", 9) for name in RECIPES), *(("annealed", way.value, 2) for way in Way)],
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
    monkeypatch.setattr("adaste.engine.feeds.SHARE_OF_MEMORY", 0.0)
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


@pytest.mark.parametrize("streaming", [False, True], ids=["resident", "streaming"])
def test_steps_never_wait_for_the_device(streaming: bool, monkeypatch) -> None:
    if streaming:
        monkeypatch.setattr("adaste.engine.feeds.SHARE_OF_MEMORY", 0.0)
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
