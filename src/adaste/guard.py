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


class GradientGuard:
    """Watches the gradients of one optimizer's parameters, each known by a fixed slot."""

    def __init__(self) -> None:
        self._bad: dict[torch.device, Tensor] = {}
        self._arriving: dict[torch.device, tuple[Tensor, torch.cuda.Event]] = {}

    def inspect(self, grads: Sequence[Tensor], slots: Sequence[int], names: Sequence[str]) -> list[Tensor | None]:
        """For each gradient a flag on its device that says whether it is finite; None where that is known.

        `names` are those of all slots.
        """
        if all(grad.device.type == "cpu" for grad in grads):
            found = [names[slot] for grad, slot in zip(grads, slots, strict=True) if not _is_finite(grad)]
            if found:
                raise NonFiniteGradientError(found)
            return [None] * len(grads)
        flags: list[Tensor | None] = [None] * len(grads)
        for device in {grad.device for grad in grads}:
            places = [place for place, grad in enumerate(grads) if grad.device == device]
            norms = torch._foreach_norm([grads[place] for place in places], float("inf"))
            finite = torch.stack([norm.to(torch.float32) for norm in norms]).isfinite()
            for place, flag in zip(places, finite.unbind(), strict=True):
                flags[place] = flag
            self._remember(device, finite, [slots[place] for place in places], len(names))
        self._poll(names)
        return flags

    def raise_pending(self, names: Sequence[str]) -> None:
        """Raise for what was met on any device so far; waits for the devices."""
        self._raise({device: bad.cpu() for device, bad in self._bad.items()}, names)

    def _remember(self, device: torch.device, finite: Tensor, slots: list[int], count: int) -> None:
        bad = self._bad.get(device)
        if bad is None or len(bad) != count:
            bad = self._bad[device] = torch.zeros(count, dtype=torch.bool, device=device)
        if slots == list(range(count)):
            bad |= ~finite
        else:
            for slot, flag in zip(slots, finite.unbind(), strict=True):
                bad[slot] |= ~flag

    def _poll(self, names: Sequence[str]) -> None:
        if torch.cuda.is_current_stream_capturing():
            return
        arrived = {device: host for device, (host, event) in self._arriving.items() if event.query()}  # type: ignore[no-untyped-call]
        for device, bad in self._bad.items():
            if device in arrived or device not in self._arriving:
                host = torch.empty(bad.shape, dtype=torch.bool, pin_memory=True)
                host.copy_(bad, non_blocking=True)
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record(torch.cuda.current_stream(device))
                self._arriving[device] = host, event
        self._raise(arrived, names)

    def _raise(self, bad: dict[torch.device, Tensor], names: Sequence[str]) -> None:
        found = [name for flags in bad.values() for name, flag in zip(names, flags.tolist(), strict=False) if flag]
        if found:
            for flags in self._bad.values():
                flags.zero_()
            self._arriving.clear()
            raise NonFiniteGradientError(found)


def _is_finite(grad: Tensor) -> bool:
    # A sum is finite only if all its terms are, and costs a tenth of a norm; finite terms may still overflow it.
    total = grad.sum(dtype=torch.promote_types(grad.dtype, torch.float32))
    return bool(total.isfinite()) or bool(grad.isfinite().all())
