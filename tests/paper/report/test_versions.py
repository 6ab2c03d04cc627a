"""Runs that another version of adaste has made are marked wherever they count."""

from pathlib import Path

from adaste.paper.index import Collection, Run
from adaste.paper.report.contents import contents
from adaste.paper.report.texts import format_grid
from adaste.paper.tables import FAMILIES, TABLES
from support.paper_runs import a_recipe, a_run

SETUP = "cifar10-resnet18"


def made_by(*versions: str) -> list[Run]:
    recipes = [a_recipe("ours", "adaste", SETUP, seed=seed) for seed in range(len(versions) + 1)]
    ours, *others = recipes
    made = zip(others, versions, strict=True)
    return [a_run(ours, 90.0), *(a_run(recipe, 90.0, adaste=version) for recipe, version in made)]


def test_a_cell_of_the_tables_names_the_versions_that_made_its_runs() -> None:
    def told(runs: list[Run]) -> str:
        (text,) = [
            text for row in format_grid(TABLES["table1"], FAMILIES["ours"], runs).rows for text in row if "n=" in text
        ]
        return text

    assert "adaste" not in told(made_by())
    assert "; by adaste 0.0.8, 0.0.9)" in told(made_by("0.0.9", "0.0.8"))


def test_the_data_of_the_page_name_them_in_the_cell() -> None:
    data = contents(Collection(tuple(made_by("0.0.9")), ()), Path("runs"))
    rows = next(table["rows"] for table in data["tables"] if table["name"] == "table1")
    (cell,) = next(row["cells"]["ours"][SETUP] for row in rows if row["method"] == "adaste")
    assert cell["versions"] == ["0.0.9"]
