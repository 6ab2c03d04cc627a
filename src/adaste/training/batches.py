"""The images of each step: kept on the training device, or read ahead on the host; and the cursor that steps read.

The plan of an epoch is the order of the images, the random numbers and the learning rates of its steps.
"""

import functools
import os
import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaste.data import Dataset, Split
from adaste.data.augment import Augmentation, of_rank, order_of_epoch, steps_of_epoch
from adaste.estimators.schedules import Schedule
from adaste.recipes.bases import rate_at
from adaste.recipes.recipe import Recipe
from adaste.training.distributed import World

RATES = "rates"
"""The name of the learning rates in the plan of an epoch."""

SHARE_OF_MEMORY = 0.25
"""The largest part of the free memory of a device that resident images may take."""

SLOTS = 3
"""Batches in flight: one is read, one is ready, one is copied."""


class Feed(ABC):
    """A source of batches of one split: images, uint8 (b, h, w, c), and labels."""

    def __init__(self, split: Split) -> None:
        self.count = len(split.labels)
        self.image_size = (int(split.images.shape[1]), int(split.images.shape[2]))

    @abstractmethod
    def start(self, order: Tensor, first: int) -> None:
        """Begin a pass over the data at step `first`; `order` (steps, b), on the host, has the images' indices."""

    @abstractmethod
    def fork(self) -> "Feed":
        """Return a feed of the same images whose passes are independent of those of this one."""

    @abstractmethod
    def advance(self) -> None:
        """Make the next batch available. Called on the host, before a step that may be captured."""

    @abstractmethod
    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images and labels of the step, whose indices are `index`, on the device. May be captured."""


class Resident(Feed):
    """All images are in the memory of the device."""

    def __init__(self, split: Split, device: torch.device) -> None:
        super().__init__(split)
        self._images = torch.from_numpy(np.array(split.images)).to(device)
        self._labels = torch.from_numpy(np.array(split.labels)).to(device)

    def start(self, order: Tensor, first: int) -> None:
        """Nothing to do: all images are there."""

    def fork(self) -> Feed:
        return self

    def advance(self) -> None:
        """Nothing to do: all images are there."""

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        return self._images[index], self._labels[index]


class Streaming(Feed):
    """Images in the memory of the host or memory-mapped from its disk; a thread reads ahead while steps run."""

    def __init__(self, split: Split, device: torch.device, batch: int) -> None:
        super().__init__(split)
        self._split, self._size = split, batch
        shape = (batch, *split.images.shape[1:])
        # The step reads here, always at the same place, so that it can be captured.
        self._images = torch.zeros(shape, dtype=torch.uint8, device=device)
        self._labels = torch.zeros(batch, dtype=torch.int64, device=device)
        self._slots = [_Slot(shape, device) for _ in range(SLOTS)]
        self._pass: Generator[_Slot, None, None] | None = None

    def start(self, order: Tensor, first: int) -> None:
        if self._pass is not None:
            self._pass.close()
        self._pass = _read_ahead(self._split, self._slots, order[first:].numpy())

    def fork(self) -> Feed:
        return Streaming(self._split, self._images.device, self._size)

    def advance(self) -> None:
        if self._pass is None:
            raise RuntimeError("advance() before start(): a pass over the data must begin first")
        slot = next(self._pass)
        self._images.copy_(slot.images)
        self._labels.copy_(slot.labels)
        slot.done()

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        return self._images, self._labels


def _read_ahead(split: Split, slots: list["_Slot"], order: np.ndarray) -> Generator["_Slot", None, None]:
    """Yield the batches of a pass, read by a thread. It holds no reference to the feed: a dropped feed ends it."""
    # Only simple queues are reentrant: a dropped feed may be collected, and its pass closed, inside of a get or a put.
    free: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
    ready: queue.SimpleQueue[_Slot | BaseException] = queue.SimpleQueue()
    stopped = threading.Event()
    for slot in slots:
        free.put(slot)

    def read() -> None:
        try:
            for index in order:
                slot = free.get()
                if stopped.is_set():
                    return
                slot.read(split, index)
                ready.put(slot)
        except BaseException as error:  # handed to the thread that trains, which raises it
            ready.put(error)

    thread = threading.Thread(target=read, name="adaste-feed", daemon=True)
    thread.start()
    try:
        for _ in order:
            found = ready.get()
            if isinstance(found, BaseException):
                raise found
            yield found
            free.put(found)
    finally:
        stopped.set()
        for slot in slots:
            free.put(slot)
        # At the end of the interpreter other threads stand still for ever, and so would who waits for one. And a feed
        # may be found as garbage by its own thread, which cannot wait for itself.
        if not sys.is_finalizing() and threading.current_thread() is not thread:
            thread.join()


class _Slot:
    """Buffers of one batch, on the host and on the device; the reading thread fills and sends them."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        gpu = device.type == "cuda"
        self._host_images = torch.zeros(shape, dtype=torch.uint8, pin_memory=gpu)
        self._host_labels = torch.zeros(shape[0], dtype=torch.int64, pin_memory=gpu)
        self._arrived = torch.cuda.Event() if gpu else None  # type: ignore[no-untyped-call]
        self._consumed = torch.cuda.Event() if gpu else None  # type: ignore[no-untyped-call]
        self._device_images = torch.zeros(shape, dtype=torch.uint8, device=device) if gpu else self._host_images
        self._device_labels = torch.zeros(shape[0], dtype=torch.int64, device=device) if gpu else self._host_labels
        self._device = self._device_images.device  # with its number, also where the one given has none
        self._stream = _stream_of_copies(self._device) if gpu else None
        if self._stream is not None:
            # The zeros may not be written yet, and earlier users of this memory may not be done with it.
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            for kept in (self._device_images, self._device_labels):
                kept.record_stream(self._stream)  # not given to others before a copy into it has ended

    def read(self, split: Split, index: np.ndarray) -> None:
        """Gather the images on the host and send them to the device on a separate stream."""
        if self._consumed is not None:
            self._consumed.synchronize()
        _gather(split.images, index, self._host_images.numpy())
        _gather(split.labels, index, self._host_labels.numpy())
        if self._stream is not None and self._arrived is not None:
            # Every thread begins on the first GPU, and to go back there from a stream would take memory of it.
            with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
                self._device_images.copy_(self._host_images, non_blocking=True)
                self._device_labels.copy_(self._host_labels, non_blocking=True)
                self._arrived.record(self._stream)

    @property
    def images(self) -> Tensor:
        """The images; the current stream waits until they have arrived."""
        if self._arrived is not None:
            # The stream of this device: without being told, torch takes the stream of the current one.
            self._arrived.wait(torch.cuda.current_stream(self._device))
        return self._device_images

    @property
    def labels(self) -> Tensor:
        """The labels; ask for the images first."""
        return self._device_labels

    def done(self) -> None:
        """Mark the batch as read by the current stream."""
        if self._consumed is not None:
            self._consumed.record(torch.cuda.current_stream(self._device))


def _gather(source: np.ndarray, index: np.ndarray, target: np.ndarray) -> None:
    """Copy the images at `index` into `target`; -1, the padding, is the last image."""
    if source.flags.c_contiguous:
        # Not numpy's usual mode, which gathers into a buffer of its own first.
        np.take(source, index, axis=0, out=target, mode="wrap")
    else:
        target[...] = source[index]  # np.take would copy all images first, for every batch


@functools.cache
def _stream_of_copies(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which all feeds send to `device`.

    torch hands out the same 32 streams of a priority again and again: one of the usual priority may one day be the
    stream on which a graph is captured, and a copy sent to it by another thread would become part of the graph.
    """
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


def choose_feed(split: Split, device: torch.device, batch: int) -> Feed:
    """Return a feed of batches of this size: resident if the images take a small part of the device's free memory."""
    fits = split.images.nbytes <= SHARE_OF_MEMORY * free_memory(device)
    return Resident(split, device) if fits else Streaming(split, device, batch)


def free_memory(device: torch.device) -> int:
    """Return the bytes of memory that are free on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    # The page cache counts as free.
    meminfo = Path("/proc/meminfo")
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    available = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return available[0] if available else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


@dataclass(frozen=True)
class RawBatch:
    """The images of one step as bytes, their labels, and the random numbers of their augmentation."""

    step: Tensor
    """The number of the step in the pass, a tensor without dimensions."""
    index: Tensor
    images: Tensor
    labels: Tensor
    draws: dict[str, Tensor]


class BatchCursor:
    """The position in a pass over a feed, as tensors: a captured step reads the next batch at every replay."""

    def __init__(self, feed: Feed, device: torch.device) -> None:
        self.feed = feed
        self._position = torch.zeros(1, dtype=torch.int64, device=device)
        self.device = self._position.device  # with its number: "cuda" alone is whichever device is current
        self._plan: dict[str, Tensor] = {}

    def begin(self, order: Tensor, draws: dict[str, Tensor], first: int = 0) -> None:
        """Begin a pass at step `first`; `order` (steps, b) has the images' indices, `draws` their random numbers."""
        self.feed.start(order, first)
        plan = {"order": order, **draws}
        if not self._plan:
            self._plan = {name: torch.empty_like(values, device=self.device) for name, values in plan.items()}
        for name, values in plan.items():
            # Into the same memory, which a captured step reads; from pinned memory, so that the host need not wait.
            self._plan[name].copy_(values.pin_memory() if self.device.type == "cuda" else values, non_blocking=True)
        self._position.fill_(first)

    def next(self) -> RawBatch:
        """Return the batch of this step and advance. Part of the step, may be captured."""
        now = {name: values.index_select(0, self._position)[0] for name, values in self._plan.items()}
        index, step = now.pop("order"), self._position.clone()
        images, labels = self.feed.batch(index)
        self._position.add_(1)
        return RawBatch(step[0], index, images, labels, now)


def steps_of_recipe(recipe: Recipe, dataset: Dataset, world: World) -> int:
    """Return the steps of an epoch. Raise ValueError if the batch is too large or not a multiple of the processes."""
    images = len(dataset.train)
    if recipe.holdout >= images:
        raise ValueError(f"holdout must leave images to train with: there are {images}, got {recipe.holdout}")
    world.share(recipe.batch)
    return steps_of_epoch(count=images - recipe.holdout, batch=recipe.batch)


def draw_batches(
    recipe: Recipe,
    augmentation: Augmentation,
    feed: Feed,
    world: World,
    *,
    seed: int,
    epoch: int,
    most: int | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return this process's part of the images of each step, (steps, b), and of their random numbers.

    With `most`, only that many steps from the first on.
    """
    order = order_of_epoch(seed=seed, epoch=epoch, count=feed.count, batch=recipe.batch)[:most]
    draws = augmentation.draw(seed=seed, epoch=epoch, order=order, image_size=feed.image_size, ranks=world.size)
    mine = of_rank({"order": order, **draws}, rank=world.rank, ranks=world.size)
    return mine.pop("order"), mine


class Planner:
    """Makes the plans of all epochs on the host, from the seed of the recipe; each process gets its own part.

    Args:
        rates: Those of the optimizer's parameter groups, as functions of the step.
    """

    def __init__(
        self, recipe: Recipe, augmentation: Augmentation, feed: Feed, world: World, rates: Sequence[float | Schedule]
    ) -> None:
        self._recipe, self._augmentation, self._feed, self._world = recipe, augmentation, feed, world
        self._rates = rates
        self._ahead: tuple[int, Tensor, dict[str, Tensor]] | None = None

    def plan(self, epoch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the images of each step, (steps, batch), and its random numbers and learning rates by name."""
        if self._ahead is None or self._ahead[0] != epoch:
            self.look_ahead(epoch)
        assert self._ahead is not None
        return self._ahead[1:]

    def look_ahead(self, epoch: int) -> None:
        """Make a plan in advance."""
        order, draws = draw_batches(
            self._recipe, self._augmentation, self._feed, self._world, seed=self._recipe.seed, epoch=epoch
        )
        self._ahead = epoch, order, {**draws, RATES: self._rates_of(epoch, len(order))}

    def _rates_of(self, epoch: int, count: int) -> Tensor:
        """Return the learning rate of every group at every step, (steps, groups)."""
        steps = range(epoch * count, (epoch + 1) * count)
        return torch.tensor([[rate_at(rate, step) for rate in self._rates] for step in steps], dtype=torch.float64)
