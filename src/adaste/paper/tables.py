"""The paper's tables with the numbers it prints, and the cells that recipes belong to.

Rows are methods, columns setups, and each cell can be filled from several families of recipes. Accuracies are in
percent, of the best epoch on the test images, says the paper. Those it quotes come from code that lets validation
images choose the epoch, and trains for 285 epochs (Tiny ImageNet: 128), not 500.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from adaste._util.checks import suggest
from adaste.paper.families import SETUPS, Family, Setup
from adaste.paper.families.ours import ABLATION, OURS, TITLES
from adaste.paper.families.printed import PAPER
from adaste.paper.families.released import RELEASED
from adaste.recipes.recipe import Recipe


@dataclass(frozen=True)
class Published:
    """A printed number, with the standard deviation over five runs where there is one."""

    accuracy: float
    spread: float | None = None


RERUN = "*"
QUOTED = "†"

MARKS = MappingProxyType(
    {
        RERUN: "run 5 times by the paper's authors with different random seeds (Tiny ImageNet: once)",
        QUOTED: "quoted by the paper from Ajanthan et al. 2021, whose code chooses the epoch by validation images",
    }
)
"""The footnotes of Table 1."""

TABLE_1_COLUMNS = (
    "cifar10-vgg16",
    "cifar10-resnet18",
    "cifar100-vgg16",
    "cifar100-resnet18",
    "tiny-imagenet-resnet18",
)

TABLE_1_ROWS = (
    ("Full precision", "full-precision", QUOTED, "93.33 94.84 71.50 76.31 58.35"),
    ("BinaryConnect", "binaryconnect", RERUN, "89.75±0.26 91.92±0.23 54.61±2.37 68.67±0.7 -"),
    ("BinaryConnect", "binaryconnect", QUOTED, "89.04 91.64 59.13 72.14 49.65"),
    ("ProxQuant", "proxquant", QUOTED, "90.11 92.32 55.10 68.35 49.97"),
    ("PMF", "pmf", QUOTED, "91.40 93.24 64.71 71.56 51.52"),
    # Not a row of the paper: the same method as md-bnn's code has it. The numbers quoted above are in pmf's README.
    ("PMF, md-bnn's code", "pmf-md-bnn", "", "- - - - -"),
    ("MD-softmax", "md-softmax", QUOTED, "90.47 91.28 56.25 68.49 46.52"),
    ("MD-softmax-s", "md-softmax-s", QUOTED, "91.30 93.28 63.97 72.18 51.81"),
    ("MD-softmax-s", "md-softmax-s", RERUN, "83.69±0.33 91.56±0.14 48.23±0.55 68.35±0.96 -"),
    ("MD-tanh", "md-tanh", QUOTED, "91.64 92.27 61.31 72.13 54.62"),
    ("MD-tanh-s", "md-tanh-s", QUOTED, "91.53 93.18 61.69 72.18 52.32"),
    ("MD-tanh-s", "md-tanh-s", RERUN, "90.22±0.24 91.41±0.11 60.14±0.58 66.38±0.26 -"),
    ("BayesBiNN", "bayesbinn", RERUN, "90.68±0.07 92.28±0.09 65.92±0.18 70.33±0.25 54.22"),
    ("AdaSTE, no annealing", "adaste", RERUN, "92.16±0.16 93.96±0.14 68.46±0.18 73.90±0.20 53.49"),
    ("AdaSTE, annealed", "adaste-annealed", RERUN, "92.37±0.09 94.11±0.08 69.28±0.17 75.03±0.35 54.92"),
)

TABLE_2_COLUMNS = ("tiny-imagenet-resnet18", "imagenette-resnet18")

ADDED = "‡"

TABLE_2_MARKS = MappingProxyType({ADDED: "not in the paper's appendix: its number is that of Table 1"})
"""The footnotes of the appendix's table."""

TABLE_2_ROWS = (
    ("Full precision", "full-precision", ADDED, "58.35 -"),
    ("BayesBiNN", "bayesbinn", "", "54.22 78.19"),
    ("BayesBiNN, mixup", "bayesbinn-mixup", "", "55.84 79.59"),
    ("AdaSTE, no annealing", "adaste", ADDED, "53.49 -"),
    ("AdaSTE, no annealing, mixup", "adaste-mixup", ADDED, "- -"),
    ("AdaSTE, annealed", "adaste-annealed", "", "54.92 79.66"),
    ("AdaSTE, annealed, mixup", "adaste-annealed-mixup", "", "56.11 80.91"),
)


def read_row(columns: tuple[str, ...], numbers: str) -> dict[str, Published]:
    """Return the numbers of a row by column; `-` is a cell the paper leaves empty."""
    cells = zip(columns, numbers.split(), strict=True)
    return {column: _read(text) for column, text in cells if text != "-"}


def _read(text: str) -> Published:
    accuracy, _, spread = text.partition("±")
    return Published(float(accuracy), float(spread) if spread else None)


FAMILIES = MappingProxyType({family.name: family for family in (PAPER, RELEASED, OURS, ABLATION)})
"""All families of recipes by name."""


@dataclass(frozen=True)
class Row:
    """A row: a method with the numbers the paper has for it.

    Args:
        mark: Footnote of its published numbers; the paper has two rows for some methods.
    """

    title: str
    method: str
    published: Mapping[str, Published]
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the paper, or of ours.

    Args:
        notes: Footnotes by mark.
    """

    name: str
    title: str
    setups: tuple[Setup, ...]
    rows: tuple[Row, ...]
    families: tuple[Family, ...]
    notes: Mapping[str, str]


def _printed_table(
    name: str,
    title: str,
    columns: tuple[str, ...],
    rows: tuple[tuple[str, str, str, str], ...],
    notes: Mapping[str, str],
) -> Table:
    return Table(
        name,
        title,
        tuple(SETUPS[column] for column in columns),
        tuple(Row(title, method, read_row(columns, numbers), mark) for title, method, mark, numbers in rows),
        (PAPER, RELEASED, OURS),
        notes,
    )


NO_NOTES: Mapping[str, str] = MappingProxyType({})

TABLES = MappingProxyType(
    {
        table.name: table
        for table in (
            _printed_table(
                "table1",
                "Classification accuracy for different methods",
                TABLE_1_COLUMNS,
                TABLE_1_ROWS,
                MARKS,
            ),
            _printed_table(
                "table2",
                "Tiny ImageNet and Imagenette, with and without mixup",
                TABLE_2_COLUMNS,
                TABLE_2_ROWS,
                TABLE_2_MARKS,
            ),
            Table(
                "ablation",
                "What makes AdaSTE work",
                (SETUPS["cifar10-resnet18"],),
                tuple(Row(title, method, MappingProxyType({})) for method, title in TITLES.items()),
                (ABLATION,),
                NO_NOTES,
            ),
        )
    }
)
"""All tables by name. The second is the one in the paper's appendix, the third is ours."""


def family(name: str) -> Family:
    """Return the family of that name. Raise ValueError if there is none."""
    if name not in FAMILIES:
        raise ValueError(f"there is no family {name!r}{suggest(name, FAMILIES)}; families are {', '.join(FAMILIES)}")
    return FAMILIES[name]


class CellId(NamedTuple):
    """The name of a cell, to which recipes belong."""

    family: str
    method: str
    setup: str

    @property
    def name(self) -> str:
        """The name of this cell's runs, without the digest."""
        return f"{self.family}-{self.setup}-{self.method}"

    def recipe(self, epochs: int) -> Recipe | None:
        """Return the recipe of this cell, with seed 0; None if the family has none."""
        return FAMILIES[self.family].recipe(self.method, SETUPS[self.setup], epochs)


def cell_ids_of(recipe: Recipe) -> tuple[CellId, ...]:
    """Return the cells whose recipe this is, at its own length and seed."""
    return _index(recipe.data, recipe.epochs).get(recipe.unseeded, ())


def recipes_named(name: str, epochs: int) -> list[Recipe]:
    """Return the recipe of the cell that has this name, with seed 0; an empty list if there is none."""
    made = [cell_id.recipe(epochs) for cell_id in _cell_ids() if cell_id.name == name]
    return [recipe for recipe in made if recipe is not None]


@lru_cache(maxsize=1024)
def _index(data: str, epochs: int) -> dict[Recipe, tuple[CellId, ...]]:
    """Return the cells of all recipes of one data set and length, with seed 0."""
    found: dict[Recipe, tuple[CellId, ...]] = {}
    for cell_id in _cell_ids():
        made = cell_id.recipe(epochs) if SETUPS[cell_id.setup].data == data else None
        if made is not None:
            found[made] = (*found.get(made, ()), cell_id)
    return found


def _cell_ids() -> Iterator[CellId]:
    for family in FAMILIES.values():
        for method in family.makers:
            for setup in SETUPS:
                yield CellId(family.name, method, setup)
