"""How figures are drawn and become files: equal ones give equal bytes, whatever the user's own settings are.

Needs matplotlib (the extra 'demo': `pip install '.[demo]'` in a checkout), which is imported when a figure is made.
"""

import io
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from adaste._util.packages import require_package

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Mapping[str, Any] = MappingProxyType(
    {
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "adaste",
    }
)
"""The style of all figures; the salt makes the identifiers inside an SVG file the same every time."""

NO_DATES: Mapping[str, dict[str, Any]] = MappingProxyType({"svg": {"Date": None}, "pdf": {"CreationDate": None}})
"""Metadata to leave out, for each form of file."""


@contextmanager
def use_style(look: Mapping[str, Any]) -> Iterator[None]:
    """Inside, matplotlib draws in the common style and this look, the sizes and weights that suit a kind of figure."""
    with require_package("matplotlib", extra="demo", purpose="a figure"):
        import matplotlib.style
    with matplotlib.style.context({**STYLE, **look}, after_reset=True):
        yield


def render_figure(figure: "Figure", ending: str, look: Mapping[str, Any]) -> bytes:
    """A figure as the content of a file; in its look, because ticks are made only now."""
    content = io.BytesIO()
    with use_style(look), _errors_alone("fontTools"):  # which warns of the dates in matplotlib's own fonts
        figure.savefig(content, format=ending, metadata=NO_DATES[ending])
    return content.getvalue()


@contextmanager
def _errors_alone(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
