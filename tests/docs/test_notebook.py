"""The notebooks run from top to bottom, and are committed without what they print."""

from typing import Any

import pytest

from support.pages import ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")

DIGITS, LANGUAGE = "digits.ipynb", "language_models.ipynb"


def read(name: str) -> Any:
    return nbformat.read(ROOT / "examples" / name, as_version=4)


def printed_by(name: str, *packages: str) -> list[str]:
    """What a notebook prints, cell by cell."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    for package in ("ipykernel", "matplotlib", *packages):
        pytest.importorskip(package, reason=f"{package} is not installed")
    notebook = read(name)
    nbclient.NotebookClient(notebook, timeout=120).execute()
    return [output.text for cell in notebook.cells for output in cell.get("outputs", ()) if "text" in output]


@pytest.mark.parametrize("name", [DIGITS, LANGUAGE])
def test_a_notebook_is_committed_without_outputs(name: str) -> None:
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in read(name).cells)


@pytest.mark.slow
def test_the_notebook_trains_packs_and_runs() -> None:
    printed = printed_by(DIGITS, "sklearn", "adaste_runtime")
    (trained,) = (text for text in printed if "with one bit per weight" in text)
    assert float(trained.split()[0]) > 90


@pytest.mark.slow
def test_the_notebook_on_language_models_learns_and_reads_its_gguf_file() -> None:
    printed = printed_by(LANGUAGE, "transformers", "gguf")
    (trained,) = (text for text in printed if "with one-bit weights" in text)
    assert float(trained.split()[0]) < 2.4, "letters alone, without those before them, have 3.1 nats"
    assert any("bit for bit" in text for text in printed)
    assert any("blk.0.ffn_down.weight" in text and "Q1_0" in text for text in printed)
