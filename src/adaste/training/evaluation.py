"""Accuracy of a network on a split, and BatchNorm statistics for weights other than those of training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adaste.data.augment import Augmentation
from adaste.optim.norm_statistics import BatchMeans, norms_with_statistics
from adaste.training.batches import BatchCursor
from adaste.training.cuda_graph import Accelerator, CudaGraphed
from adaste.training.distributed import World
from adaste.training.execution import ExecutionMode, compiled_method

BATCH = 1000
"""Images in a batch of evaluation."""

PADDING = -1
"""The index of an image that fills up the last batch."""


@dataclass(frozen=True)
class Score:
    """Loss and accuracy of a network on a split."""

    loss: float
    accuracy: float
    """In percent."""
    count: int


class Evaluation:
    """Computes the mean cross-entropy and the accuracy of `network`, with the weights it has when called."""

    def __init__(
        self,
        *,
        network: nn.Module,
        cursor: BatchCursor,
        augmentation: Augmentation,
        dtype: torch.dtype,
        mode: ExecutionMode,
        world: World,
    ) -> None:
        self._network, self._cursor, self._augmentation = network, cursor, augmentation
        self._dtype, self._world = dtype, world
        self._totals = torch.zeros(3, dtype=torch.float64, device=cursor.device)
        self._order = evaluation_order(cursor.feed.count, world)
        self._run = prepare_step(self._step, network, mode, cursor.device)

    @torch.no_grad()
    def __call__(self) -> Score:
        self._cursor.begin(self._order, {})
        self._totals.zero_()
        with in_mode(self._network, training=False):
            for _ in self._order:
                self._cursor.feed.advance()
                self._run()
        loss, correct, count = self._world.add(self._totals.clone()).tolist()
        return Score(loss / count, 100 * correct / count, round(count))

    def _step(self) -> None:
        raw = self._cursor.next()
        logits = self._network(self._augmentation.prepare(raw.images, self._dtype)).float()
        real = raw.index != PADDING
        losses = torch.where(real, F.cross_entropy(logits, raw.labels, reduction="none"), 0.0)
        correct = real & (logits.argmax(1) == raw.labels)
        self._totals.add_(torch.stack([losses.double().sum(), correct.sum().double(), real.sum().double()]))


class NormEstimation:
    """Estimates BatchNorm statistics for the present weights: means over a few batches, augmented as in training.

    While weights are soft, the running statistics are those of the soft weights, and rounded weights need their own.
    Weights of +-1 flip between the batches over which the running statistics were averaged. The new statistics must
    come from batches like those of training: with unaugmented images, accuracy is lower. `order` and `draws` are this
    process's part of the batches.
    """

    def __init__(
        self,
        *,
        network: nn.Module,
        cursor: BatchCursor,
        augmentation: Augmentation,
        dtype: torch.dtype,
        mode: ExecutionMode,
        order: Tensor,
        draws: dict[str, Tensor],
        world: World,
    ) -> None:
        self._network, self._cursor, self._augmentation, self._dtype = network, cursor, augmentation, dtype
        self._order, self._draws, self._world = order, draws, world
        self._means = BatchMeans(norms_with_statistics(network))
        self._run = prepare_step(self._step, network, mode, cursor.device)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside, the network has the new statistics; afterwards those of training again."""
        with self._means.put_back():
            if self._means.norms:
                self._estimate()
            yield

    @torch.no_grad()
    def _estimate(self) -> None:
        self._cursor.begin(self._order, self._draws)
        with in_mode(self._network, training=True), self._means.gathering():
            for _ in self._order:
                self._cursor.feed.advance()
                self._run()
                self._means.add()
        self._world.average_buffers(self._network)

    def _step(self) -> None:
        raw = self._cursor.next()
        self._network(self._augmentation.apply(raw.images, raw.labels, raw.draws, self._dtype).images)


def prepare_step(
    step: Callable[[], None], network: nn.Module, mode: ExecutionMode, device: torch.device
) -> Callable[[], None]:
    """Return `step`, which calls `network` without gradients, prepared for the given mode."""
    if mode is not ExecutionMode.GRAPH:
        return compiled_method(step) if mode is ExecutionMode.COMPILED else step
    accelerator = Accelerator(network, device)

    def faster() -> None:
        with accelerator():
            step()

    return CudaGraphed(faster, device)


def evaluation_batch(count: int, world: World) -> int:
    """Return the size of an evaluation batch on each process."""
    return min(BATCH, -(-count // world.size))


def evaluation_order(count: int, world: World) -> Tensor:
    """Return the images of each step on this process, (steps, b); together the processes see every image once."""
    batch = evaluation_batch(count, world)
    steps = -(-count // (batch * world.size))
    index = torch.arange(steps * batch * world.size)
    index = torch.where(index < count, index, PADDING)
    return index.view(steps, world.size, batch)[:, world.rank].contiguous()


@contextmanager
def in_mode(network: nn.Module, *, training: bool) -> Iterator[None]:
    """`network` in training or evaluation mode, afterwards in the mode it was in."""
    before = network.training
    network.train(training)
    try:
        yield
    finally:
        network.train(before)
