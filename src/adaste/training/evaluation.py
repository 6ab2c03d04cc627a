"""Measurements at the ends of epochs: accuracy on a split, with fitting BatchNorm statistics, and the latents.

Of latents: how many signs flip, the mean over the last epochs, and the histogram at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adaste.data.augment import Augmentation
from adaste.optim.latent_optimizer import LatentOptimizer
from adaste.optim.norm_statistics import BatchMeans, norms_with_statistics
from adaste.training.batches import BatchCursor
from adaste.training.distributed import World
from adaste.training.execution import Accelerator, CudaGraphed, ExecutionMode, compiled_method
from adaste.training.records import Histogram

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


BINS = 81
"""An odd number: the middle one is around zero."""

REACH = 4.0
"""Standard deviations from zero to either end; latents beyond are counted in the outermost bins."""


class FlipCounter:
    """Stores the signs of all binary weights and compares later ones with them."""

    def __init__(self, optimizer: LatentOptimizer) -> None:
        self._optimizer = optimizer
        self._signs: list[Tensor] = []
        self.restart()

    def restart(self) -> None:
        """Store the present signs."""
        self._signs = list(self._optimizer.signs())

    def changes(self) -> tuple[float | None, float | None]:
        """Return the share of weights whose sign has changed, and the mean |theta|; None without binary weights."""
        latents = [latent for _, latent in self._optimizer.latents()]
        if not latents:
            return None, None
        count = sum(latent.numel() for latent in latents)
        changed = [(now != then).sum() for now, then in zip(self._optimizer.signs(), self._signs, strict=True)]
        sizes = [latent.abs().sum(dtype=torch.float64) for latent in latents]
        totals = torch.stack([torch.stack(changed).sum().double(), torch.stack(sizes).sum()])
        flipped, size = (totals / count).tolist()
        return flipped, size

    def latents_are_finite(self) -> bool:
        """Return whether all latents are finite: the signs of others would still look like weights."""
        # A sum is finite only if all its terms are.
        sums = [latent.sum(dtype=torch.float64) for _, latent in self._optimizer.latents()]
        return not sums or bool(torch.stack(sums).isfinite().all())

    def state(self) -> list[Tensor]:
        """Return the stored signs, eight to a byte."""
        return [torch.from_numpy(np.packbits(sign.cpu().numpy())) for sign in self._signs]

    def load(self, state: list[Tensor]) -> None:
        """Store the signs of a `state`."""
        self._signs = [
            torch.from_numpy(np.unpackbits(packed.numpy(), count=sign.numel()).astype(bool))
            .view(sign.shape)
            .to(sign.device)
            for packed, sign in zip(state, self._signs, strict=True)
        ]


class LatentMean:
    """The mean of all latents, those of real weights too, at the ends of the `last` of `epochs` epochs."""

    def __init__(self, optimizer: LatentOptimizer, *, epochs: int, last: int) -> None:
        self._optimizer, self._epochs, self._before = optimizer, epochs, epochs - last
        self._means: list[Tensor] = []

    @torch.no_grad()
    def epoch_ended(self, epochs: int) -> None:
        """Take the latents after so many epochs into the mean; after the last one, replace them by it."""
        count = epochs - self._before
        if count <= 0:
            return
        latents = self._latents()
        self._means = self._means or [torch.zeros_like(latent) for latent in latents]
        for mean, latent in zip(self._means, latents, strict=True):
            mean.lerp_(latent, 1 / count)
        if epochs == self._epochs:
            for mean, latent in zip(self._means, latents, strict=True):
                latent.copy_(mean)  # in place: a captured step reads it
            self._means = []

    def state(self) -> list[Tensor]:
        """Return the means so far; empty before the first of the epochs, and after the last."""
        return self._means

    def load(self, state: list[Tensor]) -> None:
        """Continue from a `state`."""
        latents = self._latents() if state else []
        self._means = [mean.to(latent.device, copy=True) for mean, latent in zip(state, latents, strict=True)]

    def _latents(self) -> list[Tensor]:
        groups = self._optimizer.param_groups
        return [self._optimizer.state[weight]["latent"].detach() for group in groups for weight in group["params"]]


@torch.no_grad()
def histogram(latents: Sequence[Tensor]) -> Histogram | None:
    """Return the histogram of all numbers in `latents`; None if there are none."""
    count = sum(latent.numel() for latent in latents)
    if not count:
        return None
    squares = torch.stack([latent.double().square().sum() for latent in latents]).sum()
    reach = REACH * float(squares / count) ** 0.5 or 1.0
    width = 2 * reach / BINS
    total = torch.zeros(BINS, dtype=torch.int64)
    for latent in latents:
        places = ((latent.double() + reach) / width).floor().clamp(0, BINS - 1).long()
        total += torch.bincount(places.flatten(), minlength=BINS).cpu()
    return Histogram(reach, tuple(total.tolist()))
