"""The report as one HTML page, which asks nobody for anything, and its figures as files."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import adaste
from adaste._util.files import write_atomically
from adaste._util.packages import require_package
from adaste.paper.families import SETUPS
from adaste.paper.figures import FIGURES, ILLUSTRATIONS, render_figure
from adaste.paper.index import Collection, Run
from adaste.paper.mathematics import drawings as mathematics
from adaste.paper.report.contents import Plain, contents
from adaste.paper.tables import FAMILIES, TABLES

STYLES = ("colours.css", "page.css", "controls.css", "tables.css", "charts.css", "sheets.css", "screens.css")
SCRIPTS = (
    "dom.js",
    "data.js",
    "labels.js",
    "drawing.js",
    "ranges.js",
    "reading.js",
    "chart.js",
    "saving.js",
    "legend.js",
    "curves.js",
    "tables.js",
    "runs.js",
    "histogram.js",
    "sheets.js",
    "others.js",
    "functions.js",
    "page.js",
)
"""In the order they are read: each uses the ones before it."""


def page(collection: Collection, root: Path, made: datetime) -> str:
    """Return the page about the runs of `root`, with the time it was made."""
    about = {"version": adaste.__version__, "made": made.isoformat(timespec="seconds"), "root": root.resolve().name}
    return _assembled({**contents(collection, root), "about": about})


def _assembled(data: Plain) -> str:
    style = "\n".join(map(_asset, STYLES))
    code = "\n".join(map(_asset, SCRIPTS))
    script = f'(() => {{\n"use strict";\n{code}\n}})();'
    parts = {"policy": escape(_policy(style, script)), "style": style, "contents": as_script(data), "script": script}
    # All at once: what a part holds is never taken for the place of another.
    return re.sub(
        "|".join(f"{{{{{name}}}}}" for name in parts), lambda found: parts[found[0][2:-2]], _asset("page.html")
    )


def as_script(data: Plain) -> str:
    """Return JSON that is safe inside of a script element."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _policy(style: str, script: str) -> str:
    """Return the policy that lets browsers run this script only, and load nothing."""
    return f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data: blob:"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return (files("adaste.paper.report") / "assets" / name).read_text(encoding="utf-8")


if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ENDINGS = ("svg", "pdf")
"""The endings of the files of each figure."""


def draw_all(collection: Collection, folder: Path) -> list[Path]:
    """Draw figures 1 and 2, if the paper is shown, and all figures that have runs; return the files."""
    canvas = _canvas()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    of_paper = illustrations() if collection.shows_paper else ()
    for look, named in ((mathematics.LOOK, of_paper), (canvas.LOOK, drawings(collection.runs))):
        for name, drawing in named:
            for ending in ENDINGS:
                path = folder / f"{name}.{ending}"
                write_atomically(path, render_figure(drawing, ending, look))
                written.append(path)
    return written


def illustrations() -> Iterator[tuple[str, "Drawing"]]:
    """Yield the figures of the paper that need no runs, by name."""
    for name, draw in ILLUSTRATIONS.items():
        yield name, mathematics.FIGURES[draw]()


def drawings(runs: Sequence[Run]) -> Iterator[tuple[str, "Drawing"]]:
    """Yield every figure that has runs, by name."""
    canvas = _canvas()
    for figure in FIGURES.values():
        for family in FAMILIES.values():
            drawing = canvas.draw_figure(figure, family, runs)
            if drawing is not None:
                yield f"{figure.name}-{family.name}", drawing
    for setup in SETUPS.values():
        # The first table with the setup: the second one repeats some of its numbers.
        table = next(table for table in TABLES.values() if setup in table.setups)
        drawing = canvas.draw_overview(table, setup, runs)
        if drawing is not None:
            yield f"overview-{setup.name}", drawing
    drawing = canvas.draw_ablation(TABLES["ablation"], runs)
    if drawing is not None:
        yield "ablation", drawing


def _canvas() -> ModuleType:
    """Return the module that draws; a report without figures must not need matplotlib."""
    with require_package("matplotlib", extra="demo", purpose="a figure"):
        from adaste.paper.report import canvas
    return canvas
