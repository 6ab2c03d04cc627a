"""The rooms of the house: a module imports only from rows above its own."""

import ast
from pathlib import Path

import pytest

import adaste

ROWS = [
    {"extras", "checks", "locks", "untrusted", "warned"},
    {"schedules", "records", "signals", "startup", "compiling", "leftovers", "drawing", "patterns", "output_axis"},
    {"histogram"},
    {"files", "serial"},
    {"failures"},
    {"data"},
    {"noise", "packed", "kernels"},
    {"maps", "models", "augment", "bases"},
    {"estimators"},
    {"weights", "norm_statistics"},
    {"optimizer"},
    {"inspection", "admitted", "distributed", "sync_norm", "watch", "mathematics"},
    {"engine"},
    {"recipe"},
    {"overrides", "methods", "network", "planning"},
    {"recipes", "train", "own_loop"},
    {"observer", "results", "agreement", "checkpoint", "environment", "choosing"},
    {"evaluate", "runs"},
    {"exporting", "studies"},
    {"paper"},
    {"report"},
    {"console", "tensorboard", "seeds"},
    {"terminal"},
    {"cli"},
    {"__main__", "tied"},
    {"public"},
    {"__init__"},
]
ROOMS = {
    "optimizer": [
        {"shards", "rules", "guard", "settings"},
        {"stepping", "refusals", "states"},
        {"parameters"},
        {"compiled_step", "touched"},
        {"latent_optimizer"},
    ],
    "studies": [{"children", "connecting", "mps"}, {"nodes", "study"}, {"cluster"}],
}
"""The rows inside of rooms that have several."""

ROOT = Path(adaste.__file__).parent


def _row(module: str, rows: list[set[str]]) -> int:
    found = [index for index, row in enumerate(rows) if module in row]
    assert found, f"{module} has no place: put it into a row"
    return found[0]


def _imports(path: Path, room: str = "adaste") -> set[str]:
    """The modules directly in a room that a file imports from."""
    tree = ast.parse(path.read_text())
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    modules += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    return {module.removeprefix(f"{room}.").split(".")[0] for module in modules if module.startswith(f"{room}.")}


def test_modules_import_only_from_rows_above_their_own() -> None:
    for path in ROOT.rglob("*.py"):
        module = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for imported in _imports(path) - {module}:
            assert _row(imported, ROWS) < _row(module, ROWS), f"{path.name} imports {imported}"


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_have_rows_of_their_own(room: str) -> None:
    rows = [*ROOMS[room], {"__init__"}]
    for path in (ROOT / room).glob("*.py"):
        for imported in _imports(path, f"adaste.{room}"):
            assert _row(imported, rows) < _row(path.stem, rows), f"{path.name} imports {imported}"


def test_methods_know_nothing_of_the_optimizer_and_little_of_each_other() -> None:
    shared = {"base", "finite_difference", "binary_connect", "scaled", "__init__"}
    for path in (ROOT / "estimators").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("adaste.estimators."):
                assert node.module.split(".")[2] in shared or path.stem == "__init__"


def test_data_sets_know_nothing_of_binary_training() -> None:
    for path in (ROOT / "data").glob("*.py"):
        assert _imports(path) <= {"data", "files", "checks", "locks"}, path.name


def test_no_public_name_is_also_that_of_a_module_which_would_hide_it() -> None:
    modules = {path.stem for path in ROOT.iterdir()}
    assert not modules & set(adaste.__all__)


def test_all_public_names_are_there_and_nothing_else_is_made_up() -> None:
    for name in adaste.__all__:
        assert getattr(adaste, name) is not None
        assert name in dir(adaste)
    assert not hasattr(adaste, "LatentOptimiser")
