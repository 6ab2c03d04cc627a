"""The printed numbers, typed a second time from the paper's source and compared."""

import pytest

from adaste.paper.families import SETUPS
from adaste.paper.tables import ADDED, QUOTED, RERUN, TABLES, Published, Table, read_row

V10, R10, V100, R100, TINY, NETTE = SETUPS

# Table 1 of the paper as its source has it, line by line: columns are VGG-16 and ResNet-18 on CIFAR-10, the same on
# CIFAR-100, and ResNet-18 on Tiny ImageNet.
TABLE_1 = r"""
Full-precision ($\dagger$)       & 93.33        & 94.84          & 71.50        & 76.31           & 58.35 \\
BinaryConnect (*)      & 89.75$\pm$0.26    & 91.92$\pm$0.23        & 54.61$\pm$2.37    & 68.67$\pm$0.7   & - \\
BinaryConnect ($\dagger$)      & 89.04        & 91.64          & 59.13        & 72.14           & 49.65 \\
ProxQuant($\dagger$)            & 90.11        & 92.32          & 55.10        & 68.35           & 49.97 \\
PMF($\dagger$)                  & 91.40        & 93.24          & 64.71        & 71.56           & 51.52 \\
MD-softmax ($\dagger$)         & 90.47        & 91.28          & 56.25        & 68.49           & 46.52 \\
MD-softmax-s ($\dagger$)         & 91.30        & 93.28          & 63.97        & 72.18           & 51.81 \\
MD-softmax-s (*)     & 83.69$\pm$0.33  & 91.56$\pm$0.14    & 48.23$\pm$0.55    & 68.35$\pm$0.96     & - \\
MD-tanh ($\dagger$)            & 91.64        & 92.27          & 61.31        & 72.13           & 54.62 \\
MD-tanh-s ($\dagger$)        & 91.53        & 93.18          & 61.69        & 72.18           & 52.32 \\
MD-tanh-s (*)           & 90.22$\pm$0.24    & 91.41$\pm$0.11      & 60.14$\pm$0.58      & 66.38$\pm$0.26  & - \\
BayesBiNN (*)          & 90.68$\pm$0.07   & 92.28$\pm$0.09 & 65.92$\pm$0.18 & 70.33$\pm$0.25 & 54.22  \\
AdaSTE (no annealing) (*)  & 92.16$\pm$0.16     & 93.96$\pm$0.14   & 68.46$\pm$0.18     & 73.90$\pm$0.20   &53.49  \\
AdaSTE (with annealing) (*)  & 92.37$\pm$0.09   & 94.11$\pm$0.08    & 69.28$\pm$0.17     & 75.03$\pm$0.35   &54.92  \\
"""

TABLE_2 = r"""
BayesBiNN             & 54.22     & 78.19 \\
BayesBinn (mixup)     & 55.84     & 79.59 \\
AdaSTE                & 54.92     & 79.66 \\
AdaSTE mixup          & 56.11     & 80.91 \\
"""

# What the rows of the source are called here: method and mark.
ROWS_1 = {
    r"Full-precision ($\dagger$)": ("full-precision", QUOTED),
    "BinaryConnect (*)": ("binaryconnect", RERUN),
    r"BinaryConnect ($\dagger$)": ("binaryconnect", QUOTED),
    r"ProxQuant($\dagger$)": ("proxquant", QUOTED),
    r"PMF($\dagger$)": ("pmf", QUOTED),
    r"MD-softmax ($\dagger$)": ("md-softmax", QUOTED),
    r"MD-softmax-s ($\dagger$)": ("md-softmax-s", QUOTED),
    "MD-softmax-s (*)": ("md-softmax-s", RERUN),
    r"MD-tanh ($\dagger$)": ("md-tanh", QUOTED),
    r"MD-tanh-s ($\dagger$)": ("md-tanh-s", QUOTED),
    "MD-tanh-s (*)": ("md-tanh-s", RERUN),
    "BayesBiNN (*)": ("bayesbinn", RERUN),
    "AdaSTE (no annealing) (*)": ("adaste", RERUN),
    "AdaSTE (with annealing) (*)": ("adaste-annealed", RERUN),
}
ROWS_2 = {
    "BayesBiNN": ("bayesbinn", ""),
    "BayesBinn (mixup)": ("bayesbinn-mixup", ""),
    "AdaSTE": ("adaste-annealed", ""),
    "AdaSTE mixup": ("adaste-annealed-mixup", ""),
}


def numbers_of(table: Table) -> dict[tuple[str, str, str], Published]:
    return {(row.method, row.mark, setup): number for row in table.rows for setup, number in row.published.items()}


def numbers_in(
    source: str, rows: dict[str, tuple[str, str]], setups: tuple[str, ...]
) -> dict[tuple[str, str, str], Published]:
    found = {}
    for line in source.strip().splitlines():
        title, *cells = (part.strip() for part in line.removesuffix(r"\\").split("&"))
        for setup, cell in zip(setups, cells, strict=True):
            accuracy, *spread = cell.split(r"$\pm$")
            if cell != "-":
                found[(*rows[title], setup)] = Published(float(accuracy), float(spread[0]) if spread else None)
    return found


def test_table_1_has_the_printed_numbers_and_no_others() -> None:
    assert numbers_of(TABLES["table1"]) == numbers_in(TABLE_1, ROWS_1, (V10, R10, V100, R100, TINY))


def test_table_2_has_the_printed_numbers_and_no_others() -> None:
    printed = {key: number for key, number in numbers_of(TABLES["table2"]).items() if key[1] != ADDED}
    assert printed == numbers_in(TABLE_2, ROWS_2, (TINY, NETTE))


def test_rows_added_to_table_2_have_the_numbers_of_table_1() -> None:
    of_table_1 = {(method, setup): number for (method, _, setup), number in numbers_of(TABLES["table1"]).items()}
    added = {key: number for key, number in numbers_of(TABLES["table2"]).items() if key[1] == ADDED}
    assert {method for method, _, _ in added} == {"full-precision", "adaste"}
    for (method, _, setup), number in added.items():
        assert number.accuracy == of_table_1[method, setup].accuracy


def test_rows_come_in_the_order_of_the_paper() -> None:
    printed = [(row.method, row.mark) for row in TABLES["table1"].rows if row.published]
    assert printed == list(ROWS_1.values())
    assert [row.method for row in TABLES["table1"].rows if not row.published] == ["pmf-md-bnn"]  # released twice
    printed = [(row.method, row.mark) for row in TABLES["table2"].rows if row.mark != ADDED]
    assert printed == list(ROWS_2.values())


def test_columns_are_the_places_of_the_printed_numbers_in_the_order_of_the_paper() -> None:
    assert [setup.name for setup in TABLES["table1"].setups] == [V10, R10, V100, R100, TINY]
    assert [setup.name for setup in TABLES["table2"].setups] == [TINY, NETTE]
    for setup, title in zip(
        (V10, R10, V100, R100, TINY, NETTE),
        (
            "CIFAR-10 VGG-16",
            "CIFAR-10 ResNet-18",
            "CIFAR-100 VGG-16",
            "CIFAR-100 ResNet-18",
            "Tiny ImageNet ResNet-18",
            "Imagenette ResNet-18",
        ),
        strict=True,
    ):
        assert SETUPS[setup].title == title


def test_the_ablation_is_ours_and_has_no_printed_numbers() -> None:
    assert numbers_of(TABLES["ablation"]) == {}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_mark_has_a_footnote_and_every_footnote_a_mark(table: Table) -> None:
    assert {row.mark for row in table.rows} - {""} == set(table.notes)


def test_a_number_that_is_missing_in_a_row_is_an_error_and_not_a_shift() -> None:
    assert read_row(("a", "b", "c"), "1.5±0.2 - 3") == {"a": Published(1.5, 0.2), "c": Published(3.0)}
    with pytest.raises(ValueError):
        read_row(("a", "b", "c"), "1.5±0.2 3")
