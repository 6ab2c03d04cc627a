"""The runtime as it was installed from its wheel: all files, and what they say about themselves."""

import sys
import tarfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from adaste_runtime import _runtime

HOME = Path(__file__).parents[1]


@pytest.fixture
def installed() -> Distribution:
    try:
        return distribution("adaste-runtime")
    except PackageNotFoundError:
        pytest.skip("adaste_runtime is here without having been installed")


def test_a_wheel_holds_the_package_and_nothing_else(installed):
    names = {str(file) for file in installed.files if "__pycache__" not in file.parts and file.parts[0] != ".."}
    package = {name for name in names if name.startswith("adaste_runtime/")}
    module = {name for name in package if name.startswith("adaste_runtime/_runtime.") and not name.endswith(".pyi")}
    sources = {f"adaste_runtime/{path.name}" for path in (HOME / "src" / "adaste_runtime").iterdir() if path.is_file()}
    assert len(module) == 1 and package - module == sources
    assert {"adaste_runtime/py.typed", "adaste_runtime/_runtime.pyi"} <= sources
    assert all(name.split("/")[0].endswith(".dist-info") for name in names - package)


def test_the_module_holds_no_code_for_tests():
    assert [name for name in dir(_runtime) if not name.startswith("_")] == ["Network", "read_file"]


def test_a_source_package_builds_the_module_and_holds_no_code_for_tests(tmp_path, monkeypatch):
    backend = pytest.importorskip("scikit_build_core.build")
    monkeypatch.chdir(HOME)
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = {str(path.relative_to(HOME)) for path in (HOME / "src").rglob("*") if path.suffix in {".cpp", ".h", ".py"}}
    assert {name for name in files if not name.startswith("src/testing/")} == {
        name for name in names if name.startswith("src/") and Path(name).suffix in {".cpp", ".h", ".py"}
    }
    folders = {name.split("/")[0] for name in names if "/" in name}
    assert folders == {"benchmarks", "cmake", "examples", "include", "src"}


def test_a_wheel_says_what_it_is_and_needs(installed):
    about = installed.metadata
    assert [line for line in about.get_all("Requires-Dist") if "extra" not in line] == ["numpy"]
    assert about["License-Expression"] == "MIT"
    license_text = installed.read_text(f"licenses/{about['License-File']}")
    assert license_text == (HOME / "LICENSE").read_text()
    assert about["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in about.get_all("Classifier")
    assert (about.get_payload() or about["Description"]).strip() == (HOME / "README.md").read_text().strip()
    assert [command.name for command in installed.entry_points] == ["adaste-run"]


def test_a_wheel_is_for_this_python_and_processor(installed):
    (tag,) = (line.split(": ")[1] for line in installed.read_text("WHEEL").splitlines() if line.startswith("Tag: "))
    assert tag.startswith("cp311-cp311-" if sys.version_info < (3, 12) else "cp312-abi3-") and not tag.endswith("-any")
