"""Classes and data sets of other packages: found by their entry points, loaded when needed, refused with a reason."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adaste._util.packages import PluginError, Registry
from adaste.data.sources import SOURCES
from adaste.estimators import AdaSTE, Estimator
from adaste.recipes.registry import ADMITTED

ROOT = Path(__file__).parents[2]

MODULE = """
from dataclasses import dataclass
from adaste.data.sources import DIGITS
from adaste.estimators import BinaryConnect, Estimator
from adaste.models import MLP
import dataclasses

@dataclass(frozen=True)
class Mine(BinaryConnect):
    pass

@dataclass(frozen=True)
class AdaSTE(BinaryConnect):
    pass

class Plain(BinaryConnect):
    size: float = 1.0

@dataclass(frozen=True)
class Half(Estimator):
    pass

@dataclass(frozen=True, kw_only=True)
class Net(MLP):
    pass

OTHER = dataclasses.replace(DIGITS, name="other")
COLON = dataclasses.replace(DIGITS, name="a:b")
"""


class Site:
    """A folder of installed packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, package: str, entries: dict[str, list[str]], module: str = MODULE) -> None:
        """Install a package of one module with entry points, by their groups."""
        (self.folder / f"{package}.py").write_text(module)
        info = self.folder / f"{package}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        lines = [line for group, entry in entries.items() for line in (f"[adaste.{group}]", *entry)]
        (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield Site(folder)
    for name in set(sys.modules) - before:
        if (folder / f"{name}.py").exists():
            del sys.modules[name]


def classes() -> Registry[type]:
    """The registry of recipes as a new process has it."""
    return Registry(ADMITTED._own, ADMITTED._groups)


def sources() -> Registry:
    return Registry(SOURCES._own, SOURCES._groups)


def test_a_class_of_another_package_is_found_by_its_name_and_imported_only_then(site) -> None:
    site.install("package_a", {"estimators": ["Mine = package_a:Mine"], "networks": ["Net = package_a:Net"]})
    known = classes()
    assert known["AdaSTE"] is AdaSTE and "Missing" not in known
    assert "package_a" not in sys.modules
    assert issubclass(known["Mine"], Estimator) and known["Mine"] is known["Mine"]
    assert {"AdaSTE", "Mine", "Net"} <= set(known) and len(known) == len(ADMITTED._own) + 2


def test_a_data_set_of_another_package_is_found_by_its_name(site) -> None:
    site.install("package_b", {"data": ["other = package_b:OTHER"]})
    assert sources()["other"].name == "other"
    assert list(sources())[-1] == "other"


def test_a_name_of_ours_stays_ours_and_the_package_that_wants_it_is_named(site) -> None:
    site.install("package_c", {"estimators": ["AdaSTE = package_c:AdaSTE", "Mine = package_c:Mine"]})
    known = classes()
    refused = r"'AdaSTE' of the package package_c 1\.5 \(package_c:AdaSTE\) is refused: adaste has that name"
    with pytest.warns(UserWarning, match=refused):
        assert known["AdaSTE"] is AdaSTE
    assert list(known).count("AdaSTE") == 1 and "Mine" in known


def test_a_name_that_two_packages_bring_is_refused_and_both_are_named(site) -> None:
    for package in ("package_d", "package_e"):
        site.install(package, {"estimators": [f"Mine = {package}:Mine"]})
    both = r"'Mine' is refused: the package package_[de] 1\.5 .* and the package package_[de] 1\.5 .* bring that name"
    with pytest.raises(PluginError, match=both):
        classes()["Mine"]


@pytest.mark.parametrize(
    ("group", "entry", "reason"),
    [
        ("estimators", "Mine = missing:Mine", r"cannot be imported \(ModuleNotFoundError: No module named 'missing'\)"),
        ("estimators", "Mine = package_f:Missing", r"cannot be imported \(AttributeError: "),
        ("estimators", "Mine = broken:Mine", r"cannot be imported \(ZeroDivisionError: "),
        ("estimators", "Net = package_f:Net", "it must be a class derived from adaste.estimators.base.Estimator, got"),
        ("estimators", "Other = package_f:Mine", "the entry point must have the name of its class, Mine"),
        ("estimators", "Plain = package_f:Plain", r"Plain must be a frozen dataclass.* put @dataclass\(frozen=True\)"),
        ("estimators", "Half = package_f:Half", "a Half cannot be made, it lacks weight"),
        ("networks", "Mine = package_f:Mine", "it must be a class derived from adaste.models.networks.Network, got"),
        ("data", "other = package_f:Mine", "it must be an adaste.data.Source, got"),
        ("data", "another = package_f:OTHER", "the entry point must have the name of its data set, 'other'"),
        ("data", "a_b = package_f:COLON", "the entry point must have the name of its data set, 'a:b'"),
    ],
)
def test_what_a_package_brings_and_nobody_can_use_is_named_and_left_out(site, group, entry, reason) -> None:
    (site.folder / "broken.py").write_text("1 / 0")
    site.install("package_f", {group: [entry]})
    known = sources() if group == "data" else classes()
    name = entry.partition(" ")[0]
    with pytest.raises(PluginError, match=rf"'{name}' of the package package_f 1\.5 .*{reason}"):
        known[name]
    with pytest.warns(UserWarning, match=reason):
        names = list(known)
    assert name not in names and names == list(known._own)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example package is installed in."""
    pytest.importorskip("setuptools", reason="setuptools builds the example package")
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(ROOT / "examples" / "plugin", folder / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), "./source"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "site"


def adaste(*arguments: object, folder: Path, plugins: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as its users do, with the packages in `plugins` installed."""
    paths = [*(str(path) for path in [plugins] if path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "ADASTE_DATA": str(folder / "data")}
    command = [sys.executable, "-m", "adaste", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)


@pytest.mark.slow
def test_the_example_package_trains_by_its_recipe_and_its_run_is_listed_where_it_is_not_installed(
    installed: Path, tmp_path: Path
) -> None:
    recipe = ROOT / "examples" / "plugin" / "recipe.json"
    trained = adaste("train", recipe, "--folder", "runs/mine", folder=tmp_path, plugins=installed)
    assert trained.returncode == 0, trained.stderr
    result = json.loads((tmp_path / "runs" / "mine" / "result.json").read_text())
    assert result["last_accuracy"] >= 80

    for what, wanted in {"estimators": "SlowSign", "networks": "TinyConv", "data": "stripes"}.items():
        told = adaste("list", what, folder=tmp_path, plugins=installed)
        assert told.returncode == 0 and wanted in told.stdout and not told.stderr

    told = adaste("evaluate", "runs/mine", folder=tmp_path, plugins=installed)
    assert told.returncode == 0, told.stderr
    told = adaste("report", "runs", "--format", "csv", "-o", "with.csv", folder=tmp_path, plugins=installed)
    assert told.returncode == 0 and "1 run" in told.stdout
    told = adaste("report", "runs", "--format", "csv", "-o", "without.csv", folder=tmp_path)
    assert told.returncode == 0 and "0 runs, 1 folder left out" in told.stdout
    assert "mine (class TinyConv is not installed" in told.stdout + told.stderr
    told = adaste("evaluate", "runs/mine", folder=tmp_path)
    assert told.returncode == 1 and "recipe.json: class TinyConv is not installed" in told.stderr


@pytest.mark.slow
def test_classes_of_a_package_change_a_named_recipe(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    told = adaste(
        *("show", "digits-mlp-adaste", "--set", "estimator=SlowSign", "--set", "estimator.threshold=0.5"),
        *("--set", "data=stripes"),
        folder=tmp_path,
        plugins=installed,
    )
    assert told.returncode == 0, told.stderr
    plain = json.loads(told.stdout)
    assert plain["estimator"] == {"kind": "SlowSign", "threshold": 0.5} and plain["data"] == "stripes"


@pytest.mark.slow
def test_a_broken_package_is_named_and_commands_that_do_not_need_it_go_on(site, tmp_path: Path) -> None:
    site.install("package_g", {"estimators": ["Mine = package_g:Mine"], "data": ["x = package_g:X"]}, module="1 / 0")
    listed = adaste("list", "estimators", folder=tmp_path, plugins=site.folder)
    assert listed.returncode == 0 and "AdaSTE" in listed.stdout
    (line,) = listed.stderr.splitlines()
    assert line.startswith("warning: 'Mine' of the package package_g 1.5") and "ZeroDivisionError" in line
    shown = adaste("show", "digits-mlp-adaste", folder=tmp_path, plugins=site.folder)
    assert shown.returncode == 0 and not shown.stderr
    asked = adaste("show", "digits-mlp-adaste", "--set", "estimator=Mine", folder=tmp_path, plugins=site.folder)
    assert asked.returncode == 1 and "'Mine' of the package package_g 1.5" in asked.stderr
