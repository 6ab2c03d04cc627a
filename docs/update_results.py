"""Bring the tables and pictures of README and docs up to date with results/: python docs/update_results.py

A table stands between the lines `<!-- results: TABLE FAMILY PLACE... -->` and `<!-- end of results -->`.
"""

import re
from dataclasses import replace
from pathlib import Path

from adaste.files import write_atomically
from adaste.paper.collection import Run, collect
from adaste.paper.places import place
from adaste.paper.tables import TABLES, family
from adaste.report.texts import grid_of_family

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "reproducing.md")
PICTURES = ("overview-cifar10-resnet18", "figure3-released")
MARKED = re.compile(r"(<!-- results: ([^>]*) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def updated(text: str, runs: tuple[Run, ...]) -> str:
    """The text with every table made anew."""

    def table(found: re.Match[str]) -> str:
        name, family_name, *places = found[2].split()
        chosen = replace(TABLES[name], places=tuple(place(one) for one in places)) if places else TABLES[name]
        return f"{found[1]}\n{grid_of_family(chosen, family(family_name), runs)}\n{found[3]}"

    return MARKED.sub(table, text)


def main() -> None:
    """Write what has changed."""
    from adaste.report.canvas import saved
    from adaste.report.drawings import drawings

    runs = collect(ROOT / "results").runs
    for page in PAGES:
        write_atomically(page, updated(page.read_text(), runs).encode())
    for name, drawing in drawings(runs):
        if name in PICTURES:
            write_atomically(ROOT / "docs" / "pictures" / f"{name}.svg", saved(drawing, "svg"))


if __name__ == "__main__":
    main()
