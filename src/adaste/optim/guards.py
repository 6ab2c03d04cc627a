"""Gradients that are not finite never reach the latents, and are reported without making a step wait.

On the CPU a step that meets one raises before it changes anything. On a CUDA device the step masks the parameter's
update on the device and remembers it there; a copy of that memory travels to the host on its own, and the first step or
query that finds it arrived raises. Replays of a CUDA graph do not look: ask `check_gradients` there now and then.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class NonFiniteGradientError(RuntimeError):
    """A gradient held NaN or infinite values; that step left the latents of its parameter as they were."""

    def __init__(self, names: Sequence[str]) -> None:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        super().__init__(
            f"the gradient of {shown} held NaN or infinite values: only finite gradients are allowed; that step left "
            "their latents unchanged (look at the loss and the learning rate, or use a GradScaler)"
        )
        self.names = list(names)


class GradientGuard:
    """Watches the gradients of one optimizer's parameters, each known by a fixed slot."""

    def __init__(self) -> None:
        # The largest |g| that each slot has met on each device; NaN and infinity stay once they are in.
        self._largest: dict[torch.device, Tensor] = {}
        self._arriving: dict[torch.device, tuple[Tensor, torch.cuda.Event]] = {}

    def inspect(self, grads: Sequence[Tensor], slots: Sequence[int], names: Sequence[str]) -> list[Tensor | None]:
        """For each gradient its largest |g|, on its device; None where the gradient is known to be finite.

        `names` are those of all slots.
        """
        waiting = [grad for grad in grads if grad.device.type != "cuda"]
        if not _surely_finite(waiting):
            found = [
                names[slot]
                for grad, slot in zip(grads, slots, strict=True)
                if grad.device.type != "cuda" and not grad.isfinite().all()
            ]
            if found:
                raise NonFiniteGradientError(found)
        norms: list[Tensor | None] = [None] * len(grads)
        # A rank may hold no row of a small parameter, and there is no norm of nothing.
        watched = [place for place, grad in enumerate(grads) if grad.device.type == "cuda" and grad.numel()]
        for device in {grads[place].device for place in watched}:
            places = [place for place in watched if grads[place].device == device]
            found_here = torch._foreach_norm([grads[place] for place in places], float("inf"))
            for place, norm in zip(places, found_here, strict=True):
                norms[place] = norm
            self._remember(device, torch.stack(found_here).float(), [slots[place] for place in places], len(names))
        if watched:
            self._poll(names)
        return norms

    def raise_pending(self, names: Sequence[str]) -> None:
        """Raise for what was met on any device so far; waits for the devices."""
        self._raise({device: largest.cpu() for device, largest in self._largest.items()}, names)

    def forget(self) -> None:
        """Whatever was met so far is no news any more."""
        for norms in self._largest.values():
            norms.zero_()
        self._arriving.clear()

    def _remember(self, device: torch.device, norms: Tensor, slots: list[int], count: int) -> None:
        largest = self._largest.get(device, torch.zeros(0, device=device))
        if len(largest) != count:  # a group was added since
            largest = torch.cat([largest, torch.zeros(count - len(largest), device=device)])
            self._largest[device] = largest
        if len(slots) == count:
            torch.maximum(largest, norms, out=largest)
        else:
            for slot, norm in zip(slots, norms.unbind(), strict=True):
                torch.maximum(largest[slot], norm, out=largest[slot])

    def _poll(self, names: Sequence[str]) -> None:
        if torch.cuda.is_current_stream_capturing():
            return
        arrived = {
            device: host
            for device, (host, event) in self._arriving.items()
            if event.query()  # type: ignore[no-untyped-call]
        }
        for device, largest in self._largest.items():
            if device in arrived or device not in self._arriving:
                host = torch.empty(largest.shape, pin_memory=True)
                host.copy_(largest, non_blocking=True)
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record(torch.cuda.current_stream(device))
                self._arriving[device] = host, event
        self._raise(arrived, names)

    def _raise(self, largest: dict[torch.device, Tensor], names: Sequence[str]) -> None:
        found = [
            name
            for norms in largest.values()
            for name, finite in zip(names, norms.isfinite().tolist(), strict=False)
            if not finite
        ]
        if found:
            self.forget()
            raise NonFiniteGradientError(found)


def _surely_finite(grads: Sequence[Tensor]) -> bool:
    """Whether sums show that all elements are finite: a sum is finite only if its terms are, though it may overflow.

    On the CPU torch adds much faster than it looks for the largest element.
    """
    sums = [grad.sum(dtype=torch.promote_types(grad.dtype, torch.float32)).double() for grad in grads]
    return not sums or bool(torch.stack(sums).isfinite().all())
