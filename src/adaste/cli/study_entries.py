"""The entries of a study file that stand for several runs: of one recipe, or of cells of the paper's tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from adaste._util.checks import near, require_count
from adaste._util.serial import require_types
from adaste.paper.families import Family
from adaste.paper.setups import Setup, setup
from adaste.paper.tables import family
from adaste.recipes.recipe import Recipe
from adaste.runs.study.schedule import Estimate


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """Changes of recipes, and how long they take.

    set       changes, as in `--set`.
    epochs    the length, as in `--epochs`; None for the usual one.
    seeds     one run each; an empty list for the usual seed.
    estimate  how long an epoch takes.
    """

    set: tuple[str, ...] = ()
    epochs: int | None = None
    seeds: tuple[int, ...] = ()
    estimate: Estimate | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if self.epochs is not None:
            require_count("epochs", self.epochs, least=1)

    def variants(self) -> Iterator[list[str]]:
        """Yield the assignments of each seed."""
        length = [] if self.epochs is None else [f"epochs={self.epochs}"]
        for seed in [[f"seed={seed}"] for seed in self.seeds] or [[]]:
            yield [*length, *seed, *self.set]


@dataclass(frozen=True, kw_only=True)
class Runs(_Entry):
    """Runs of one recipe: its name, the path of its file from the folder of the study file, or the recipe itself."""

    recipe: str | Recipe


@dataclass(frozen=True, kw_only=True)
class Cells(_Entry):
    """Cells of the paper's tables, as `adaste reproduce` makes them: every method in every setup.

    family   of recipes: paper, released, ours or ablation.
    setups   data and network, as in cifar10-resnet18.
    methods  rows, as in adaste-annealed.

    Without an estimate, that of `adaste reproduce` counts.
    """

    family: str
    setups: tuple[str, ...]
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        source = family(self.family)
        for name in ("setups", "methods"):
            if not getattr(self, name):
                raise ValueError(f"{name} must name at least one, got an empty list")
        for method in self.methods:
            if method not in source.makers:
                raise ValueError(
                    f"methods: family {self.family} has no {method!r}{near(method, source.makers)}; "
                    f"it has {', '.join(source.makers)}"
                )
        for where, method in product(map(setup, self.setups), self.methods):
            if not source.has(method, where):
                raise ValueError(
                    f"family {self.family} has no recipe for {method} at {where.name}: give the setups that "
                    "have one an entry of their own"
                )

    def cells(self) -> Iterator[tuple[Family, Setup, str]]:
        """Yield family, setup and method of each cell."""
        for name, method in product(self.setups, self.methods):
            yield family(self.family), setup(name), method
