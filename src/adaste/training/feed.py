"""Where the images of a step come from: the memory of the training device, or the host while earlier steps run."""

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from adaste.data import Split


class Feed(ABC):
    """Images (b, h, w, c) as uint8, and labels, of one split."""

    def __init__(self, split: Split) -> None:
        self.count = len(split.labels)
        self.image_size = (int(split.images.shape[1]), int(split.images.shape[2]))

    @abstractmethod
    def start(self, order: Tensor, first: int) -> None:
        """A pass over the data begins: `order` (steps, b), on the host, names the images; `first` is its first step."""

    @abstractmethod
    def beside(self) -> "Feed":
        """A feed of the same images, whose passes do not disturb those of this one."""

    @abstractmethod
    def advance(self) -> None:
        """The next step begins. Called on the host, before a step that may be captured."""

    @abstractmethod
    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The images and labels of the step; `index` names them, on the device. May be captured."""


class Resident(Feed):
    """All images lie on the device."""

    def __init__(self, split: Split, device: torch.device) -> None:
        super().__init__(split)
        self._images = torch.from_numpy(np.array(split.images)).to(device)
        self._labels = torch.from_numpy(np.array(split.labels)).to(device)

    def start(self, order: Tensor, first: int) -> None:
        """Everything is there already."""

    def beside(self) -> Feed:
        return self

    def advance(self) -> None:
        """Everything is there already."""

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        return self._images[index], self._labels[index]
