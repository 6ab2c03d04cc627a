from pathlib import Path

import pytest

from adaste.cli import main

Run = tuple[int, str, str]


@pytest.fixture
def call(tmp_path: Path, data_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Runs a command in an empty folder: gives its exit code and what it printed."""
    monkeypatch.setenv("ADASTE_DATA", str(data_folder))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Run:
        code = main(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    """A finished run, not to be changed."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    arguments = ["--epochs", "3", "--folder", str(folder), "--data", str(data_folder)]
    assert main(["train", "digits-mlp-adaste-annealed", *arguments]) == 0
    return folder
