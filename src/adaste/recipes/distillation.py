"""Distillation: a network also learns the outputs of another one, its teacher (Hinton et al., 2015)."""

import re
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from adaste._util.checks import require_finite
from adaste._util.serial import require_types

DIGEST = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """The share of the loss that compares a network with its teacher, a trained network that stays as it is.

        (1 - weight) L + weight T^2 KL(softmax(t / T) || softmax(s / T))

    with the logits s of the network and t of the teacher for the same images, and the loss L with labels. T^2 keeps the
    size of the gradient the same at every temperature T.

    Args:
        teacher: Digest of the recipe by which the teacher was trained; its last network is used.
        weight: The share of the comparison, from 0 to 1.
        temperature: Above 0.
    """

    teacher: str
    weight: float = 0.9
    temperature: float = 4.0

    def __post_init__(self) -> None:
        require_types(self)
        if not DIGEST.fullmatch(self.teacher):
            raise ValueError(
                "teacher must be the digest of a recipe, 16 hexadecimal digits (a run's folder ends in it), "
                f"got {self.teacher!r}"
            )
        require_finite("temperature", self.temperature)
        if not 0 <= self.weight <= 1:
            raise ValueError(f"weight must be from 0 (labels alone) to 1 (the teacher alone), got {self.weight}")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature}")

    def loss(self, with_labels: Tensor, student: Tensor, teacher: Tensor) -> Tensor:
        """Return the loss, the mean over images in float32.

        Args:
            with_labels: The loss L.
            student: Logits of the network, (b, classes).
            teacher: Those of its teacher, without gradients.
        """
        known, learned = (F.log_softmax(logits.float() / self.temperature, dim=1) for logits in (teacher, student))
        difference = F.kl_div(learned, known, reduction="batchmean", log_target=True)
        return (1 - self.weight) * with_labels + self.weight * self.temperature**2 * difference
