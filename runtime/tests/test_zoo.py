"""The networks of the package adaste-zoo, which the runtime finds but does not need."""

import sys
from pathlib import Path
from types import ModuleType

import adaste_runtime
import pytest


def test_a_network_of_the_zoo_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = ModuleType("adaste_zoo")
    zoo.path = lambda name: Path("/zoo") / f"{name}.safetensors"
    monkeypatch.setitem(sys.modules, "adaste_zoo", zoo)
    assert adaste_runtime.zoo("digits") == str(Path("/zoo/digits.safetensors"))


def test_where_the_package_is_missing_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adaste_zoo", None)
    with pytest.raises(ImportError, match=r"adaste-zoo: in a checkout of adaste, pip install \./zoo"):
        adaste_runtime.zoo("digits")
