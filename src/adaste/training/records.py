"""The outcome of an epoch: its record, or the error that training has diverged."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

RECENT = 5
"""Epochs over whose time the time of the next ones is estimated."""


class DivergedError(RuntimeError):
    """The loss, a gradient or a latent is not finite. `epoch` and `step` count from 0, the message from 1."""

    def __init__(self, epoch: int, step: int, what: str) -> None:
        where = f"epoch {epoch + 1}, step {step + 1}" if step >= 0 else f"epoch {epoch + 1}"
        super().__init__(f"training diverged in {where}: {what}. A smaller learning rate, or a warm-up, may help")
        self.epoch, self.step = epoch, step


@dataclass(frozen=True)
class Record:
    """The numbers of one epoch. Accuracies in percent; those of tests are of the weights as exported."""

    epoch: int
    loss: float
    train_accuracy: float
    test_loss: float | None
    test_accuracy: float | None
    holdout_accuracy: float | None
    lr: float
    method: dict[str, Any]
    """The estimator's numbers at the end of the epoch, such as an annealed mu."""
    flipped: float | None
    """The share of binary weights with another sign than at the start of the epoch."""
    latent: float | None
    """The mean |theta| of binary weights."""
    seconds: float = 0.0
    """The time of training, without evaluation."""
    images_per_second: float = 0.0
    evaluation_seconds: float = 0.0

    @property
    def repeatable(self) -> dict[str, Any]:
        """All fields but those of clocks: the same in every run of a recipe."""
        clocks = ("seconds", "images_per_second", "evaluation_seconds")
        return {name: value for name, value in asdict(self).items() if name not in clocks}

    @property
    def deciding(self) -> float | None:
        """The accuracy that decides which epoch is best."""
        return self.test_accuracy if self.holdout_accuracy is None else self.holdout_accuracy


@dataclass(frozen=True)
class Histogram:
    """How many latents lie in each of equally wide bins from -reach to +reach; the outermost hold all beyond."""

    reach: float
    counts: tuple[int, ...]


def best_of(records: Sequence[Record]) -> Record | None:
    """Return the first record with the highest deciding accuracy; None if nothing was tested."""
    tested = [record for record in records if record.deciding is not None]
    return max(tested, key=lambda record: record.deciding or 0.0, default=None)


def best_tested(records: Sequence[Record]) -> Record | None:
    """Return the first record with the highest test accuracy: chosen on the test images, as in the paper."""
    return max(_tested(records), key=lambda record: record.test_accuracy or 0.0, default=None)


def last_tested(records: Sequence[Record]) -> Record | None:
    """Return the latest record of an epoch that was tested."""
    return next(reversed(_tested(records)), None)


def epoch_seconds(records: Sequence[Record]) -> float:
    """Return how long an epoch takes with its test: the median of the last ones, since the first one compiles, too."""
    return statistics.median(record.seconds + record.evaluation_seconds for record in records[-RECENT:])


def seconds_left(records: Sequence[Record], epochs: int) -> float:
    """Return the time that the epochs without a record will take if they are as long as the last ones."""
    return (epochs - len(records)) * epoch_seconds(records)


def _tested(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.test_accuracy is not None]
