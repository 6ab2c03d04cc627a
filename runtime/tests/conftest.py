"""Tests of one network write their files into a folder of their own."""

import adaste_runtime
import pytest
from packing import Packing


@pytest.fixture
def loaded(tmp_path):
    """Loads what a Packing would write."""

    def load(packing: Packing, **options):
        return adaste_runtime.load(packing.write(tmp_path), **options)

    return load
