"""Figures as files: what is in them, and that equal runs give equal bytes."""

import dataclasses
import sys
from pathlib import Path

import pytest

from adaste._util.packages import MissingPackageError
from adaste.paper.families import SETUPS
from adaste.paper.figures import FIGURES
from adaste.paper.index import Collection, Run
from adaste.paper.report.page import draw_all, drawings
from adaste.paper.tables import FAMILIES, TABLES
from support.paper_runs import a_recipe, a_run

matplotlib = pytest.importorskip("matplotlib", reason="figures are optional")
canvas = pytest.importorskip("adaste.paper.report.canvas")

pytestmark = pytest.mark.slow

HERE = "cifar10-resnet18"


def run_of(family: str, method: str, last: float, *, setup: str = HERE, epochs: int = 4, seed: int = 0) -> Run:
    return a_run(a_recipe(family, method, setup, epochs=epochs, seed=seed), last)


def texts_of(axes) -> set[str]:  # type: ignore[no-untyped-def]
    return {text.get_text().strip() for text in axes.texts}


def test_there_is_a_figure_for_whatever_has_runs_and_none_for_the_rest() -> None:
    runs = [run_of("released", "adaste", 93.0), run_of("ours", "bop", 90.0), run_of("ablation", "printed", 30.0)]
    names = [name for name, _ in drawings(runs)]
    assert names == [
        "figure3-released",
        "figure4-released",
        "figure7-released",
        "long-runs-released",
        f"overview-{HERE}",
        "ablation",
    ]
    assert list(drawings([])) == []


def test_a_figure_names_what_is_missing_and_says_how_long_its_runs_are() -> None:
    runs = [run_of("released", "adaste", 93.0), run_of("released", "adaste", 93.4, seed=1)]
    drawing = canvas.draw_figure(FIGURES["figure3"], FAMILIES["released"], runs)
    left, right = drawing.axes
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == ("CIFAR-10 ResNet-18", "CIFAR-10 VGG-16")
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in (left, right)]
    assert legends[0] == [
        "BinaryConnect: missing",
        "MD-tanh-s: missing",
        "BayesBiNN: missing",
        "AdaSTE, no annealing (n=2)",
        "AdaSTE, annealed: missing",
    ]
    assert all(name.endswith(": missing") for name in legends[1])
    assert list(right.get_yticks()) == []  # no scale where there is no curve
    assert drawing.get_suptitle() == (
        "Figure 3: Test accuracy, CIFAR-10 (family released)\nRuns of 4 epochs instead of 200"
    )


def test_curves_are_drawn_where_the_runs_say() -> None:
    run = run_of("released", "adaste", 93.0)
    drawing = canvas.draw_figure(FIGURES["figure3"], FAMILIES["released"], [run])
    (line,) = [line for line in drawing.axes[0].lines if len(line.get_xdata())]
    assert list(line.get_xdata()) == [1, 2, 3, 4]
    assert list(line.get_ydata()) == [record.test_accuracy for record in run.records]
    assert drawing.axes[0].get_ylabel() == "test accuracy (%)"


@pytest.mark.parametrize(("figure", "far", "near"), [("figure3", 10.0, 80.0), ("figure4", 9.0, 1.0)])
def test_a_scale_that_leaves_out_the_first_epochs_says_so(figure: str, far: float, near: float) -> None:
    def label_of(values: list[float]) -> str:
        run = a_run(a_recipe("released", "adaste", HERE, epochs=len(values)), values)
        records = [dataclasses.replace(record, loss=value) for record, value in zip(run.records, values, strict=True)]
        changed = dataclasses.replace(run, records=tuple(records))
        axes = canvas.draw_figure(FIGURES[figure], FAMILIES["released"], [changed]).axes[0]
        return axes.get_ylabel()

    assert label_of([far, *[near] * 19]).endswith(", first epochs cut off")
    assert "cut off" not in label_of([near, far, near])


def test_legends_cover_no_curve() -> None:
    drawing = canvas.draw_figure(FIGURES["figure3"], FAMILIES["released"], [run_of("released", "adaste", 93.0)])
    drawing.draw_without_rendering()
    for axes in drawing.axes:
        assert not axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())


def test_the_long_figure_has_four_panels() -> None:
    drawing = canvas.draw_figure(FIGURES["figure7"], FAMILIES["ours"], [run_of("ours", "adaste", 93.0)])
    assert [axes.get_title(loc="left") for axes in drawing.axes] == [
        "CIFAR-10 ResNet-18",
        "CIFAR-10 VGG-16",
        "CIFAR-100 ResNet-18",
        "CIFAR-100 VGG-16",
    ]


def test_an_overview_has_published_numbers_as_hollow_marks_and_runs_as_filled_ones() -> None:
    runs = [run_of("ours", "pmf", last, seed=seed) for seed, last in enumerate((92.0, 93.0))]
    axes = canvas.draw_overview(TABLES["table1"], SETUPS[HERE], runs).axes[0]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    hollow = {
        (rows[round(line.get_ydata()[0])].removesuffix(" (no run)"), float(line.get_xdata()[0]))
        for line in axes.lines
        if line.get_markerfacecolor() == "none"
    }
    published = {(row.title, row.published[HERE].accuracy) for row in TABLES["table1"].rows if row.published}
    assert hollow == published
    filled = [
        line for line in axes.lines if line.get_marker() not in ("", "None") and line.get_markerfacecolor() != "none"
    ]
    assert [float(line.get_xdata()[0]) for line in filled] == [92.5]
    assert "PMF" in rows and "ProxQuant (no run)" in rows


def test_runs_of_another_length_have_a_mark_of_their_own_in_an_overview() -> None:
    runs = [run_of("ours", "pmf", 92.0), run_of("ours", "pmf", 93.0, epochs=9), run_of("released", "pmf", 91.0)]
    drawing = canvas.draw_overview(TABLES["table1"], SETUPS[HERE], runs)
    sizes = {
        float(line.get_xdata()[0]): line.get_markersize()
        for line in drawing.axes[0].lines
        if line.get_marker() not in ("", "None") and line.get_markerfacecolor() != "none"
    }
    assert sizes.keys() == {91.0, 92.0, 93.0}
    assert sizes[93.0] > sizes[92.0] == sizes[91.0]
    named = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert named[:3] == ["family released, 4 epochs", "family ours, 4 epochs", "family ours, 9 epochs"]


def test_what_lies_far_below_an_overview_is_an_arrow_with_its_number() -> None:
    runs = [run_of("paper", "adaste", 31.5), run_of("released", "adaste", 93.5)]
    axes = canvas.draw_overview(TABLES["table1"], SETUPS[HERE], runs).axes[0]
    assert texts_of(axes) == {"31.50"}
    assert axes.get_xlim()[0] > 85


def test_the_ablation_tells_numbers_and_what_is_missing() -> None:
    runs = [run_of("ablation", "printed", 30.0), run_of("ablation", "released", 93.0)]
    drawing = canvas.draw_ablation(TABLES["ablation"], runs)
    assert texts_of(drawing.axes[0]) == {"30.00", "93.00", "missing"}
    assert drawing.get_suptitle() == "What makes AdaSTE work: CIFAR-10 ResNet-18 (4 epochs, n = 1)"


def test_the_ablation_compares_runs_of_one_length() -> None:
    runs = [
        run_of("ablation", "printed", 30.0),
        run_of("ablation", "released", 93.0),
        run_of("ablation", "released", 94.5, epochs=9),
        run_of("ablation", "straight-through", 94.0, epochs=8),
    ]
    drawing = canvas.draw_ablation(TABLES["ablation"], runs)
    assert texts_of(drawing.axes[0]) == {"30.00", "93.00", "missing"}
    assert drawing.get_suptitle() == "What makes AdaSTE work: CIFAR-10 ResNet-18 (4 epochs, n = 1)"


def test_equal_runs_give_equal_files_whatever_the_users_settings_are(tmp_path: Path) -> None:
    collection = Collection((run_of("ablation", "released-gate-everywhere", 93.0),), ())
    first = draw_all(collection, tmp_path / "first")
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 30, "svg.hashsalt": None}):
        second = draw_all(collection, tmp_path / "second")
    assert [path.name for path in first] == [
        f"{name}.{ending}" for name in ("figure1", "figure2", "ablation") for ending in ("svg", "pdf")
    ]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert b"CreationDate" not in one.read_bytes() and b"dc:date" not in one.read_bytes()
    assert first[0].read_text().startswith("<?xml") and first[1].read_bytes().startswith(b"%PDF")


def test_figures_1_and_2_are_drawn_where_the_paper_is_shown(tmp_path: Path) -> None:
    own = dataclasses.replace(run_of("ours", "adaste", 93.0), cell_ids=())
    assert draw_all(Collection((own,), ()), tmp_path) == []
    names = {path.stem for path in draw_all(Collection((own,), (), paper=True), tmp_path)}
    assert names == {"figure1", "figure2"}


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import adaste.paper.report

    monkeypatch.delattr(adaste.paper.report, "canvas")
    for name in [name for name in sys.modules if name.startswith(("adaste.paper.report.canvas", "matplotlib"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingPackageError,
        match=r"a figure needs the package matplotlib: it comes with the extra 'demo'.* pip install '\.\[demo\]'",
    ):
        draw_all(Collection((), ()), tmp_path / "new")
    assert not (tmp_path / "new").exists()
