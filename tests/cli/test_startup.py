"""A quick and safe start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import adaste
from adaste.cli.startup import _cache_of_torch, forget_unlinked

PROGRAM = """
import sys
from adaste.cli.startup import keep_byte_code
keep_byte_code("something")
import something
print(sys.pycache_prefix, sys.dont_write_bytecode)
"""


def start(folder: Path, **variables: str) -> str:
    """What a program prints that keeps the byte code of a package in `folder`."""
    (folder / "something.py").write_text("value = 1\n")
    source = str(Path(adaste.__file__).parent.parent)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}:{source}", "HOME": str(folder), **variables}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return found.stdout.strip()


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_byte_code_that_may_not_be_written_goes_to_a_cache_of_the_user(tmp_path, variable) -> None:
    caches = {"XDG_CACHE_HOME": str(tmp_path / "caches")} if variable == "XDG_CACHE_HOME" else {}
    cache = (tmp_path / "caches" if caches else tmp_path / ".cache") / "adaste" / "byte-code"
    assert start(tmp_path, PYTHONDONTWRITEBYTECODE="1", **caches) == f"{cache} False"
    (written,) = cache.rglob("something.*.pyc")
    assert written.stat().st_size > 0
    assert cache.stat().st_mode & 0o077 == 0


def test_where_there_is_byte_code_nothing_changes(tmp_path) -> None:
    (tmp_path / "something.py").write_text("value = 1\n")
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tmp_path / "something.py")], check=True)
    assert start(tmp_path, PYTHONDONTWRITEBYTECODE="1") == "None True"
    assert not (tmp_path / ".cache").exists()


def test_a_home_that_cannot_be_written_to_is_no_error(tmp_path) -> None:
    (tmp_path / ".cache").write_text("a file, no folder")
    assert start(tmp_path, PYTHONDONTWRITEBYTECODE="1") == "None True"


def test_a_package_that_is_not_there_is_no_error(tmp_path) -> None:
    from adaste.cli.startup import keep_byte_code

    before = sys.pycache_prefix
    keep_byte_code("there_is_no_such_package")
    assert sys.pycache_prefix == before


@pytest.mark.slow
def test_importing_the_package_does_not_load_the_compiler() -> None:
    program = "import sys, adaste; adaste.LatentOptimizer; print('torch._dynamo' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "False"


def test_libraries_a_killed_linker_left_empty_are_removed_from_the_cache_of_torch(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (tmp_path / "ab").mkdir()
    whole, empty, young = (tmp_path / "ab" / name for name in ("whole.so", "empty.so", "young.so"))
    whole.write_text("library")
    empty.touch()
    young.touch()
    for library in (whole, empty):
        os.utime(library, (0, 0))
    forget_unlinked()
    assert sorted(path.name for path in (tmp_path / "ab").iterdir()) == ["whole.so", "young.so"]


def test_the_cache_of_torch_is_where_torch_has_it(monkeypatch) -> None:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert str(_cache_of_torch()) == default_cache_dir()
