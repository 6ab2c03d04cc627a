"""All figures as files: those of the paper, an overview of every place, and the ablation.

Equal runs give equal files: no dates, no random names, and nothing from the user's own settings of matplotlib.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from adaste.extras import needs
from adaste.files import write_atomically
from adaste.mathematics import drawings as mathematics
from adaste.paper.collection import Collection, Run
from adaste.paper.figures import FIGURES, ILLUSTRATIONS
from adaste.paper.places import PLACES
from adaste.paper.tables import FAMILIES, TABLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

FORMATS = ("svg", "pdf", "png")


def draw_all(collection: Collection, folder: Path, formats: Sequence[str] = ("svg", "pdf")) -> list[Path]:
    """Draw figures 1 and 2 and whatever there are runs for into `folder`, and give the files that were written."""
    for name in formats:
        if name not in FORMATS:
            raise ValueError(f"figures are drawn as {', '.join(FORMATS)}, got {name!r}")
    canvas = _canvas()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, drawing in (*illustrations(), *drawings(collection.runs)):
        for ending in formats:
            path = folder / f"{name}.{ending}"
            write_atomically(path, canvas.saved(drawing, ending))
            written.append(path)
    return written


def illustrations() -> Iterator[tuple[str, "Drawing"]]:
    """The figures of the paper that need no runs, by name."""
    for name, draw in ILLUSTRATIONS.items():
        yield name, mathematics.FIGURES[draw]()


def drawings(runs: Sequence[Run]) -> Iterator[tuple[str, "Drawing"]]:
    """Every figure there are runs for, by name."""
    canvas = _canvas()
    for figure in FIGURES.values():
        for family in FAMILIES.values():
            drawing = canvas.draw_figure(figure, family, runs)
            if drawing is not None:
                yield f"{figure.name}-{family.name}", drawing
    for place in PLACES.values():
        # The first table with the place: the second one repeats some of its numbers.
        table = next(table for table in TABLES.values() if place in table.places)
        drawing = canvas.draw_overview(table, place, runs)
        if drawing is not None:
            yield f"overview-{place.name}", drawing
    drawing = canvas.draw_ablation(TABLES["ablation"], runs)
    if drawing is not None:
        yield "ablation", drawing


def _canvas() -> ModuleType:
    """What draws the figures of runs; a report without figures must not need matplotlib."""
    with needs("matplotlib", extra="demo", purpose="a figure"):
        from adaste.report import canvas
    return canvas
