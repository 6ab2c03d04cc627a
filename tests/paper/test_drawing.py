"""A figure as a file leaves no trace in the process that made it."""

import logging

import pytest

pytest.importorskip("matplotlib", reason="figures are optional")
from matplotlib.figure import Figure

from adaste.paper.figures import render_figure


@pytest.mark.parametrize("level", [logging.NOTSET, logging.DEBUG])
def test_what_other_libraries_log_is_as_before_after_a_figure_was_saved(level: int) -> None:
    logger = logging.getLogger("fontTools")
    before = logger.level
    logger.setLevel(level)
    try:
        figure = Figure()
        figure.subplots().set_title("some text")
        assert render_figure(figure, "pdf", {}).startswith(b"%PDF")
        assert logger.level == level
    finally:
        logger.setLevel(before)
