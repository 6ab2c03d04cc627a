"""The tables as texts, one file per form: pure functions of runs."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from adaste.paper.collection import Collection
from adaste.report.texts.around import remarks
from adaste.report.texts.csv_file import all_csv
from adaste.report.texts.latex import all_latex
from adaste.report.texts.markdown import all_markdown

__all__ = ["TEXTS", "remarks"]

TEXTS: Mapping[str, Callable[[Collection], str]] = MappingProxyType(
    {"markdown": all_markdown, "latex": all_latex, "csv": all_csv}
)
"""All tables as a text, by the name of its form."""
