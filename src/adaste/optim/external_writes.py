"""Weights that others than their optimizer have written into, as `model.load_state_dict` does.

An optimizer that keeps latents writes its weights anew at every step: what others have written there is lost. Torch
counts the writes into every tensor. So a step only compares counts, and looks at the weights themselves where these
differ; a CUDA graph that holds a step does not look.
"""

from collections.abc import Iterable

import torch

from adaste._util.warnings import warn_user
from adaste.estimators import Estimator
from adaste.optim.parameters import TrainedParameter
from adaste.optim.sharding import local


class Writes:
    """The writes into the weights of one optimizer, which are given as its parameters, always in the same order."""

    def __init__(self) -> None:
        self._known: list[int] = []

    def accept(self, parameters: Iterable[TrainedParameter]) -> None:
        """All writes so far were the optimizer's own."""
        self._known = [each.weight._version for each in parameters]

    def by_others(self, parameters: Iterable[TrainedParameter]) -> list[TrainedParameter]:
        """The parameters that were written into since then; those that are new since then are left out."""
        found = [each for each, known in zip(parameters, self._known, strict=False) if each.weight._version != known]
        # To look at weights is to wait for them, which a capture does not allow.
        on_gpu = any(each.weight.is_cuda for each in found)
        return [] if on_gpu and torch.cuda.is_current_stream_capturing() else found


def warn_of_lost(parameters: Iterable[tuple[TrainedParameter, Estimator]]) -> None:
    """Say whose weights will be lost."""
    names = [parameter.name for parameter, estimator in parameters if _is_lost(parameter, estimator)]
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        warn_user(
            f"others than the optimizer have changed {names[0]}{more}, as model.load_state_dict does: this is "
            "lost, for the optimizer writes all weights anew from its latents. Load a network before its optimizer is "
            "made, or load the optimizer's own state after it"
        )


@torch.no_grad()
def _is_lost(parameter: TrainedParameter, estimator: Estimator) -> bool:
    """Whether the next step overwrites the weights it finds by quite other ones; waits for the device."""
    latent = local(parameter.latent)
    weight = local(parameter.weight).to(latent.dtype)
    own = estimator.weight(latent, weight)
    if not torch.equal(estimator.carry(latent, weight), estimator.carry(latent, own)):
        return False  # the method goes on from the weights it finds
    # What was changed for a while and put back may differ by rounding.
    return bool((weight - own).norm() > torch.finfo(parameter.weight.dtype).eps ** 0.5 * own.norm())
