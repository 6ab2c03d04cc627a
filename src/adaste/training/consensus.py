"""When the processes of a run ask each other what they wish: all after the same steps, and often enough."""

import time

import torch

from adaste.training.distributed import World

MOST_STEPS = 16
"""Between two questions: each makes a GPU wait."""

MOST_SECONDS = 4.0
"""Between two questions, unless a single step takes longer: half a minute after torchrun has asked its processes to end
it kills them, and they have to save until then."""


class Agreement:
    """Wishes, as whole numbers of which the largest counts for all processes. 0 is none."""

    def __init__(self, world: World, device: torch.device) -> None:
        self._world, self._device = world, device
        self._every, self._steps, self._asked_at = 1, 0, time.monotonic()

    def largest(self, wish: int, step: int) -> int:
        """The largest wish of all; 0 where they do not ask. Called by all after each `step` of an epoch."""
        if self._world.size == 1:
            return wish
        self._steps += 1
        if step % self._every:
            return 0
        found = self._world.largest(wish, self._device)
        now = time.monotonic()
        milliseconds = int(1000 * (now - self._asked_at) / self._steps) + 1
        # All must ask after the same steps, so the slowest decides for all.
        slowest = self._world.largest(milliseconds, self._device)
        self._every = min(MOST_STEPS, max(1, int(1000 * MOST_SECONDS / slowest)))
        self._steps, self._asked_at = 0, now
        return found
