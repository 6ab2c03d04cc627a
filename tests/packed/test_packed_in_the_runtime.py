"""The runtime computes what the packer meant."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networks_to_pack import RandomGraph, assert_same, computed, images_for

from adaste.packed.format import to_bytes

runtime = pytest.importorskip("adaste_runtime", reason="the runtime is not built: make .venv/runtime")


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), steps=st.integers(0, 12), threads=st.integers(1, 2))
def test_random_networks_give_the_same_numbers_in_the_runtime(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int, threads: int
) -> None:
    graph = RandomGraph(seed, traced=False).graph(steps)
    path = tmp_path_factory.mktemp("graph") / "graph.safetensors"
    path.write_bytes(to_bytes(graph))
    images = images_for(graph)
    assert_same(runtime.load(path, threads=threads)(images), computed(graph, images))
