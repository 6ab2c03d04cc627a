"""Images that stay on the host: a thread reads ahead, and copies to the device run beside the steps."""

import functools
import queue
import sys
import threading
from collections.abc import Generator

import numpy as np
import torch
from torch import Tensor

from adaste.data import Split
from adaste.training.feed import Feed

SLOTS = 3
"""Batches on their way: one being read, one ready, one being copied."""


class Streaming(Feed):
    """Images in the memory of the host, or memory-mapped from its disk."""

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

    def beside(self) -> Feed:
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
    """The batches of a pass in their slots, read by a thread. It knows nothing of the feed: one dropped ends it."""
    # Simple ones: a dropped feed may be found as garbage, and its pass closed, in the middle of a get or a put.
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
    """One batch on its way to the device: filled by the reading thread, which also sends it."""

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
            # The zeros may not be written yet, nor what had this memory before be done with it.
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            for kept in (self._device_images, self._device_labels):
                kept.record_stream(self._stream)  # dropped in the middle of a copy, it is nobody else's until the end

    def read(self, split: Split, index: np.ndarray) -> None:
        """Gather the images on the host, and send them to the device on a stream of their own."""
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
        """The images, once they have arrived, for the stream that asks."""
        if self._arrived is not None:
            # Of this device: without being told, torch takes the stream of the current one.
            self._arrived.wait(torch.cuda.current_stream(self._device))
        return self._device_images

    @property
    def labels(self) -> Tensor:
        """The labels; ask for the images first."""
        return self._device_labels

    def done(self) -> None:
        """The stream that asked has read what it wanted."""
        if self._consumed is not None:
            self._consumed.record(torch.cuda.current_stream(self._device))


def _gather(source: np.ndarray, index: np.ndarray, target: np.ndarray) -> None:
    """-1, the padding, is the last image."""
    if source.flags.c_contiguous:
        # Not numpy's usual mode, which gathers into a buffer of its own first.
        np.take(source, index, axis=0, out=target, mode="wrap")
    else:
        target[...] = source[index]  # np.take would copy all images first, for every batch


@functools.cache
def _stream_of_copies(device: torch.device) -> torch.cuda.Stream:
    """The stream on which all feeds send to `device`.

    torch hands out the same 32 streams of a priority again and again: one of the usual priority may one day be the
    stream on which a graph is captured, and a copy sent to it by another thread would become part of the graph.
    """
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
