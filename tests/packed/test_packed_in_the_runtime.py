"""The runtime computes what the packer meant, of the pictures that were trained on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import nn

import adaste
from adaste._util.files import BEGINNINGS
from adaste.data.folders import read_square
from adaste.packed.format import from_bytes, to_bytes
from adaste.runs.evaluate import network_of_run
from adaste.runs.export import export
from support.packed_networks import (
    OTHER_FORMS,
    RandomGraph,
    assert_same,
    binarized,
    computed,
    images_for,
    in_another_form,
    logits_of,
)
from support.small_runs import small_recipe, small_run

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


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_FORMS)
def test_what_other_nodes_do_as_well_gives_the_same_numbers_in_the_runtime(tmp_path: Path, name: str) -> None:
    model, images = in_another_form(name), 3 * torch.randn(4, 3, 5, 6)
    adaste.pack(model, images, path=tmp_path / "model.safetensors")
    assert_same(runtime.load(tmp_path / "model.safetensors")(images.numpy()), logits_of(model, images))


@pytest.mark.parametrize("size", [(12, 12), (31, 17), (9, 40)])
@pytest.mark.parametrize("kind", ["RGB", "L", "RGBA", "P", "CMYK", "I;16"])
def test_a_picture_is_the_same_for_adaste_run_as_it_was_in_training(
    tmp_path: Path, kind: str, size: tuple[int, int]
) -> None:
    from adaste_runtime.pictures import read_images

    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    path = tmp_path / ("picture.jpg" if kind == "CMYK" else "picture.png")
    grey16 = Image.fromarray(pixels[:, :, 0].astype(np.uint16) * 257)
    (grey16 if kind == "I;16" else Image.fromarray(pixels).convert(kind)).save(path)
    np.testing.assert_array_equal(read_images(path, (3, 12, 12))[0], read_square(path, 12))


@pytest.mark.parametrize("orientation", range(1, 10))
def test_a_picture_is_turned_for_adaste_run_as_it_was_in_training(tmp_path: Path, orientation: int) -> None:
    from adaste_runtime.pictures import read_images

    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.random.default_rng(0).integers(0, 256, (31, 17, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.jpg", exif=exif)
    found = read_square(tmp_path / "picture.jpg", 12)
    np.testing.assert_array_equal(read_images(tmp_path / "picture.jpg", (3, 12, 12))[0], found)


@pytest.mark.parametrize("begin", [*BEGINNINGS, b"\x08\x0a\x3a\xff", b"a text of some letters that has no end"])
def test_the_runtime_calls_a_file_of_another_kind_the_same(begin: bytes) -> None:
    content = begin + bytes(4) + b"~" * 20 if begin[0] != ord("a") else begin
    with pytest.raises(ValueError, match="not a safetensors file") as ours:
        from_bytes(content)
    with pytest.raises(ValueError, match="not a safetensors file") as of_the_runtime:
        runtime.load_bytes(content)
    assert str(of_the_runtime.value) == str(ours.value)


def test_packed_weights_are_called_the_same(tmp_path: Path) -> None:
    model, path = binarized(nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))), tmp_path / "m.safetensors"
    adaste.save_packed(model, path)
    said = []
    for load in (adaste.load_packed, runtime.load):
        with pytest.raises(ValueError, match="these are the packed weights of a model") as caught:
            load(path)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_the_network_of_a_run_is_called_the_same_and_facts_of_a_file_are(tmp_path: Path) -> None:
    small_run(small_recipe(epochs=1), tmp_path / "run")
    path = tmp_path / "run" / "last.safetensors"
    said = []
    for load in (adaste.load_packed, runtime.load):
        with pytest.raises(ValueError, match=r"this is a checkpoint of a run, .* use `adaste export`") as caught:
            load(path)
        said.append(str(caught.value))
    assert said[0] == said[1]
    packed = tmp_path / "packed.safetensors"
    export(network_of_run(path.parent), packed)
    graph, net = adaste.load_packed(packed).graph, runtime.load_bytes(packed.read_bytes())
    assert (net.input_shape, net.mean, net.std, tuple(net.classes)) == (
        graph.input_shape, graph.mean, graph.std, graph.classes,
    )  # fmt: skip
    assert (net.describe()["recipe"], net.describe()["producer"]) == (graph.recipe, graph.producer)
