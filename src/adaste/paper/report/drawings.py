"""All figures as files: those of the paper, an overview of every setup, and the ablation.

Equal runs give equal files: no dates, no random names, and nothing from the user's own settings of matplotlib.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from adaste._util.extras import needs
from adaste._util.files import write_atomically
from adaste.paper.drawing import saved
from adaste.paper.figures import FIGURES, ILLUSTRATIONS
from adaste.paper.index import Collection, Run
from adaste.paper.mathematics import drawings as mathematics
from adaste.paper.setups import SETUPS
from adaste.paper.tables import FAMILIES, TABLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ENDINGS = ("svg", "pdf")
"""Of the files of each figure."""


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
                write_atomically(path, saved(drawing, ending, look))
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
    with needs("matplotlib", extra="demo", purpose="a figure"):
        from adaste.paper.report import canvas
    return canvas
