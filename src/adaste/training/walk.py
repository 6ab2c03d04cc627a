"""Where a pass over the data stands, as tensors that a captured step reads: a replay sees the next batch by itself."""

from dataclasses import dataclass

import torch
from torch import Tensor

from adaste.training.feed import Feed


@dataclass(frozen=True)
class Taken:
    """The images, labels and random numbers of one step."""

    step: Tensor
    """Its number in the pass, without dimensions."""
    index: Tensor
    images: Tensor
    labels: Tensor
    draws: dict[str, Tensor]


class Walk:
    """Passes over the images of a feed, one step after the other."""

    def __init__(self, feed: Feed, device: torch.device) -> None:
        self.feed = feed
        self._position = torch.zeros(1, dtype=torch.int64, device=device)
        self.device = self._position.device  # with its number: "cuda" alone is whichever device is current
        self._plan: dict[str, Tensor] = {}

    def begin(self, order: Tensor, draws: dict[str, Tensor], first: int = 0) -> None:
        """A new pass from step `first` on; `order` (steps, b) names the images of each step, `draws` go with them."""
        self.feed.start(order, first)
        plan = {"order": order, **draws}
        if not self._plan:
            self._plan = {name: torch.empty_like(values, device=self.device) for name, values in plan.items()}
        for name, values in plan.items():
            # Into the same memory as before, which a captured step reads; pinned, so that the host need not wait.
            self._plan[name].copy_(values.pin_memory() if self.device.type == "cuda" else values, non_blocking=True)
        self._position.fill_(first)

    def take(self) -> Taken:
        """What this step is made of; afterwards it is the next one's turn. Part of the step, may be captured."""
        now = {name: values.index_select(0, self._position)[0] for name, values in self._plan.items()}
        index, step = now.pop("order"), self._position.clone()
        images, labels = self.feed.batch(index)
        self._position.add_(1)
        return Taken(step[0], index, images, labels, now)
