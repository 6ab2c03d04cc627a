"""Tables in markdown: every number of every cell."""

import dataclasses
import re

from adaste.paper.families.released import RELEASED
from adaste.paper.report.texts import markdown
from adaste.paper.tables import TABLES
from support.report_texts import TABLE, annealed, runs_of

RESNET, TINY = "CIFAR-10 ResNet-18", "Tiny ImageNet ResNet-18"


def rows(text: str, title: str) -> list[dict[str, str]]:
    """The rows of that title in a markdown text, one per family: their cells by the head of the column."""
    parts = [[part.strip() for part in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    head = next(line for line in parts if line[0] == "method")
    return [dict(zip(head, line, strict=True)) for line in parts if line[0] == title]


def row(text: str, title: str) -> dict[str, str]:
    (found,) = rows(text, title)
    return found


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
                assert list(told) == ["method", *(setup.title for setup in table.setups)]
                for setup in table.setups:
                    published = each.published.get(setup.name)
                    paper = f"paper {published.accuracy:.2f}" if published else ""
                    assert paper in told[setup.title], (table.name, family.name, title, setup.name)
    text = markdown(TABLES["table1"], annealed(94.0))
    cells = [told[TINY] for told in rows(text, "Full precision †")]
    assert cells == ["— (paper 58.35)", "missing (paper 58.35)", "missing (paper 58.35)"]


def test_footnotes_hardware_and_time_are_told() -> None:
    text = markdown(TABLE, annealed(94.0, 94.1))
    assert "\\* run 5 times by the paper's authors" in text
    assert "† quoted by the paper from Ajanthan et al. 2021, whose code" in text
    assert "Made on NVIDIA H200; a run took 1.0 minutes." in text


def test_runs_of_less_than_a_minute_took_seconds() -> None:
    runs = annealed(94.0, 94.1)
    short = [
        dataclasses.replace(run, result=dataclasses.replace(run.result, seconds=3.0 + place))
        for place, run in enumerate(runs)
    ]
    assert "a run took 3.5 seconds." in markdown(TABLE, short)


def test_a_family_without_runs_says_so() -> None:
    text = markdown(TABLES["table1"], annealed(94.0))
    assert text.count("No runs.\n") == 2 and text.count("| method |") == 3


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
