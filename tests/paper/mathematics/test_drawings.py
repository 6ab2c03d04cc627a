"""Every figure is drawn, the same each time, small, and without a trace in the user's settings."""

import sys

import pytest

pytest.importorskip("matplotlib", reason="the drawings need matplotlib, which is optional")
import matplotlib
from matplotlib.figure import Figure

from adaste._util.packages import MissingPackageError
from adaste.paper.figures import render_figure
from adaste.paper.mathematics import drawings

pytestmark = pytest.mark.slow


def svg(figure: Figure) -> bytes:
    return render_figure(figure, "svg", drawings.LOOK)


@pytest.fixture(scope="module", params=drawings.FIGURES, ids=str)
def figure(request: pytest.FixtureRequest) -> Figure:
    return drawings.FIGURES[request.param]()


def test_figure_has_titles_labels_and_every_line_shows_inside_its_axes(figure):
    assert isinstance(figure, Figure)
    for axes in figure.axes:
        assert axes.get_title(loc="left")
        assert axes.get_xlabel()
        (left, right), (low, high) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
        for line in axes.lines:
            assert any(left <= x <= right and low <= y <= high for x, y in line.get_xydata())


def test_file_is_small_and_has_no_date(figure):
    content = svg(figure)
    assert content.startswith(b"<?xml")
    assert b"<dc:date>" not in content
    assert len(content) < 150_000


@pytest.mark.parametrize("draw", [drawings.mirror_descent, drawings.steepest_spacing])
def test_drawing_again_gives_the_same_bytes(draw):
    first, second = (svg(draw()) for _ in range(2))
    assert first == second


def test_settings_of_the_user_neither_matter_nor_change():
    plain = svg(drawings.map_curves())
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        assert svg(drawings.map_curves()) == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=r"pip install '\.\[demo\]'"):
        drawings.map_curves()
