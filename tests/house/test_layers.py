"""The rooms of the house: a module imports only from rows above its own."""

import ast
from pathlib import Path

import adaste
import adaste.estimators

ROWS = [
    {"_util"},
    {"estimators", "models"},
    {"data", "packed", "optim"},
    {"recipes"},
    {"training"},
    {"runs"},
    {"paper"},
    {"cli"},
]
OUTSIDE = {"__init__", "__main__"}
"""They belong to no row: the public names, imported when they are used, and `python -m adaste`."""

ROOT = Path(adaste.__file__).parent


def _row(room: str) -> int:
    found = [index for index, row in enumerate(ROWS) if room in row]
    assert found, f"{room} has no place: put it into a row"
    return found[0]


def _imports(path: Path) -> set[str]:
    """The rooms that a file imports from."""
    tree = ast.parse(path.read_text())
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    modules += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    return {module.split(".")[1] for module in modules if module.startswith("adaste.")}


def test_rooms_import_only_from_rows_above_their_own() -> None:
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for imported in _imports(path) - {room} if room not in OUTSIDE else ():
            assert _row(imported) < _row(room), f"{path.name} imports {imported}"


def test_nothing_imports_the_command_line() -> None:
    importers = {path.name for path in ROOT.rglob("*.py") if "cli" in _imports(path) and path.parent != ROOT / "cli"}
    assert importers <= {"__main__.py"}


def test_methods_know_nothing_of_the_optimizer_and_little_of_each_other() -> None:
    shared = {"base", "maps", "noise", "schedules", "output_axis", "finite_difference", "binary_connect", "scaled"}
    for path in (ROOT / "estimators").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("adaste.estimators."):
                assert node.module.split(".")[2] in shared or path.stem == "__init__"


def test_data_sets_know_nothing_of_binary_training() -> None:
    for path in (ROOT / "data").glob("*.py"):
        assert _imports(path) <= {"data", "_util"}, path.name


def test_no_public_name_is_also_that_of_a_module_which_would_hide_it() -> None:
    modules = {path.stem for path in ROOT.iterdir()}
    assert not modules & set(adaste.__all__)


def test_every_estimator_is_a_public_name() -> None:
    assert set(adaste.estimators.__all__) <= set(adaste.__all__)


def test_all_public_names_are_there_and_nothing_else_is_made_up() -> None:
    for name in adaste.__all__:
        assert getattr(adaste, name) is not None
        assert name in dir(adaste)
    assert not hasattr(adaste, "LatentOptimiser")


def test_the_house_stays_small_enough_to_be_known() -> None:
    entries = {path.name for path in ROOT.iterdir()} - {"__pycache__", "py.typed"}
    assert len(entries) <= 13
    assert len(ROWS) <= 8
    assert len(list(ROOT.rglob("*.py"))) <= 135
