"""The tables as texts, one file per form: pure functions of runs."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from adaste.paper.collection import Collection
from adaste.paper.report.texts.csv_file import all_csv
from adaste.paper.report.texts.footnotes import remarks
from adaste.paper.report.texts.latex import all_latex
from adaste.paper.report.texts.markdown import all_markdown

__all__ = ["TEXTS", "remarks"]

TEXTS: Mapping[str, Callable[[Collection], str]] = MappingProxyType(
    {"markdown": all_markdown, "latex": all_latex, "csv": all_csv}
)
"""All tables as a text, by the name of its form."""
