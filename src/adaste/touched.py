"""Weights that others than their optimizer have written into, as `model.load_state_dict` does.

An optimizer that keeps latents writes its weights anew at every step: what others have written there is lost. Torch
counts the writes into every tensor. So a step only compares counts, and looks at the weights themselves where these
differ; a CUDA graph that holds a step does not look.
"""

from collections.abc import Iterable

import torch

from adaste.cells import Cell
from adaste.estimators import Estimator
from adaste.shards import local
from adaste.warned import warn_user


class Writes:
    """The writes into the weights of one optimizer, which are given as its cells, always in the same order."""

    def __init__(self) -> None:
        self._known: list[int] = []

    def accept(self, cells: Iterable[Cell]) -> None:
        """All writes so far were the optimizer's own."""
        self._known = [cell.weight._version for cell in cells]

    def by_others(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that were written into since then; cells that are new since then are left out."""
        found = [cell for cell, known in zip(cells, self._known, strict=False) if cell.weight._version != known]
        # To look at weights is to wait for them, which a capture does not allow.
        on_gpu = any(cell.weight.is_cuda for cell in found)
        return [] if on_gpu and torch.cuda.is_current_stream_capturing() else found


def warn_of_lost(cells: Iterable[tuple[Cell, Estimator]]) -> None:
    """Say whose weights will be lost."""
    names = [cell.name for cell, estimator in cells if _is_lost(cell, estimator)]
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        warn_user(
            f"others than the optimizer have changed {names[0]}{more}, as model.load_state_dict does: this is "
            "lost, for the optimizer writes all weights anew from its latents. Load a network before its optimizer is "
            "made, or load the optimizer's own state after it"
        )


@torch.no_grad()
def _is_lost(cell: Cell, estimator: Estimator) -> bool:
    """Whether the next step overwrites the weights it finds by quite other ones; waits for the device."""
    latent = local(cell.latent)
    weight = local(cell.weight).to(latent.dtype)
    own = estimator.weight(latent, weight)
    if not torch.equal(estimator.carry(latent, weight), estimator.carry(latent, own)):
        return False  # the method goes on from the weights it finds
    # What was changed for a while and put back may differ by rounding.
    return bool((weight - own).norm() > torch.finfo(cell.weight.dtype).eps ** 0.5 * own.norm())
