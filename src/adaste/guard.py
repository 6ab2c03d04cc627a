"""Gradients that are not finite never reach the latents, and are reported without making a step wait.

On the CPU a step that meets one raises before it changes anything. On a GPU the step masks the parameter's update on
the device and remembers it there; a copy of that memory travels to the host on its own, and the first step or query
that finds it arrived raises.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class NonFiniteGradientError(RuntimeError):
    """A gradient holds NaN or infinite values; the latents of its parameter are as they were."""

    def __init__(self, names: Sequence[str]) -> None:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        super().__init__(
            f"the gradient of {shown} holds NaN or infinite values: only finite gradients are allowed; the latents "
            "of these parameters were left unchanged (look at the loss and the learning rate, or use a GradScaler)"
        )
        self.names = list(names)


def require_finite(grads: Sequence[Tensor], names: Sequence[str]) -> None:
    """Raise at once; for gradients on the CPU."""
    found = [name for grad, name in zip(grads, names, strict=True) if not _is_finite(grad)]
    if found:
        raise NonFiniteGradientError(found)


class GradientGuard:
    """Remembers, on the devices, the largest |g| that each of an optimizer's parameters has met."""

    def __init__(self) -> None:
        self._largest: dict[str, Tensor] = {}
        self._arriving: tuple[list[str], list[Tensor], torch.cuda.Event] | None = None

    def memory(self, name: str, device: torch.device) -> Tensor:
        """Where the largest |g| of a parameter is kept; NaN and infinity stay once they are in."""
        return self._largest.setdefault(name, torch.zeros((), device=device))

    def poll(self) -> None:
        """Raise if news of a gradient that is not finite has arrived, or else send for news; does not wait."""
        if not self._largest or torch.cuda.is_current_stream_capturing():
            return
        if self._arriving is None:
            names: list[str] = []
            hosts: list[Tensor] = []
            for device in {largest.device for largest in self._largest.values()}:
                here = {name: largest for name, largest in self._largest.items() if largest.device == device}
                host = torch.empty(len(here), pin_memory=True)
                hosts.append(host.copy_(torch.stack(list(here.values())), non_blocking=True))
                names += here
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            self._arriving = names, hosts, event
        elif self._arriving[2].query():  # type: ignore[no-untyped-call]
            names, hosts, _ = self._arriving
            self._arriving = None
            self._raise(names, torch.cat(hosts))

    def wait(self) -> None:
        """Raise for what was met so far; waits for the devices."""
        if self._largest:
            self._raise(list(self._largest), torch.stack([largest.cpu() for largest in self._largest.values()]))

    def _raise(self, names: list[str], largest: Tensor) -> None:
        found = [name for name, finite in zip(names, largest.isfinite().tolist(), strict=True) if not finite]
        if found:
            for kept in self._largest.values():
                kept.zero_()
            self._arriving = None
            raise NonFiniteGradientError(found)


def _is_finite(grad: Tensor) -> bool:
    # A sum is finite only if all its terms are, and costs a tenth of a norm; finite terms may still overflow it.
    total = grad.sum(dtype=torch.promote_types(grad.dtype, torch.float32))
    return bool(total.isfinite()) or bool(grad.isfinite().all())
