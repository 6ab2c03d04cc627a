"""The tables: rows are methods, columns places, and each cell can be filled from several families of recipes."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from adaste._util.checks import near
from adaste.paper import published
from adaste.paper.families import Family
from adaste.paper.families.ours import ABLATION, OURS, TITLES
from adaste.paper.families.printed import PAPER
from adaste.paper.families.released import RELEASED
from adaste.paper.published import Published
from adaste.paper.setups import PLACES, Place

FAMILIES = MappingProxyType({family.name: family for family in (PAPER, RELEASED, OURS, ABLATION)})
"""All families of recipes by name."""


@dataclass(frozen=True)
class Row:
    """A method, with the numbers the paper has for it.

    mark  footnote of its published numbers; the paper has two rows for some methods.
    """

    title: str
    method: str
    published: Mapping[str, Published]
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the paper, or of ours.

    notes  footnotes by mark.
    """

    name: str
    title: str
    places: tuple[Place, ...]
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
        tuple(PLACES[column] for column in columns),
        tuple(Row(title, method, published.read_row(columns, numbers), mark) for title, method, mark, numbers in rows),
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
                published.TABLE_1_COLUMNS,
                published.TABLE_1_ROWS,
                published.MARKS,
            ),
            _printed_table(
                "table2",
                "Tiny ImageNet and Imagenette, with and without mixup",
                published.TABLE_2_COLUMNS,
                published.TABLE_2_ROWS,
                published.TABLE_2_MARKS,
            ),
            Table(
                "ablation",
                "What makes AdaSTE work",
                (PLACES["cifar10-resnet18"],),
                tuple(Row(title, method, MappingProxyType({})) for method, title in TITLES.items()),
                (ABLATION,),
                NO_NOTES,
            ),
        )
    }
)
"""All tables by name. The second is the one in the paper's appendix, the third is ours."""


def family(name: str) -> Family:
    """The family of that name."""
    if name not in FAMILIES:
        raise ValueError(f"there is no family {name!r}{near(name, FAMILIES)}; families are {', '.join(FAMILIES)}")
    return FAMILIES[name]
