"""`adaste report`: where it writes, in what form, and what it refuses."""

import csv
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from adaste.cli import main
from support.paper_runs import a_recipe, a_run, write_run

pytestmark = pytest.mark.slow

HEAD = "table,row,mark,method,"
"""The beginning of every report in CSV."""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with one finished run."""
    write_run(a_run(a_recipe("ours", "adaste", "cifar10-resnet18"), 90.0), tmp_path / "runs" / "one")
    return tmp_path / "runs"


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_our_own_output_takes_the_report_and_messages_go_elsewhere(runs: Path, name: str, call) -> None:
    code, out, err = call("report", str(runs), "--format", "csv", "-o", name)
    assert code == 0
    assert out.startswith(HEAD) and "1 run" not in out
    assert err == f"{name}: 1 run\n"
    assert list(csv.DictReader(out.splitlines()))
    assert [path.name for path in runs.parent.iterdir()] == ["runs"]


def test_the_file_that_our_output_goes_to_is_not_replaced(runs: Path, tmp_path: Path) -> None:
    output = tmp_path / "all.csv"
    with output.open("wb") as shell:
        before = os.fstat(shell.fileno()).st_ino
        command = [sys.executable, "-m", "adaste", "report", str(runs), "-o", str(output)]
        told = subprocess.run(command, stdout=shell, stderr=subprocess.PIPE, text=True, check=True).stderr
    assert output.stat().st_ino == before
    assert output.read_text().startswith(HEAD) and "1 run" in told


@pytest.mark.parametrize("name", ["t.pdf", "t.HTM", "t.json"])
def test_a_form_that_there_is_not_is_refused_before_any_work(runs: Path, tmp_path: Path, name: str, call) -> None:
    for folder in (runs, tmp_path / "nothing there"):
        code, out, err = call("report", str(folder), "-o", name)
        assert (code, out) == (1, "") and name in err and ".html (html), .md (markdown)" in err
    assert not (tmp_path / name).exists()


def test_a_link_is_followed_and_a_pipe_is_written_into(runs: Path, tmp_path: Path) -> None:
    link, pipe, read = tmp_path / "link.csv", tmp_path / "pipe.csv", list[str]()
    link.symlink_to("real.csv")
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    for output in (link, pipe):
        assert main(["report", str(runs), "-o", str(output)]) == 0
    reader.join(timeout=30)
    assert link.is_symlink() and pipe.is_fifo()
    assert read[0].startswith(HEAD) and (tmp_path / "real.csv").read_text().startswith(HEAD)


def test_a_folder_that_the_report_needs_is_made(runs: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "dir" / "x.html"
    assert main(["report", str(runs), "-o", str(output)]) == 0
    assert output.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("t.md", "Test accuracy in percent"),
        ("t.tex", "% For \\input"),
        ("T.CSV", HEAD),
        ("t.html", "<!DOCTYPE html>"),
        ("t", "<!DOCTYPE html>"),
    ],
)
def test_the_ending_says_the_form(runs: Path, name: str, start: str) -> None:
    assert main(["report", str(runs), "-o", str(runs / name)]) == 0
    assert (runs / name).read_text().startswith(start)


def test_an_ending_that_contradicts_the_form_is_refused(runs: Path, call) -> None:
    code, _, err = call("report", str(runs), "--format", "latex", "-o", "t.md")
    assert code == 1
    assert err == "error: t.md has the ending of markdown, but --format is latex: leave out one of the two\n"
    assert not Path("t.md").exists()


def test_a_folder_without_runs_leaves_the_report_that_is_there_as_it_is(call) -> None:
    Path("empty").mkdir()
    Path("report.html").write_text("good")
    code, out, err = call("report", "empty")
    assert (code, out) == (1, "")
    assert err == "error: empty contains no runs: `adaste train` and `adaste study` write them\n"
    assert Path("report.html").read_text() == "good"


def test_runs_of_which_none_is_finished_are_listed(runs: Path, call) -> None:
    (runs / "one" / "result.json").unlink()
    code, out, err = call("report", str(runs))
    assert (code, out) == (0, "report.html: 0 runs, 1 folder left out\n")
    assert err == "Left out: one (not finished: 3 of 3 epochs).\n"


@pytest.mark.parametrize("length", ["-3", "0", "many"])
def test_a_length_that_no_run_can_have_is_not_understood(
    runs: Path, length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["report", str(runs), f"--epochs={length}"])
    assert end.value.code == 2
    assert f"must be a whole number from 1 on, got '{length}'" in capsys.readouterr().err
