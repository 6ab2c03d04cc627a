"""The distribution of latents, as numbers to draw."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 81
"""An odd number: the middle one is around zero."""

REACH = 4.0
"""Standard deviations from zero to either end; what lies beyond is counted in the outermost bins."""


@dataclass(frozen=True)
class Histogram:
    """How many latents lie in each of equally wide bins from -reach to +reach; the outermost hold all beyond."""

    reach: float
    counts: tuple[int, ...]


@torch.no_grad()
def histogram(latents: Sequence[Tensor]) -> Histogram | None:
    """The histogram of all numbers in `latents`; None where there are none."""
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
