"""One training step: augment, forward, backward, update; eager, compiled, or as one CUDA graph."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adaste.data.augment import Augmentation, Batch, Targets, loss
from adaste.optim.latent_optimizer import LatentOptimizer
from adaste.recipes.distillation import Distillation
from adaste.training.batches import RATES, BatchCursor
from adaste.training.execution import Accelerator, CudaGraphed, ExecutionMode, compiled_method


@dataclass(frozen=True)
class Progress:
    """The totals of the steps of an epoch so far, on this process."""

    loss: float = 0.0
    """Summed over images."""
    correct: float = 0.0
    seen: float = 0.0
    first_bad: int = -1
    """The first step whose loss was not finite; -1 if there is none."""


@dataclass(frozen=True)
class Teacher:
    """A trained network that another one learns from. It is in evaluation mode and stays as it is.

    Args:
        dtype: The type of the images that it computes with.
        sha256: Of the file that it was read from.
    """

    network: nn.Module
    dtype: torch.dtype
    sha256: str


class TrainingStep:
    """Makes one step per call. Nothing in it waits for the device, and every number that changes is read from a tensor.

    The cursor brings the learning rates of each step beside its random numbers, under the name RATES: one for each
    group of the optimizer. They come from the host, because a schedule would be compiled anew for every length.

    With a distillation, its teacher sees the same images as the network: augmented, and mixed with their partners. If
    they are shrunk for the network, the teacher sees them as they were: its BatchNorm knows no others.
    """

    def __init__(
        self,
        *,
        network: nn.Module,
        optimizer: LatentOptimizer,
        cursor: BatchCursor,
        augmentation: Augmentation,
        label_smoothing: float,
        dtype: torch.dtype,
        mode: ExecutionMode,
        distillation: Distillation | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        self._network, self._optimizer, self._cursor = network, optimizer, cursor
        self._augmentation, self._label_smoothing, self._dtype = augmentation, label_smoothing, dtype
        self._distillation, self._teacher = distillation, teacher
        self._totals = torch.zeros(3, dtype=torch.float64, device=cursor.device)
        self._first_bad = torch.full((), -1, dtype=torch.int64, device=cursor.device)
        eager = mode is ExecutionMode.EAGER
        self._batch = self._next_batch if eager else compiled_method(self._next_batch)
        self._judge = self._loss if eager else compiled_method(self._loss)
        # In a graph, our kernels are faster than the compiler's, which uses no second stream.
        networks = nn.ModuleList([network] if teacher is None else [network, teacher.network])
        self._faster = Accelerator(networks, cursor.device) if mode is ExecutionMode.GRAPH else nullcontext
        compiled = mode is ExecutionMode.COMPILED
        self._forward = compiled_method(self._logits) if compiled else self._logits
        self._teach = compiled_method(self._teacher_logits) if compiled and teacher else self._teacher_logits
        self._mode = mode
        self._side: int | None = None
        self._programs: dict[int | None, Callable[[], None]] = {}

    def __call__(self) -> None:
        self._cursor.feed.advance()
        if self._side not in self._programs:
            self._programs[self._side] = self._program(self._side)
        self._programs[self._side]()

    def shrink_to(self, side: int | None) -> None:
        """Show the network squares of `side` x `side` pixels from the next step on; None for images as they are."""
        self._side = side

    def progress(self) -> Progress:
        """Return the totals so far; waits for the device."""
        total, correct, seen = self._totals.tolist()
        return Progress(total, correct, seen, int(self._first_bad))

    def resume(self, progress: Progress) -> None:
        """Continue from these totals."""
        self._totals.copy_(torch.tensor([progress.loss, progress.correct, progress.seen], dtype=torch.float64))
        self._first_bad.fill_(progress.first_bad)

    def renew(self) -> None:
        """Drop captured graphs: they hold the optimizer's tensors, which loading a state replaces."""
        self._programs.clear()

    def _program(self, side: int | None) -> Callable[[], None]:
        step = partial(self._step, side)
        return CudaGraphed(step, self._cursor.device) if self._mode is ExecutionMode.GRAPH else step

    def _step(self, side: int | None) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        step, batch = self._batch()
        with self._faster():
            taught = self._teach(batch.images)
            # Each pixel is the mean of those that it covers.
            images = batch.images if side is None else F.interpolate(batch.images, size=(side, side), mode="area")
            value = self._judge(step, self._forward(images), batch.targets, taught)
            value.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def _next_batch(self) -> tuple[Tensor, Batch]:
        raw = self._cursor.next()
        self._set_rates(raw.draws[RATES])
        return raw.step, self._augmentation.apply(raw.images, raw.labels, raw.draws, self._dtype)

    def _logits(self, images: Tensor) -> Tensor:
        logits: Tensor = self._network(images)
        return logits

    def _teacher_logits(self, images: Tensor) -> Tensor | None:
        if self._teacher is None:
            return None
        with torch.no_grad():
            logits: Tensor = self._teacher.network(images.to(self._teacher.dtype))
            return logits

    def _loss(self, step: Tensor, logits: Tensor, targets: Targets, taught: Tensor | None) -> Tensor:
        value = loss(logits, targets, self._label_smoothing)
        if self._distillation is not None and taught is not None:
            value = self._distillation.loss(value, logits, taught)
        self._account(step, value.detach(), logits.argmax(1) == targets.labels)
        return value

    def _account(self, step: Tensor, value: Tensor, right: Tensor) -> None:
        seen = torch.full_like(value, len(right))
        self._totals.add_(torch.stack([value * seen, right.sum().to(value.dtype), seen]).double())
        known = value.isfinite() | (self._first_bad >= 0)
        self._first_bad.copy_(torch.where(known, self._first_bad, step))

    def _set_rates(self, rates: Tensor) -> None:
        # Not stored: loading a state replaces the groups.
        for group, rate in zip(self._optimizer.param_groups, rates.unbind(), strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(rate)
            else:
                group["lr"] = float(rate)
