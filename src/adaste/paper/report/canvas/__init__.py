"""The figures of runs, drawn with matplotlib in colours that colour-blind readers can tell apart."""

from adaste.paper.report.canvas.accuracies import draw_ablation, draw_overview
from adaste.paper.report.canvas.curves import draw_figure
from adaste.paper.report.canvas.looks import LOOK

__all__ = ["LOOK", "draw_ablation", "draw_figure", "draw_overview"]
