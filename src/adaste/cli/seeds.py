"""What a study says of recipes that it ran with several seeds."""

from collections.abc import Iterable

from adaste.paper.cells import OverSeeds
from adaste.paper.report.cell_format import summary
from adaste.recipes.recipe import Recipe
from adaste.runs.study.study import Status


def over_seeds(statuses: Iterable[Status]) -> list[str]:
    """A line with mean and deviation of the last test accuracy per recipe of which two runs or more are finished."""
    return [
        f"{name}, {len(accuracies)} seeds: {summary(OverSeeds.of(accuracies))} % after {recipe.epochs} epochs"
        for (name, recipe), accuracies in _finished(statuses).items()
        if len(accuracies) > 1
    ]


def _finished(statuses: Iterable[Status]) -> dict[tuple[str, Recipe], list[float]]:
    """The accuracies of each recipe, by its name and itself: entries of a list may share a name."""
    found: dict[tuple[str, Recipe], list[float]] = {}
    for status in statuses:
        if status.result is not None:
            found.setdefault((status.job.name, status.job.recipe.unseeded), []).append(status.result.last_accuracy)
    return found
