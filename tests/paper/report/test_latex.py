"""Tables in LaTeX: the same cells in its own signs, on pages that hold them."""

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from adaste.paper.report.texts import latex
from adaste.paper.tables import TABLES, Table
from support.report_texts import TABLE, annealed, runs_of


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
    setups = ("cifar10-vgg16", "cifar10-resnet18", "tiny-imagenet-resnet18")
    text = latex(TABLE, [run for setup in setups for run in runs_of("released", "adaste-annealed", setup, 50.0)])
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
        for setup in table.setups
        if family.has(row.method, setup)
        for run in runs_of(family.name, row.method, setup.name, 80.0, 90.0)
    ]
    texts = "".join(latex(table, runs) for table in TABLES.values())
    (tmp_path / "all.tex").write_text(rf"\documentclass{{article}}\begin{{document}}{texts}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout and "too large" not in done.stdout
