"""Tables as texts: every number of every cell, in three forms."""

import csv
import dataclasses
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from paper_runs import a_recipe, a_run

from adaste.paper.collection import Collection, Problem, Run
from adaste.paper.released import RELEASED
from adaste.paper.tables import TABLES, Table
from adaste.report.texts import TEXTS, latex, markdown
from adaste.report.wording import difference, heading

RESNET, TINY = "CIFAR-10 ResNet-18", "Tiny ImageNet ResNet-18"
TABLE = dataclasses.replace(TABLES["table1"], families=(RELEASED,))
every_form = pytest.mark.parametrize("form", TEXTS)


def runs_of(family: str, method: str, place: str, *lasts: float, epochs: int = 3, best: float = 0.0) -> list[Run]:
    return [
        a_run(a_recipe(family, method, place, epochs=epochs, seed=seed), [best, *[1.0] * (epochs - 2), last])
        for seed, last in enumerate(lasts)
    ]


def annealed(*lasts: float, epochs: int = 3, best: float = 94.30) -> list[Run]:
    return runs_of("released", "adaste-annealed", "cifar10-resnet18", *lasts, epochs=epochs, best=best)


def rows(text: str, title: str) -> list[dict[str, str]]:
    """The rows of that title in a markdown text, one per family: their cells by the head of the column."""
    parts = [[part.strip() for part in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    head = next(line for line in parts if line[0] == "method")
    return [dict(zip(head, line, strict=True)) for line in parts if line[0] == title]


def row(text: str, title: str) -> dict[str, str]:
    (found,) = rows(text, title)
    return found


def entries(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_cell_tells_mean_spread_seeds_length_best_and_the_papers_number() -> None:
    text = markdown(TABLE, annealed(94.16, 94.21, 94.26))
    assert row(text, "AdaSTE, annealed \\*")[RESNET] == "94.21 ± 0.05 (n=3, 3 ep.; best 94.30; paper 94.11, +0.10)"


def test_one_run_has_no_spread_and_no_published_number_no_difference() -> None:
    text = markdown(TABLE, runs_of("released", "binaryconnect", "tiny-imagenet-resnet18", 50.0))
    assert row(text, "BinaryConnect \\*")[TINY] == "50.00 (n=1, 3 ep.; best 50.00)"
    assert row(text, "BinaryConnect †")[TINY] == "50.00 (n=1, 3 ep.; best 50.00; paper 49.65, +0.35)"


def test_the_longest_runs_are_shown() -> None:
    text = markdown(TABLE, [*annealed(90.0, epochs=2), *annealed(94.0, epochs=5), *annealed(92.0, epochs=3)])
    assert row(text, "AdaSTE, annealed \\*")[RESNET].startswith("94.00 (n=1, 5 ep.;")


def test_rows_without_published_numbers_have_one_length() -> None:
    runs = [
        *runs_of("ablation", "printed", "cifar10-resnet18", 30.0),
        *runs_of("ablation", "released", "cifar10-resnet18", 93.0),
        *runs_of("ablation", "released", "cifar10-resnet18", 94.5, epochs=9),
        *runs_of("ablation", "straight-through", "cifar10-resnet18", 94.0, epochs=8),
    ]
    text = markdown(TABLES["ablation"], runs)
    assert "gate at \\|g\\| &gt; 0.001 | 93.00 (n=1, 3 ep.;" in text
    assert row(text, "straight-through, same latent dynamics")[RESNET] == "missing"


def test_missing_runs_and_missing_recipes_are_said() -> None:
    text = markdown(TABLE, annealed(94.0))
    assert row(text, "PMF †")[RESNET] == "missing (paper 93.24)"
    nette = dataclasses.replace(TABLES["table2"], families=(RELEASED,), rows=TABLES["table1"].rows)
    text = markdown(nette, runs_of("released", "bayesbinn", "imagenette-resnet18", 70.0))
    assert row(text, "PMF †")["Imagenette ResNet-18"] == "—"
    assert row(text, "BinaryConnect \\*")["Imagenette ResNet-18"] == "missing"


def test_every_published_number_is_told_also_without_runs_and_without_a_recipe() -> None:
    for table in (TABLES["table1"], TABLES["table2"]):
        text = markdown(table, annealed(94.0))
        for each in table.rows:
            title = f"{each.title} {each.mark}".strip().replace("*", "\\*")
            for family, told in zip(table.families, rows(text, title), strict=True):
                assert list(told) == ["method", *(place.title for place in table.places)]
                for place in table.places:
                    published = each.published.get(place.name)
                    paper = f"paper {published.accuracy:.2f}" if published else ""
                    assert paper in told[place.title], (table.name, family.name, title, place.name)
    text = markdown(TABLES["table1"], annealed(94.0))
    cells = [told[TINY] for told in rows(text, "Full precision †")]
    assert cells == ["— (paper 58.35)", "missing (paper 58.35)", "missing (paper 58.35)"]


def test_footnotes_hardware_and_time_are_told() -> None:
    text = markdown(TABLE, annealed(94.0, 94.1))
    assert "\\* run 5 times by the paper's authors" in text
    assert "† quoted by the paper from Ajanthan et al. 2021, whose code" in text
    assert "Made on NVIDIA H200; a run took 1.0 minutes." in text


def test_a_family_without_runs_says_so() -> None:
    text = markdown(TABLES["table1"], annealed(94.0))
    assert text.count("No runs.\n") == 2 and text.count("| method |") == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.104, "+0.10"), (-0.104, "−0.10"), (-0.001, "+0.00"), (0.0, "+0.00"), (12.0, "+12.00")],  # noqa: RUF001
)
def test_a_difference_has_a_sign_and_is_never_minus_zero(value: float, text: str) -> None:
    assert difference(value) == text


def test_headings_are_those_of_the_tables() -> None:
    assert [heading(table).partition(":")[0] for table in TABLES.values()] == ["Table 1", "Table 2", "Ablation"]


def test_signs_that_mean_something_in_markdown_mean_themselves() -> None:
    runs = runs_of("ablation", "released", "cifar10-resnet18", 90.0)
    hostile = [dataclasses.replace(run, environments=({"gpu": "a|b*<script>[x](y)\n# z"},)) for run in runs]
    text = markdown(TABLES["ablation"], hostile)
    assert "| released update, gate at \\|g\\| &gt; 0.001 | 90.00 (n=1, 3 ep.; best 90.00) |" in text
    assert "a\\|b\\*&lt;script&gt;\\[x\\](y) # z" in text


def test_every_line_of_a_markdown_table_has_as_many_cells() -> None:
    for table in TABLES.values():
        text = markdown(table, [*annealed(94.0), *runs_of("ablation", "released", "cifar10-resnet18", 90.0)])
        for block in text.split("\n\n"):
            lines = [re.sub(r"\\\|", "", line) for line in block.splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in lines}) <= 1


# --- LaTeX -----------------------------------------------------------------------------------------------------------


def test_latex_has_the_same_cells_in_its_own_signs() -> None:
    text = latex(TABLE, annealed(93.95, 94.0, 94.05))
    assert (
        r"\raggedright AdaSTE, annealed * & \raggedright missing (paper 92.37) & "
        r"\raggedright 94.00 $\pm$ 0.05 (n=3, 3 ep.; best 94.30; paper 94.11, $-$0.11) \tabularnewline"
    ) in text
    assert r"\raggedright PMF $\dagger$ & \raggedright missing (paper 91.40) & " in text


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_latex_is_balanced_and_every_row_has_all_columns(table: Table) -> None:
    runs = [
        *annealed(94.0),
        *runs_of("released", "adaste-annealed", "cifar10-vgg16", 92.0),
        *runs_of("released", "adaste-annealed", "imagenette-resnet18", 80.0),
        *runs_of("ablation", "released", "cifar10-resnet18", 90.0),
    ]
    hostile = [
        dataclasses.replace(run, environments=({"gpu": r'50% & $5_{a}# ~^\end{table} "x"' + "\n"},)) for run in runs
    ]
    text = latex(table, hostile)
    assert text.isascii()
    before, *parts = text.split(r"\begin{table}")
    assert before == "" and all(part.count(r"\end{table}") == 1 for part in parts)
    for part in parts:
        bare = re.sub(r"\\[{}$&%#_]", "", part)
        assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
        (columns,) = re.findall(r"\\begin\{tabular\}\{(.*)\}$", part, re.MULTILINE)
        count = columns.count(r"\textwidth")
        assert sum(float(width) for width in re.findall(r"p\{([\d.]+)", columns)) <= 0.93
        lines = [line for line in bare.splitlines() if line.endswith(r"\tabularnewline")]
        assert len(lines) > 4 and all(line.count("&") == count - 1 for line in lines)
    assert r"50\% \& \$5\_\{a\}\# \textasciitilde{}\textasciicircum{}\textbackslash{}end\{table\} ''x''" in text


def test_latex_has_a_table_for_every_data_set_of_a_family_also_without_runs() -> None:
    places = ("cifar10-vgg16", "cifar10-resnet18", "tiny-imagenet-resnet18")
    text = latex(TABLE, [run for place in places for run in runs_of("released", "adaste-annealed", place, 50.0)])
    names = [f"table1-released-{data}" for data in ("cifar10", "cifar100", "tiny-imagenet")]
    assert re.findall(r"\\label\{tab:(.*)\}", text) == names
    heads = [line for line in text.splitlines() if line.startswith(r"\raggedright method")]
    assert [head.count("&") for head in heads] == [2, 2, 1]
    assert r"\raggedright missing (paper 71.50) & \raggedright missing (paper 76.31) \tabularnewline" in text
    assert ["No runs." in line for line in text.splitlines() if r"\caption" in line] == [False, True, False]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX")
def test_every_latex_table_fits_on_a_page_of_an_article(tmp_path: Path) -> None:
    runs = [
        run
        for table in TABLES.values()
        for family in table.families
        for row in table.rows
        for place in table.places
        if family.recipe(row.method, place, 3)
        for run in runs_of(family.name, row.method, place.name, 80.0, 90.0)
    ]
    texts = "".join(latex(table, runs) for table in TABLES.values())
    (tmp_path / "all.tex").write_text(rf"\documentclass{{article}}\begin{{document}}{texts}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout and "too large" not in done.stdout


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_csv_has_all_numbers_and_digests_of_every_length() -> None:
    runs = [*annealed(94.16, 94.21, 94.26), *annealed(90.0, epochs=2)]
    found = [entry for entry in entries(TEXTS["csv"](Collection(tuple(runs), ()))) if entry["runs"] not in ("", "0")]
    assert [entry["epochs"] for entry in found] == ["3", "2"]
    assert found[0] == {
        "table": "table1",
        "row": "AdaSTE, annealed",
        "mark": "*",
        "method": "adaste-annealed",
        "place": "cifar10-resnet18",
        "family": "released",
        "epochs": "3",
        "runs": "3",
        "last_mean": "94.21",
        "last_spread": "0.05",
        "best_mean": "94.3",
        "best_spread": "0",
        "paper": "94.11",
        "paper_spread": "0.08",
        "last_minus_paper": "0.1",
        "best_minus_paper": "0.19",
        "seconds": "60",
        "hardware": "NVIDIA H200",
        "seeds": "0 1 2",
        "last_of_each": "94.16 94.21 94.26",
        "best_of_each": "94.3 94.3 94.3",
        "digests": " ".join(run.digest for run in runs[:3]),
    }


def test_csv_says_where_runs_are_missing_and_is_silent_where_there_is_no_recipe() -> None:
    lines = [line for line in entries(TEXTS["csv"](Collection((), ()))) if line["table"] == "table1"]
    assert {line["runs"] for line in lines} == {"0"} and {line["epochs"] for line in lines} == {""}
    keys = [tuple(line[name] for name in ("table", "row", "mark", "place", "family", "epochs")) for line in lines]
    assert len(set(keys)) == len(keys)
    assert not [line for line in lines if line["family"] == "paper" and line["method"] == "pmf"]
    assert len([line for line in lines if line["method"] == "pmf"]) == 10  # of `released` and `ours`, at five places


# --- all of them -----------------------------------------------------------------------------------------------------


@every_form
def test_a_text_is_the_same_every_time_and_works_without_runs(form: str) -> None:
    collection = Collection(tuple(annealed(94.0)), ())
    assert TEXTS[form](collection) == TEXTS[form](collection)
    assert TEXTS[form](Collection((), ()))


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_what_is_in_no_table_is_told(form: str) -> None:
    other = dataclasses.replace(annealed(94.0)[0], addresses=())
    problem = Problem(Path("/somewhere/half a run"), "not finished:\n2 of 3 epochs")
    text = TEXTS[form](Collection((dataclasses.replace(other, environments=({"adaste": "0.0.9"},)),), (problem,)))
    assert "1 run of other recipes: in no table of the paper but in one of their own." in text
    assert f"Made by another version: {other.digest} (adaste 0.0.9)." in text
    assert "Left out: half a run (not finished: 2 of 3 epochs)." in text
    assert "/somewhere" not in text


def ones_own(**changes: int) -> Run:
    run = a_run(
        dataclasses.replace(a_recipe("ours", "adaste", "cifar10-resnet18"), **changes), 90.0 + changes.get("seed", 0)
    )
    return dataclasses.replace(run, folder=Path(f"runs/mine-{run.digest}"))


def test_recipes_of_ones_own_have_a_row_each_with_all_their_seeds() -> None:
    runs = (ones_own(batch=100), ones_own(batch=100, seed=2), ones_own(batch=64))
    text = TEXTS["markdown"](Collection(runs, ()))
    assert "| cifar10 ResNet: mine (batch=100) | 91.00 ± 1.41 (n=2, 3 ep.; best 91.00) |" in text
    assert "| cifar10 ResNet: mine (batch=64) | 90.00 (n=1, 3 ep.; best 90.00) |" in text
    assert text.index("### Other recipes") < text.index("### Table 1")  # which has no runs
    assert r"91.00 $\pm$ 1.41" in TEXTS["latex"](Collection(runs, ()))
    lines = [line for line in entries(TEXTS["csv"](Collection(runs, ()))) if line["table"] == "others"]
    assert [(line["row"], line["method"], line["seeds"]) for line in lines] == [
        ("mine (batch=100)", "AdaSTE", "0 2"),
        ("mine (batch=64)", "AdaSTE", "0"),
    ]


@every_form
def test_without_recipes_of_ones_own_nothing_is_said_of_them(form: str) -> None:
    assert "other" not in TEXTS[form](Collection(tuple(annealed(94.0)), ())).lower()


def test_beside_tables_with_runs_other_recipes_come_last() -> None:
    text = TEXTS["markdown"](Collection((ones_own(batch=100), *annealed(94.0)), ()))
    assert text.index("### Table 1") < text.index("### Other recipes")
