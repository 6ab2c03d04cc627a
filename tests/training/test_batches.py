"""Feeds: resident and streaming images are the same images, in the right order, and no thread is left behind."""

import gc
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from adaste.data import Split
from adaste.data.augment import Crop, Mixup
from adaste.training.batches import BatchCursor, Resident, Streaming, choose_feed
from support.small_runs import CPU, assert_same, small_data, small_recipe, small_training, timeless, weights_of

ORDER = torch.randperm(100, generator=torch.Generator().manual_seed(0)).view(20, 5)


@pytest.fixture
def streaming(monkeypatch) -> None:
    monkeypatch.setattr("adaste.training.batches.SHARE_OF_MEMORY", 0.0)


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    gc.collect()
    assert not _readers()


def _readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "adaste-feed"]


def _pass(cursor: BatchCursor, count: int) -> list[torch.Tensor]:
    seen = []
    for _ in range(count):
        cursor.feed.advance()
        raw = cursor.next()
        seen += [raw.images.clone(), raw.labels.clone(), raw.index.clone(), raw.step.clone()]
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1, 7, 19, 20])
def test_a_streamed_pass_equals_a_resident_one_from_any_step_on(first) -> None:
    split = small_data().train
    cursors = [BatchCursor(feed, CPU) for feed in (Resident(split, CPU), Streaming(split, CPU, 5))]
    for cursor in cursors:
        cursor.begin(ORDER, {}, first=first)
    resident, streamed = (_pass(cursor, 20 - first) for cursor in cursors)
    assert_same(streamed, resident)
    for place, index in enumerate(ORDER[first:]):
        assert (streamed[4 * place].numpy() == split.images[index.numpy()]).all()
        assert (streamed[4 * place + 1].numpy() == split.labels[index.numpy()]).all()
        assert int(streamed[4 * place + 3]) == first + place


@pytest.mark.slow
def test_images_in_any_order_of_memory_are_streamed_without_copying_all_of_them() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2000, 3, 16, 16), dtype=np.uint8)
    split = Split(pixels.transpose(0, 2, 3, 1)[:, ::-1], np.arange(4000)[::2])
    order = torch.tensor([[3, 1999, 0], [7, 7, -1]])
    feed = Streaming(split, CPU, batch=3)
    tracemalloc.start()
    feed.start(order, first=0)
    for chosen in order:
        feed.advance()
        images, labels = feed.batch(chosen)
        assert np.array_equal(images.numpy(), split.images[chosen.numpy()])
        assert labels.tolist() == split.labels[chosen.numpy()].tolist()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < split.images.nbytes / 4


@pytest.mark.slow
def test_reading_ahead_keeps_the_order_whoever_is_slower() -> None:
    split, wanted = small_data().train, None
    for slow_reader in (True, False):
        feed = Streaming(_Slow(split) if slow_reader else split, CPU, 5)
        cursor = BatchCursor(feed, CPU)
        cursor.begin(ORDER, {})
        seen = []
        for _ in range(20):
            if not slow_reader:
                time.sleep(0.003)
            seen += _pass(cursor, 1)
        wanted = wanted or seen
        assert_same(seen, wanted)


class _Slow:
    """A split whose images take a while to read."""

    def __init__(self, split: Split) -> None:
        self._split, self.labels = split, split.labels

    def __len__(self) -> int:
        return len(self._split)

    @property
    def images(self) -> np.ndarray:
        time.sleep(0.003)
        return self._split.images


class _Broken(_Slow):
    """A split of which few images can be read."""

    reads = 0

    @property
    def images(self) -> np.ndarray:
        self.reads += 1
        if self.reads > 8:
            raise OSError("the disk is gone")
        return self._split.images


@pytest.mark.slow
def test_an_error_of_the_reading_thread_reaches_the_trainer() -> None:
    cursor = BatchCursor(Streaming(_Broken(small_data().train), CPU, 5), CPU)
    cursor.begin(ORDER, {})
    with pytest.raises(OSError, match="the disk is gone"):
        _pass(cursor, 20)
    assert not _readers()


@pytest.mark.slow
def test_a_pass_given_up_half_way_is_closed_at_once_by_the_next() -> None:
    cursor = BatchCursor(Streaming(small_data().train, CPU, 5), CPU)
    for count in (0, 1, 3, 19):
        cursor.begin(ORDER, {})
        _pass(cursor, count)
    cursor.begin(ORDER, {})
    assert len(_readers()) <= 1
    assert len(_pass(cursor, 20)) == 80


@pytest.mark.slow
def test_a_feed_dropped_half_way_takes_its_thread_along() -> None:
    cursor = BatchCursor(Streaming(small_data().train, CPU, 5), CPU)
    cursor.begin(ORDER, {})
    _pass(cursor, 3)
    assert _readers()
    del cursor
    gc.collect()
    assert not _readers()


class _Collecting(_Slow):
    """A split whose second batch is read when the feed is dropped, by a thread that looks for garbage first."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.dropped, self.reads = threading.Event(), 0

    @property
    def images(self) -> np.ndarray:
        if threading.current_thread() in _readers():
            self.reads += 1
            if self.reads == 2:
                assert self.dropped.wait(timeout=30)
                gc.collect()
        return self._split.images


@pytest.mark.slow
def test_a_feed_found_as_garbage_by_its_own_thread_ends_it_quietly(monkeypatch) -> None:
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    split = _Collecting(small_data().train)
    feed = Streaming(split, CPU, 5)
    feed.itself = feed  # not found by counting references
    gc.disable()
    try:
        feed.start(ORDER, 0)
        feed.advance()
        (reader,) = _readers()
        del feed
        split.dropped.set()
        reader.join(timeout=30)
    finally:
        gc.enable()
    assert not reader.is_alive()
    assert split.reads == 2
    assert not said


@pytest.mark.slow
def test_a_feed_beside_another_does_not_disturb_it() -> None:
    for feed in (Streaming(small_data().train, CPU, 5), Resident(small_data().train, CPU)):
        one, other = BatchCursor(feed, CPU), BatchCursor(feed.fork(), CPU)
        one.begin(ORDER, {})
        before = _pass(one, 2)
        other.begin(ORDER.flip(0), {})
        _pass(other, 5)
        alone = BatchCursor(feed.fork(), CPU)
        alone.begin(ORDER, {})
        assert_same(before + _pass(one, 18), _pass(alone, 20))


@pytest.mark.slow
def test_a_step_before_a_pass_has_begun_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"advance\(\) before start\(\)"):
        Streaming(small_data().train, CPU, 5).advance()


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [small_recipe("adaste", holdout=20), small_recipe("pmf", augmentation=(Crop(1), Mixup()))],
    ids=["holdout", "soft, mixup"],
)
def test_streaming_and_resident_images_train_the_same_to_the_last_bit(made, streaming, monkeypatch) -> None:
    streamed = small_training(made)
    assert isinstance(streamed.feed, Streaming)
    records = timeless(list(streamed.run()))
    monkeypatch.setattr("adaste.training.batches.SHARE_OF_MEMORY", 1.0)
    resident = small_training(made)
    assert isinstance(resident.feed, Resident)
    assert timeless(list(resident.run())) == records
    assert_same(weights_of(streamed), weights_of(resident))


def test_the_feed_follows_from_the_free_memory(monkeypatch) -> None:
    split = small_data().train
    for free, kind in ((4 * split.images.nbytes, Resident), (4 * split.images.nbytes - 1, Streaming)):
        monkeypatch.setattr("adaste.training.batches.free_memory", lambda device, free=free: free)
        assert type(choose_feed(split, CPU, 5)) is kind


FORGOTTEN = """
import gc
from support.small_runs import CPU, small_data
import torch
from adaste.training.batches import Streaming
gc.disable()
feed = Streaming(small_data().train, CPU, 5)
feed.itself = feed  # found as garbage by the last collection only, when all other threads stand still
feed.start(torch.arange(100).view(20, 5), 0)
feed.advance()
del feed
gc.enable()
"""


@pytest.mark.slow
def test_a_program_may_end_in_the_middle_of_a_pass() -> None:
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests), *sys.path])
    done = subprocess.run([sys.executable, "-c", FORGOTTEN], env={**os.environ, "PYTHONPATH": paths}, timeout=60)
    assert done.returncode == 0
