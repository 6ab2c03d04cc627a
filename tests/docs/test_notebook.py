"""The notebook runs from top to bottom, and is committed without what it prints."""

import pytest

from support.pages import ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")

NOTEBOOK = ROOT / "examples" / "digits.ipynb"


def test_the_notebook_is_committed_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


@pytest.mark.slow
def test_the_notebook_trains_packs_and_runs() -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    for package in ("ipykernel", "matplotlib", "sklearn", "adaste_runtime"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120).execute()
    printed = [output.text for cell in notebook.cells for output in cell.get("outputs", ()) if "text" in output]
    (trained,) = (text for text in printed if "with one bit per weight" in text)
    assert float(trained.split()[0]) > 90
