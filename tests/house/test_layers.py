"""The rooms of the house: a module imports only from rows above its own."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

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


def _modules(source: str) -> set[str]:
    """The modules of adaste that a source imports, such as `optim.step`; of names that are handed on, their own."""
    found = set(_names(ast.parse(source)))
    return {_home(name) for name in found if name.startswith("adaste.")}


def _names(tree: ast.AST) -> Iterator[str]:
    """What is imported, or reached through `import adaste`, with the whole path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name the whole path"
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "adaste":
            yield f"adaste.{node.attr}"


def _home(name: str) -> str:
    """The module that a name stands for, or that defines what it stands for; without the leading `adaste.`."""
    path = ROOT.joinpath(*name.split(".")[1:])
    if path.is_dir() or path.with_suffix(".py").is_file():
        return name.removeprefix("adaste.")
    module, _, last = name.rpartition(".")
    if module == "adaste" or path.parent.is_dir():  # a package, which hands names on
        value = getattr(import_module(module), last)
        module = value.__module__ if inspect.isclass(value) or inspect.isfunction(value) else module
    return module.removeprefix("adaste").removeprefix(".")


def _imports(path: Path) -> set[str]:
    """The rooms that a file imports from."""
    return {module.split(".")[0] for module in _modules(path.read_text())} - {""}


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import adaste.optim.step", {"optim.step"}),
        ("from adaste.optim.step import LatentStep", {"optim.step"}),
        ("from adaste.optim import step", {"optim.step"}),
        ("from adaste import optim, models", {"optim", "models"}),
        ("from adaste import LatentOptimizer, pack", {"optim.latent_optimizer", "packed.pack"}),
        ("import adaste\nadaste.setup(adaste.AdaSTE())", {"recipes.setup", "estimators.adaste"}),
        ("from adaste.estimators import Bop", {"estimators.bop"}),
        ("from adaste.data.sources import SOURCES", {"data.sources"}),
        ("from adaste.data import SOURCES", {"data"}),
        ("from adaste import __version__\nimport torch", {""}),
    ],
)
def test_imports_are_found_however_they_are_written(source: str, modules: set[str]) -> None:
    assert _modules(source) == modules


def test_rooms_import_only_from_rows_above_their_own() -> None:
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for imported in _imports(path) - {room} if room not in OUTSIDE else ():
            assert _row(imported) < _row(room), f"{path.name} imports {imported}"


def test_nothing_imports_the_command_line() -> None:
    importers = {path.name for path in ROOT.rglob("*.py") if "cli" in _imports(path) and path.parent != ROOT / "cli"}
    assert importers <= {"__main__.py"}


def test_methods_know_nothing_of_the_optimizer_and_little_of_each_other() -> None:
    shared = {f"estimators.{name}" for name in ("base", "maps", "noise", "schedules", "scaled")}
    assert all(ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file() for module in shared)
    for path in set((ROOT / "estimators").glob("*.py")) - {ROOT / "estimators" / "__init__.py"}:
        others = {module for module in _modules(path.read_text()) if not module.startswith("_util.")}
        assert others <= shared, path.name


def test_data_sets_know_nothing_of_binary_training() -> None:
    general = {"estimators.noise", "estimators.schedules"}  # random numbers and functions of the step
    for path in (ROOT / "data").rglob("*.py"):
        others = {module for module in _modules(path.read_text()) if module.split(".")[0] not in ("data", "_util")}
        assert others <= general, path.name


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
