"""Statistics of a run: its best epoch, the time that is left, the histogram of its latents."""

from collections.abc import Sequence

import torch
from torch import Tensor

from adaste.runs.folder import Histogram
from adaste.training.records import Record

RECENT = 5
"""Epochs over whose time the time of the next ones is estimated."""

BINS = 81
"""An odd number: the middle one is around zero."""

REACH = 4.0
"""Standard deviations from zero to either end; latents beyond are counted in the outermost bins."""


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


def seconds_left(records: Sequence[Record], epochs: int) -> float:
    """Return the time that the epochs without a record will take if they are as long as the last ones."""
    recent = records[-RECENT:]
    return (epochs - len(records)) * sum(record.seconds + record.evaluation_seconds for record in recent) / len(recent)


def _tested(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.test_accuracy is not None]


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
