"""The examples train: each is run as it is, for a few epochs where that is enough."""

from importlib import import_module
from pathlib import Path

import pytest
import torch

pytest.importorskip("sklearn", reason="the examples train on scikit-learn's digits")

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def as_programs_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    torch.manual_seed(0)


def test_the_ten_lines_as_a_program_train_and_pack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accuracy = import_module("ten_lines").main(tmp_path / "digits.safetensors", epochs=10)
    assert accuracy > 85
    assert f"{accuracy:.1f} % with one bit per weight" in capsys.readouterr().out
    assert (tmp_path / "digits.safetensors").stat().st_size < 4000


@pytest.mark.parametrize(
    ("example", "package", "epochs", "least"),
    [
        ("accelerate_loop", "accelerate", 10, 85),
        ("hugging_face_trainer", "accelerate", 8, 60),
        ("lightning_module", "lightning", 10, 85),
    ],
)
def test_the_ten_lines_train_with_other_peoples_loops(example: str, package: str, epochs: int, least: float) -> None:
    pytest.importorskip(package)
    assert import_module(example).main(epochs=epochs) > least
