"""The networks of the package adaste-zoo, which the runtime finds but does not need."""

import re
import sys
from pathlib import Path
from types import ModuleType

import adaste_runtime
import numpy as np
import pytest
from adaste_runtime.cli import main
from networks import residual_network


def test_a_network_of_the_zoo_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = ModuleType("adaste_zoo")
    zoo.path = lambda name: Path("/zoo") / f"{name}.safetensors"
    monkeypatch.setitem(sys.modules, "adaste_zoo", zoo)
    assert adaste_runtime.zoo("digits") == str(Path("/zoo/digits.safetensors"))


def test_load_and_the_command_take_the_name_of_a_network_of_the_zoo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = residual_network(np.random.default_rng(0))[0].write(tmp_path)
    zoo = ModuleType("adaste_zoo")
    zoo.path = {"small": file}.__getitem__
    monkeypatch.setitem(sys.modules, "adaste_zoo", zoo)
    assert adaste_runtime.load("zoo:small", threads=1).describe() == adaste_runtime.load(file, threads=1).describe()
    assert main(["zoo:small", "--describe"]) == 0
    assert capsys.readouterr().out.startswith(f"{file}: {file.stat().st_size:,} bytes")


def test_where_the_package_is_missing_it_is_said_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "adaste_zoo", None)
    words = "adaste-zoo: in a checkout of adaste, pip install ./zoo"
    for find in (lambda: adaste_runtime.zoo("digits"), lambda: adaste_runtime.load("zoo:digits")):
        with pytest.raises(ImportError, match=re.escape(words)):
            find()
    assert main(["zoo:digits", "--describe"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("adaste-run: ") and words in err and err.count("\n") == 1
