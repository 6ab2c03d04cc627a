"""The demonstration runs from beginning to end, and what it writes is what it says."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("sklearn", reason="the demonstration's own requirements are optional")
pytest.importorskip("matplotlib", reason="the demonstration's own requirements are optional")

SCRIPT = Path(__file__).parents[2] / "examples" / "digits.py"
sys.path.insert(0, str(SCRIPT.parent))  # as when it is run


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_demo", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up there
    spec.loader.exec_module(module)
    return module


demo = load_script()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "not" / "yet" / "there"


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """What one short run prints; its files are in `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setenv("COLUMNS", "100")
        patch.setattr(sys, "stdout", _Collector(lines))
        demo.main(["--epochs", "1", "--seeds", "1", "--out", str(folder)])
    return "".join(lines)


class _Collector:
    """A standard output that is not a terminal."""

    encoding = "utf-8"

    def __init__(self, lines: list[str]) -> None:
        self.write = lines.append

    def flush(self) -> None:
        pass


def test_the_table_names_every_method_and_the_files(printed: str, folder: Path) -> None:
    assert all(method.name in printed for method in demo.METHODS)
    assert "n = 1" in printed
    assert "digits.png" in printed.replace("\n", "")


def test_there_is_no_progress_bar_outside_a_terminal(printed: str) -> None:
    assert "\r" not in printed and "\x1b" not in printed


def test_pictures_and_numbers_are_complete_and_nothing_else_is_left(printed: str, folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["digits.json", "digits.png", "digits.svg"]
    assert (folder / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "digits.svg").read_text(encoding="utf-8").rstrip().endswith("</svg>")


def test_the_record_holds_settings_accuracies_and_sizes(printed: str, folder: Path) -> None:
    record = json.loads((folder / "digits.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in record["methods"]] == [method.name for method in demo.METHODS]
    assert record["data"]["train"] + record["data"]["test"] == 1797
    for row in record["methods"]:
        accuracy = row["accuracy"]
        assert accuracy["n"] == len(accuracy["per seed and epoch"]) == 1
        assert [len(epochs) for epochs in accuracy["per seed and epoch"]] == [1]
        assert 0 <= accuracy["mean"] <= 100
        assert row["estimator"]["kind"] and row["base"]["lr"] > 0
        assert row["packed bytes"] * 32 == row["float32 bytes"] * row["bits per weight"]


def test_straight_through_learns_within_two_epochs() -> None:
    data = demo.digits()
    plan = demo.Plan(epochs=2, steps_per_epoch=20, train_size=len(data.labels))
    method = next(method for method in demo.METHODS if method.name == "straight-through")
    with demo.one_thread():
        accuracy, _ = demo.train(method, plan, data, seed=0, after_epoch=lambda: None)
    assert accuracy[-1] > 50  # chance is 10


def test_the_split_is_stratified_and_always_the_same() -> None:
    first, second = demo.digits(), demo.digits()
    assert first.test_images.equal(second.test_images)
    assert first.test_labels.bincount().min() >= 48


@pytest.mark.parametrize("option", ["--epochs", "--seeds"])
@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_a_count_that_is_none_is_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        demo.arguments([f"{option}={value}"])
    assert f"at least 1 is needed, got '{value}'" in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SystemExit):
        demo.arguments(["--out", str(file)])
    assert "is not a folder" in capsys.readouterr().err


def test_a_missing_requirement_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SystemExit, match=r"pip install '\.\[demo\]'"):
        load_script()
