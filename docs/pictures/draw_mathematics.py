"""Draw the figures of docs/mathematics.md into this folder: python docs/pictures/draw_mathematics.py"""

from pathlib import Path

from adaste._util.files import write_atomically
from adaste.paper.figures import render_figure
from adaste.paper.mathematics.drawings import FIGURES, LOOK

FOLDER = Path(__file__).parent

for name, draw in FIGURES.items():
    content = render_figure(draw(), "svg", LOOK)
    write_atomically(FOLDER / f"{name}.svg", content)
    print(f"{name}.svg  {len(content) / 1000:.0f} kB")
