"""A step of ResNet-18 on the CPU beside that of a plain PyTorch loop, in turns; benchmarks/training.py calls it."""

import statistics
import time
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from adaste.data import Dataset, subset
from adaste.data.augment import Augmentation, of_step, order_of_epoch
from adaste.models import ImageShape
from adaste.recipes.presets import recipe
from adaste.recipes.recipe import Recipe
from adaste.training.trainer import Training

ROUNDS, STEPS = 6, 3


class PlainLoop:
    """Full precision by SGD, as one writes it by hand: the network, images and augmentation of a recipe."""

    def __init__(self, chosen: Recipe, dataset: Dataset) -> None:
        train = dataset.train
        self.network = chosen.network.build(ImageShape(3, 32, 32), 10)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        self.augmentation = Augmentation(chosen.augmentation, dataset.mean, dataset.std)
        self.order = order_of_epoch(seed=0, epoch=0, count=len(train), batch=chosen.batch)
        self.draws = self.augmentation.draw(seed=0, epoch=0, order=self.order, image_size=(32, 32))
        self.pixels, self.labels = torch.from_numpy(train.images.copy()), torch.from_numpy(train.labels.copy())

    def step(self, number: int) -> None:
        """The step of that number, from 0 on."""
        chosen, draws = self.order[number], of_step(self.draws, number)
        batch = self.augmentation.apply(self.pixels[chosen], self.labels[chosen], draws, torch.float32)
        self.optimizer.zero_grad()
        cross_entropy(self.network(batch.images.contiguous()), batch.targets.labels).backward()
        self.optimizer.step()


def beside_a_plain_loop(method: str, dataset: Dataset, engine: str) -> dict[str, Any]:
    """Milliseconds per step of this package and of a plain loop on the same network and images."""
    chosen = replace(recipe(f"cifar10-resnet18-{method}"), precision="float32", epochs=1, batch=32, norm_always=False)
    train = subset(dataset.train, range(ROUNDS * STEPS * chosen.batch))
    few = replace(dataset, train=train, test=subset(dataset.test, range(64)))
    loop = PlainLoop(chosen, few)
    training = Training(chosen, few, device=torch.device("cpu"), engine=engine)
    ours, plain = (milliseconds[1:] for milliseconds in in_turns(training, loop))  # the first round compiles
    row = {
        "row": f"ResNet-18 on the CPU, {method}, batch {chosen.batch}, milliseconds per step",
        "engine": training.execution.mode.value,
        "ours": ours,
        "plain": plain,
        "ratio_min": min(plain) / min(ours),
        "ratio_median": statistics.median(plain) / statistics.median(ours),
    }
    print(
        f"{row['row']}: {min(ours):.0f} / {statistics.median(ours):.0f}, plain loop "
        f"{min(plain):.0f} / {statistics.median(plain):.0f}; "
        f"{row['ratio_min']:.2f} / {row['ratio_median']:.2f} times as fast (minimum / median)",
        flush=True,
    )
    return row


def in_turns(training: Training, loop: PlainLoop) -> tuple[list[float], list[float]]:
    """Milliseconds per step of both, a number for each round of a few steps."""
    ours: list[float] = []
    plain: list[float] = []
    began = time.perf_counter()

    def after_step() -> None:
        nonlocal began
        if training.step % STEPS:
            return
        now = time.perf_counter()
        ours.append(1000 * (now - began) / STEPS)
        for number in range(training.step - STEPS, training.step):
            loop.step(number)
        began = time.perf_counter()
        plain.append(1000 * (began - now) / STEPS)

    list(training.run(after_step))
    return ours, plain
