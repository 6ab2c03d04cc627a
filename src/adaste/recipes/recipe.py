"""Recipe: all that decides the numbers of a run, as one frozen value that JSON can hold.

But for rounding: devices differ in it, and on a CPU so do numbers of threads (each run records them).
"""

import dataclasses
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Self, cast

from adaste._util import serial
from adaste._util.checks import require, require_count
from adaste._util.serial import later_field
from adaste.data.augment import Augmentation, Transform
from adaste.estimators import Estimator
from adaste.estimators.noise import Noise
from adaste.estimators.schedules import Schedule, Steps, schedules_in, transform
from adaste.models import Network
from adaste.recipes.bases import Base
from adaste.recipes.distillation import Distillation
from adaste.recipes.registry import ADMITTED

PRECISIONS = ("bfloat16", "float32")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One run. Schedules count epochs here, and `in_steps` makes them count optimizer steps.

    Args:
        data: Name of the data.
        network: The network; the data decide on the shape of its images and the number of classes.
        estimator: How its binary weights are trained.
        base: The optimizer of the latents.
        averaging: Rate of the average of gradients that the estimator sees; 0 for none.
        rest_lr: Learning rate of the parameters that stay real (biases, scales of BatchNorm); None: the base's.
        include: Patterns of the names of binary weights, or of modules; none: all linear and convolution weights.
        exclude: Patterns of the names of weights, or of modules, that stay real all the same.
        epochs: Passes over the training images.
        batch: Images per step, of all processes together.
        augmentation: Transforms of the training images, in order.
        side: Shrinks the images that the network is trained with to squares of so many pixels a side, in each epoch as
            many as the steps say; null leaves them as they are. Tests are with those as they are.
        label_smoothing: Share of every label that is spread over all classes.
        distillation: The teacher that the network learns from, beside the labels; null for none.
        holdout: This many training images are set aside, the same ones for every seed; the accuracy on them then
            decides which epoch is best.
        precision: Type of the network's computation; latents are float32 always.
        sync_norm: BatchNorm takes its statistics over all processes.
        norm_batches: Augmented batches to re-estimate BatchNorm's statistics with before a test, where weights are
            soft; 0 tests with the statistics of the soft weights, as some published code does.
        norm_always: Re-estimate them before every test, also where weights are +-1: signs flip between the batches that
            the running statistics remember.
        average_last: The run ends with the mean of the latents at the ends of so many last epochs; 0 for the latents of
            the last step. Training up to there is the same.
        evaluate_every: Epochs between tests.
        seed: Seed of the initial weights, the order of images and their augmentation.

    Raises:
        ValueError: If a field has another type or an impossible value, or two contradict each other.
    """

    data: str
    network: Network
    estimator: Estimator
    base: Base
    averaging: float | Schedule = 0.0
    rest_lr: float | Schedule | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    epochs: int
    batch: int = 128
    augmentation: tuple[Transform, ...]
    side: Steps | None = later_field(None)
    label_smoothing: float = 0.0
    distillation: Distillation | None = later_field(None)
    holdout: int = 0
    precision: str = "bfloat16"
    sync_norm: bool = False
    norm_batches: int = 50
    norm_always: bool = later_field(False)
    average_last: int = later_field(0)
    evaluate_every: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        serial.require_types(self)
        if not self.data:
            raise ValueError("data must name a set of images, got ''")
        for name in ("epochs", "batch", "evaluate_every"):
            require_count(name, getattr(self, name), least=1)
        for name in ("holdout", "norm_batches", "average_last", "seed"):
            require_count(name, getattr(self, name), least=0)
        if self.average_last > self.epochs:
            raise ValueError(f"average_last must be at most epochs, {self.epochs}, got {self.average_last}")
        if self.average_last and not self.norm_batches:
            raise ValueError(
                "average_last makes weights that running statistics of BatchNorm do not belong to: norm_batches, from "
                "which they are re-estimated, must be at least 1, got 0"
            )
        if self.norm_always and not self.norm_batches:
            raise ValueError(
                "norm_always re-estimates statistics of BatchNorm from norm_batches batches, and these are 0: use at "
                "least 1, or norm_always=false to test with running statistics"
            )
        for side in self.side.values if self.side else ():
            if side < 1 or side != int(side):
                raise ValueError(f"every side must be a whole number of pixels, 1 or more, got {side}")
        require("averaging", self.averaging, least=0, below=1)
        require("label_smoothing", self.label_smoothing, least=0, below=1)
        require("rest_lr", self.rest_lr, least=0, optional=True)
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        Augmentation(self.augmentation, mean=(0.0,), std=(1.0,))  # an error where its transforms do not go together
        for schedule in schedules_in(self):
            if schedule.every != 1:
                raise ValueError(
                    "schedules in a recipe count epochs and move at every step: every must be 1 "
                    f"(stretch length, delay or ticks instead), got {schedule}"
                )

    def to_json(self) -> str:
        """Return the recipe as indented JSON."""
        return serial.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the recipe in a text of `to_json`. Raise ValueError if there is none."""
        recipe: Self = serial.from_json(text, RECIPE_CLASSES, expected=cls)
        return recipe

    @property
    def digest(self) -> str:
        """A name for exactly these settings: equal recipes have equal ones."""
        return serial.digest(self)[:16]

    def in_steps(self, steps_per_epoch: int) -> Self:
        """Return the same recipe with schedules that count optimizer steps."""
        require_count("steps_per_epoch", steps_per_epoch, least=1)
        return transform(self, lambda part: part.stretched(steps_per_epoch) if isinstance(part, Schedule) else part)

    def with_seed(self, seed: int) -> Self:
        """Return the same recipe with other random numbers, also those that an estimator draws."""

        def reseeded(part: Any) -> Any:
            return dataclasses.replace(part, seed=seed) if isinstance(part, Noise) and part.seed != seed else part

        seeded = transform(self, reseeded)
        return seeded if seeded.seed == seed else dataclasses.replace(seeded, seed=seed)

    @property
    def unseeded(self) -> Self:
        """One recipe for all that differ only in their seeds; this one if its parts have seeds of their own."""
        usual = self.with_seed(0)
        return usual if usual.with_seed(self.seed) == self else self


RECIPE_CLASSES: Mapping[str, type] = ChainMap({"Recipe": Recipe}, cast("MutableMapping[str, type]", ADMITTED))
"""All classes in a recipe's JSON."""
