"""The plan of an epoch: the order of the images, the random numbers and the learning rates of its steps."""

from collections.abc import Sequence

import torch
from torch import Tensor

from adaste.data import Dataset
from adaste.data.augment import Augmentation, of_rank, order_of_epoch, steps_of_epoch
from adaste.estimators.schedules import Schedule
from adaste.recipes.bases import rate_at
from adaste.recipes.recipe import Recipe
from adaste.training.batches import Feed
from adaste.training.distributed import World
from adaste.training.step import RATES


def steps_of_recipe(recipe: Recipe, dataset: Dataset, world: World) -> int:
    """Return the steps of an epoch. Raise ValueError if the batch is too large or not a multiple of the processes."""
    images = len(dataset.train)
    if recipe.holdout >= images:
        raise ValueError(f"holdout must leave images to train with: there are {images}, got {recipe.holdout}")
    world.share(recipe.batch)
    return steps_of_epoch(count=images - recipe.holdout, batch=recipe.batch)


def draw_batches(
    recipe: Recipe,
    augmentation: Augmentation,
    feed: Feed,
    world: World,
    *,
    seed: int,
    epoch: int,
    most: int | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return this process's part of the images of each step, (steps, b), and of their random numbers.

    With `most`, only that many steps from the first on.
    """
    order = order_of_epoch(seed=seed, epoch=epoch, count=feed.count, batch=recipe.batch)[:most]
    draws = augmentation.draw(seed=seed, epoch=epoch, order=order, image_size=feed.image_size, ranks=world.size)
    mine = of_rank({"order": order, **draws}, rank=world.rank, ranks=world.size)
    return mine.pop("order"), mine


class Planner:
    """Makes the plans of all epochs on the host, from the seed of the recipe; each process gets its own part.

    Args:
        rates: Those of the optimizer's parameter groups, as functions of the step.
    """

    def __init__(
        self, recipe: Recipe, augmentation: Augmentation, feed: Feed, world: World, rates: Sequence[float | Schedule]
    ) -> None:
        self._recipe, self._augmentation, self._feed, self._world = recipe, augmentation, feed, world
        self._rates = rates
        self._ahead: tuple[int, Tensor, dict[str, Tensor]] | None = None

    def plan(self, epoch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the images of each step, (steps, batch), and its random numbers and learning rates by name."""
        if self._ahead is None or self._ahead[0] != epoch:
            self.look_ahead(epoch)
        assert self._ahead is not None
        return self._ahead[1:]

    def look_ahead(self, epoch: int) -> None:
        """Make a plan in advance."""
        order, draws = draw_batches(
            self._recipe, self._augmentation, self._feed, self._world, seed=self._recipe.seed, epoch=epoch
        )
        self._ahead = epoch, order, {**draws, RATES: self._rates_of(epoch, len(order))}

    def _rates_of(self, epoch: int, count: int) -> Tensor:
        """Return the learning rate of every group at every step, (steps, groups)."""
        steps = range(epoch * count, (epoch + 1) * count)
        return torch.tensor([[rate_at(rate, step) for rate in self._rates] for step in steps], dtype=torch.float64)
