"""Small data, small networks and short recipes, for tests of whole runs."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from adaste.data import Dataset, Split
from adaste.models import MLP, VGG, ImageShape, Network
from adaste.models.networks import Convolution
from adaste.recipes.presets import recipe
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import RunFolder
from adaste.runs.run import SILENT, Observer, Options, run
from adaste.training.distributed import ALONE, World
from adaste.training.records import Record
from adaste.training.trainer import Training
from support.archives import images_and_labels

CPU = torch.device("cpu")
EVERY_STEP = Options(save_every=0.0)
NETWORK = MLP(widths=(16,))
CONVOLUTIONAL = VGG(stages=((8,),), hidden_widths=())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pooled(Network):
    """A convolution whose maps are averaged: it takes images of any size, as a ResNet does."""

    def layers(self, image: ImageShape, classes: int) -> nn.Module:
        pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return nn.Sequential(
            Convolution(image.channels, 8, 3, bias=False), self.norm(8), pool, self.head(8, classes, bias=True)
        )


def small_data(train: int = 100, test: int = 50, side: int = 8, channels: int = 1, digest: str = "small") -> Dataset:
    """Ten classes of coarse noise around a grey of their own."""
    return Dataset(
        name="digits",
        classes=tuple("0123456789"),
        train=_split(train, side, channels, seed=0),
        test=_split(test, side, channels, seed=1),
        mean=(0.5,) * channels,
        std=(0.25,) * channels,
        digest=digest,
    )


def _split(count: int, side: int, channels: int, seed: int) -> Split:
    images, labels = images_and_labels(count, 10, side, channels, seed=seed)
    return Split(images, labels.astype(np.int64))


def small_recipe(method: str = "adaste", *, epochs: int = 3, batch: int = 16, seed: int = 0, **changes: Any) -> Recipe:
    """A method's recipe for the small data."""
    made = recipe(f"digits-mlp-{method}", epochs=epochs, seed=seed)
    return dataclasses.replace(made, **{"network": NETWORK, "batch": batch, **changes})


def small_training(made: Recipe, data: Dataset | None = None, engine: str = "eager", world: World = ALONE) -> Training:
    return Training(made, data or small_data(), device=CPU, engine=engine, world=world)


def small_run(
    made: Recipe,
    folder: Path,
    data: Dataset | None = None,
    options: Options = EVERY_STEP,
    observer: Observer = SILENT,
) -> Any:
    return run(made, folder, data or small_data(), device=CPU, options=options, observer=observer)


def timeless(records: list[Record]) -> list[dict[str, Any]]:
    """Records without what differs from one run to the next."""
    return [record.repeatable for record in records]


def outcome(folder: Path) -> dict[str, Any]:
    """All that must be equal in two runs of the same recipe."""
    return {
        "last": (folder / "last.safetensors").read_bytes(),
        "best": (folder / "best.safetensors").read_bytes(),
        "metrics": timeless(RunFolder(folder).read_records()),
    }


def weights_of(training: Training) -> list[torch.Tensor]:
    """Weights, statistics and latents, copied."""
    latents = [latent for _, latent in training.optimizer.latents()]
    return [value.detach().clone() for value in (*training.model.state_dict().values(), *latents)]


def assert_same(given: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    """Equal to the last bit."""
    assert len(given) == len(wanted)
    for one, other in zip(given, wanted, strict=True):
        assert torch.equal(one, other)


class InterruptedTrainingError(Exception):
    """What tests stop a run with."""


def stopping_at(training: Training, step: int) -> None:
    """Train until so many steps have been made, and stop there by an exception."""
    made = 0

    def count() -> None:
        nonlocal made
        made += 1
        if made == step:
            raise InterruptedTrainingError

    with pytest.raises(InterruptedTrainingError):
        list(training.run(count))


class Listener:
    """An observer that remembers what is said, and may do something at every step."""

    def __init__(self, at_step: Callable[[Training], None] = lambda training: None) -> None:
        self.said: list[str] = []
        self.began: list[tuple[int, int]] = []
        self.steps = 0
        self._at_step = at_step

    def begins(self, training: Training, records: list[Record]) -> None:
        self.began.append((training.epoch, training.step))

    def stepped(self, training: Training) -> None:
        self.steps += 1
        self._at_step(training)

    def epoch_ended(self, record: Record) -> None: ...

    def says(self, text: str) -> None:
        self.said.append(text)
