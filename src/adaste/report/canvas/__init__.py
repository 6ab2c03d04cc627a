"""The figures of runs, drawn with matplotlib in colours that colour-blind readers can tell apart."""

from adaste.report.canvas.accuracies import draw_ablation, draw_overview
from adaste.report.canvas.curves import draw_figure
from adaste.report.canvas.looks import LOOK

__all__ = ["LOOK", "draw_ablation", "draw_figure", "draw_overview"]
