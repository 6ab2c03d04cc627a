"""Which runs a table or figure needs, and how long they will take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from adaste._util.checks import suggest
from adaste.paper.families import SETUPS, Family, Setup
from adaste.paper.families.released import RELEASED
from adaste.paper.figures import FIGURES, ILLUSTRATIONS
from adaste.paper.tables import TABLES, CellId, Table
from adaste.recipes.recipe import Recipe
from adaste.runs.study.schedule import Estimate

EVERYTHING = "all"

SECONDS_PER_IMAGE = MappingProxyType(
    {
        "cifar10-resnet18": 0.670 / 50_000,
        "cifar100-resnet18": 0.670 / 50_000,
        "cifar10-vgg16": 0.508 / 50_000,
        "cifar100-vgg16": 0.508 / 50_000,
        "tiny-imagenet-resnet18": 1.396 / 100_000,
        "imagenette-resnet18": 49 * 0.670 / 50_000,
    }
)
"""On one H200: results/benchmarks/training-h200.json (four ResNet-18 at a time, one VGG-16); for Tiny ImageNet the runs
of 200 epochs in results/runs (three at a time). Imagenette's maps have 49 times the pixels of CIFAR's: not measured."""


@dataclass(frozen=True)
class Task:
    """A run to be made. Its name consists of family, setup and method."""

    name: str
    recipe: Recipe
    setup: Setup

    @property
    def estimate(self) -> Estimate:
        """The seconds that an epoch should take on one H200, by the speed of training alone."""
        images = self.setup.setting.images - self.recipe.holdout
        return Estimate(seconds=images * SECONDS_PER_IMAGE[self.setup.name])


def targets() -> tuple[str, ...]:
    """Return the names of what runs can reproduce."""
    return (*TABLES, *FIGURES, EVERYTHING)


def tasks(
    target: str,
    *,
    only: Sequence[str] = (),
    methods: Sequence[str] = (),
    families: Sequence[Family] = (),
    seeds: int = 1,
    epochs: int | None = None,
) -> list[Task]:
    """Return the runs behind a table, a figure or all of them, each recipe once.

    Args:
        target: The name of a table or a figure, or `all`, as `targets` returns them.
        only: Setups (the first words of a name choose several, as in "cifar10"); all of the target's if none.
        methods: Only these methods.
        families: Families of recipes; those of a table, `released` for figures.
        seeds: 0, 1, ... so many.
        epochs: The length of all runs; else what the family or the figure says.
    """
    parts = list(_parts(target, families, epochs))
    setups = _chosen("setup", only, {part.setup.name for part in parts})
    wanted = _chosen("method", methods, {part.method for part in parts})
    found: dict[str, Task] = {}
    for seed in range(seeds):
        for part in parts:
            if part.setup.name not in setups or part.method not in wanted:
                continue
            recipe = part.family.recipe(part.method, part.setup, part.epochs, seed)
            if recipe is not None:
                cell_id = CellId(part.family.name, part.method, part.setup.name)
                found.setdefault(recipe.digest, Task(cell_id.name, recipe, part.setup))
    if not found:
        tried = dict.fromkeys(part.family.name for part in parts)
        raise ValueError(
            f"nothing to do: {' and '.join(tried)} has no recipe for "
            f"{', '.join(_in_order(wanted))} at {', '.join(_in_order(setups))}"
        )
    return list(found.values())


@dataclass(frozen=True)
class _Part:
    family: Family
    setup: Setup
    method: str
    epochs: int | None


def _parts(target: str, families: Sequence[Family], epochs: int | None) -> Iterator[_Part]:
    if target in ILLUSTRATIONS:
        raise ValueError(f"{target} shows a function and needs no runs: it is on every page of `adaste report RESULTS`")
    if target not in targets():
        known = (*ILLUSTRATIONS, *targets())
        raise ValueError(
            f"there is nothing named {target!r} to reproduce{suggest(target, known)}; there are {', '.join(targets())}"
        )
    for table in TABLES.values():
        if target in (table.name, EVERYTHING):
            for family in _families_of(table, families, strict=target == table.name):
                for setup in table.setups:
                    for row in table.rows:
                        yield _Part(family, setup, row.method, epochs)
    for figure in FIGURES.values():
        if target in (figure.name, EVERYTHING):
            for family in families or (RELEASED,):
                for panel in figure.panels:
                    for method in panel.methods:
                        yield _Part(family, panel.setup, method, epochs or figure.epochs)


def _families_of(table: Table, wanted: Sequence[Family], *, strict: bool) -> list[Family]:
    """Return the wanted families that the table has, all if none is named. Raise ValueError for others if strict."""
    others = [family.name for family in wanted if family not in table.families]
    if strict and others:
        has = ", ".join(family.name for family in table.families)
        raise ValueError(f"{table.name} has no family {', '.join(others)}; it has {has}")
    return [family for family in table.families if not wanted or family in wanted]


def _chosen(what: str, wanted: Sequence[str], there: set[str]) -> set[str]:
    """Return the names of `there` that are wanted; a wanted name may be the words before a hyphen."""
    if not wanted:
        return there
    chosen: set[str] = set()
    for name in wanted:
        found = {name} & there or {one for one in there if one.startswith(f"{name}-")}
        if not found:
            raise ValueError(
                f"there is no {what} {name!r} here{suggest(name, there)}; there are {', '.join(_in_order(there))}"
            )
        chosen |= found
    return chosen


def _in_order(names: set[str]) -> list[str]:
    order = list(SETUPS)
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))
