"""What all figures of runs look like."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from matplotlib.figure import Figure as Drawing

LOOK: Mapping[str, Any] = MappingProxyType(
    {
        "axes.titlesize": 10.5,
        "figure.titlesize": 11.5,
        "figure.titleweight": "bold",
        "font.size": 9.5,
        "grid.color": "#e8e8e8",
        "legend.fontsize": 8.5,
    }
)
"""For figures with a title of their own above the panels."""

GREY = "#767676"


def entitle(drawing: Drawing, title: str) -> None:
    """Put a title on the left above all panels."""
    drawing.suptitle(title, x=0.01, ha="left")
