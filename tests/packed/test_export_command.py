"""`adaste export`: from a run to a one-bit file and to ONNX, with the accuracy of the run."""

import builtins
import json
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import adaste
from adaste.cli import main
from adaste.data import load
from adaste.data.augment import Augmentation
from adaste.packed.format import to_bytes
from adaste.packed.nodes import Weighted
from adaste.packed.onnx import to_int8_onnx
from adaste.runs.evaluate import network_of_run, read_network, restore
from adaste.runs.export import export, graph_of_run
from adaste.runs.folder import RunFolder
from support.packed_networks import assert_same, every_operation, logits_of
from support.small_runs import small_data, small_recipe, small_run

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def safetensors_of(metadata: dict[str, str]) -> bytes:
    """A file without tensors."""
    header = json.dumps({"__metadata__": metadata}).encode()
    return struct.pack("<Q", len(header)) + header


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    """A finished run on the digits, not to be changed."""
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("trained") / "run"
    arguments = ["--epochs", "2", "--folder", str(folder), "--data", str(data_folder), "--threads", "1"]
    assert main(["train", "digits-vgg-small-adaste", "--set", "precision=float32", *arguments]) == 0
    return folder


@pytest.fixture
def command(trained: Path, data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Runs `adaste export` on the run: its exit code, what it printed, and the path of the file."""

    def call(name: str, *arguments: str, run: Path = trained) -> tuple[int, str, Path]:
        path = tmp_path / name
        code = main(["export", str(run), str(path), "--data", str(data_folder), *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err, path

    return call


def test_the_one_bit_file_of_a_run_reaches_its_accuracy(command, trained: Path, data_folder: Path) -> None:
    code, printed, path = command("digits.safetensors")
    assert code == 0 and f"{path.stat().st_size:,} bytes, 1/2" in printed and "in float32" in printed
    dataset, exported = load("digits", data_folder), network_of_run(trained)
    packed = adaste.load_packed(path)
    assert packed.graph.classes == dataset.classes
    assert (packed.graph.mean, packed.graph.std) == (dataset.mean, dataset.std)
    assert packed.graph.recipe == exported.recipe.digest
    images = Augmentation((), dataset.mean, dataset.std).prepare(
        torch.from_numpy(np.array(dataset.test.images)), torch.float32
    )
    logits = logits_of(packed, images)
    assert_same(logits, logits_of(restore(exported, CPU), images))
    accuracy = 100 * (logits.argmax(1).numpy() == dataset.test.labels).mean()
    result = RunFolder(trained).read_result()
    assert result is not None and accuracy == pytest.approx(result.last_accuracy, abs=0.21)


def test_the_best_network_can_be_exported_too(command, trained: Path) -> None:
    code, _, path = command("best.safetensors", "--network", "best")
    assert code == 0 and path.exists()


def test_onnx_of_a_run_has_the_same_logits_at_a_quarter_of_the_size(command, trained: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    one_bit = command("digits.safetensors")[2]
    code, printed, path = command("digits.onnx")
    assert code == 0 and "1/3." in printed
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    images = np.random.default_rng(0).standard_normal((5, 1, 8, 8)).astype(np.float32)
    (logits,) = session.run(["logits"], {"input": images})
    assert_same(logits, logits_of(adaste.load_packed(one_bit), torch.from_numpy(images)))
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == list("0123456789")
    assert json.loads(facts["recipe"]) == network_of_run(trained).recipe.digest


def test_int8_onnx_keeps_the_accuracy(command, trained: Path, data_folder: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    code, printed, path = command("digits.onnx", "--int8", "--calibrate", "50")
    assert code == 0 and len(printed.splitlines()) == 1
    dataset = load("digits", data_folder)
    images = Augmentation((), dataset.mean, dataset.std).prepare(
        torch.from_numpy(np.array(dataset.test.images)), torch.float32
    )
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"input": images.numpy()})
    exact = logits_of(restore(network_of_run(trained), CPU), images).numpy()
    assert (logits.argmax(1) == exact.argmax(1)).mean() > 0.97
    assert 0 < np.abs(logits - exact).mean() < 0.02 * np.abs(exact).max()  # 8 bits, but no nonsense
    assert "classes" in session.get_modelmeta().custom_metadata_map


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        ([0.0, 0.0], r"those of one colour do not: all pixels are \[0\. 0\.\]"),
        ([-2.5, 1.5], r"those of one colour do not: all pixels are \[-2\.5  1\.5\]"),
        ([float("nan"), 0.0], "images must hold finite numbers"),
    ],
)
def test_images_that_show_no_ranges_are_refused_for_int8(pixels: list[float], words: str) -> None:
    pytest.importorskip("onnxruntime")
    graph = every_operation()
    images = np.broadcast_to(np.array(pixels, np.float32).reshape(1, 2, 1, 1), (3, *graph.input_shape))
    with pytest.raises(ValueError, match=words):
        to_int8_onnx(graph, images)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("digits.txt", [], "must end in .safetensors"),
        ("digits.safetensors", ["--int8"], "adaste_runtime.load(path, int8=True)"),
        ("digits.onnx", ["--calibrate", "5"], "needs --int8"),
    ],
)
def test_what_does_not_go_together_is_refused(command, name: str, arguments: list[str], words: str) -> None:
    code, printed, path = command(name, *arguments)
    assert code == 1 and words in printed and not path.exists()


def test_a_folder_that_is_no_run_is_refused(command, tmp_path: Path) -> None:
    code, printed, _ = command("x.safetensors", run=tmp_path)
    assert code == 1 and "is not the folder of a run" in printed


def test_a_file_given_for_a_run_is_called_by_what_it_is(command, trained: Path, tmp_path: Path) -> None:
    picture, other = tmp_path / "picture.png", tmp_path / "other"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    other.write_bytes(bytes(50))
    for path, words in (
        (trained / "recipe.json", "recipe.json is not a safetensors file (it begins like text)"),
        (picture, "picture.png is not a safetensors file (it begins like a PNG)"),
        (other, "other is truncated or no safetensors file"),
    ):
        code, printed, _ = command("x.safetensors", run=path)
        assert code == 1 and words in printed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "not a safetensors file (it begins like a PNG)"),
        (b"\x08\x08\x12\x0cadaste 0.1.0:", "not a safetensors file (it begins like ONNX)"),
        (to_bytes(every_operation()), "is a packed network, which adaste.load_packed and adaste-run read"),
        (safetensors_of({"adaste": '{"\x1b[2J": 1}'}), "but not how they were trained: "),
        (safetensors_of({"adaste": '{"recipe": {"kind": "\\u001b[2J"}}'}), "but not how they were trained: "),
        (b"\x20" + bytes(7) + b'{"\x1b[2J": 1}' + b" " * 19, "is truncated or no safetensors file"),
    ],
    ids=["PNG", "ONNX", "packed", "escape in the metadata", "escape in the recipe", "escape in the header"],
)
def test_a_network_that_is_another_file_is_called_by_what_it_is(tmp_path: Path, content: bytes, words: str) -> None:
    small_run(small_recipe(epochs=1), tmp_path / "run")
    path = tmp_path / "run" / "last.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        network_of_run(path.parent)
    assert str(caught.value).isprintable()


def test_names_of_classes_and_tensors_are_escaped_in_errors(tmp_path: Path) -> None:
    small_run(small_recipe(epochs=1), tmp_path / "run")
    exported = network_of_run(tmp_path / "run")
    tensors = {**exported.tensors, "a\x1b[2J": torch.zeros(1)}
    for spoiled in (replace(exported, tensors=tensors), replace(exported, classes=("\x1b[2J",))):
        with pytest.raises(ValueError, match=r"\\x1b\[2J") as caught:
            export(spoiled, tmp_path / "x.safetensors", dataset=small_data())
        assert str(caught.value).isprintable()


def test_of_several_runs_one_is_to_be_chosen(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "digits.safetensors"
    assert main(["export", str(trained), str(tmp_path), str(path)]) == 1
    assert f"one run, got {trained}, {tmp_path}: choose one" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("arguments", [[], ["--int8"]])
def test_without_the_packages_onnx_says_what_to_install(command, monkeypatch, arguments: list[str]) -> None:
    importing = builtins.__import__

    def refuse(name: str, *others: object, **named: object) -> object:
        if name.startswith("onnx"):
            raise ImportError(f"no {name}", name=name)
        return importing(name, *others, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    code, printed, path = command("digits.onnx", *arguments)
    assert (
        code == 1
        and "the extra 'onnx', in a checkout of adaste: pip install '.[onnx]'" in printed
        and not path.exists()
    )


def test_a_run_in_full_precision_is_refused(tmp_path: Path) -> None:
    small_run(small_recipe("full-precision", epochs=1), tmp_path / "run")
    with pytest.raises(ValueError, match=r"was trained in full precision \(FullPrecision\)"):
        export(network_of_run(tmp_path / "run"), tmp_path / "x.safetensors", dataset=small_data())


@pytest.mark.parametrize("name", ["last", "best"])
def test_the_networks_of_a_run_are_not_written_over(tmp_path: Path, name: str) -> None:
    small_run(small_recipe(epochs=1), tmp_path / "run")
    own = tmp_path / "run" / f"{name}.safetensors"
    before = own.read_bytes()
    with pytest.raises(ValueError, match=f"{name}.safetensors is what the run itself has left"):
        export(network_of_run(tmp_path / "run"), tmp_path / "run" / ".." / "run" / own.name, dataset=small_data())
    assert own.read_bytes() == before


def test_a_network_file_alone_is_not_written_over_either(tmp_path: Path) -> None:
    small_run(small_recipe(epochs=1), tmp_path / "run")
    alone = (tmp_path / "run" / "last.safetensors").rename(tmp_path / "alone.safetensors")
    with pytest.raises(ValueError, match=r"alone.safetensors is what the run itself has left"):
        export(read_network(alone), alone)
    assert read_network(alone).classes == small_data().classes


def test_weights_that_a_recipe_left_real_stay_so(tmp_path: Path) -> None:
    made = replace(small_recipe(epochs=1), exclude=("1.weight",))
    small_run(made, tmp_path / "run")
    graph = graph_of_run(network_of_run(tmp_path / "run"))
    assert [node.kind for node in graph.nodes if isinstance(node, Weighted)] == ["float", "binary"]


@pytest.mark.parametrize("name", ["digits.safetensors", "digits.onnx"])
def test_without_a_data_set_the_file_is_the_same(
    command,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    expected = command(name)[2].read_bytes()
    monkeypatch.setattr("adaste.data.load", lambda *_: pytest.fail("the data set was asked for"))
    path = tmp_path / "alone" / name
    path.parent.mkdir()
    assert main(["export", "--network", str(trained / "last.safetensors"), str(path)]) == 0, capsys.readouterr().err
    assert path.read_bytes() == expected


def test_a_network_file_of_an_older_version_needs_its_data_set(command, trained: Path, tmp_path: Path) -> None:
    exported = replace(network_of_run(trained), images=None)
    with pytest.raises(ValueError, match="was written without the shape of its images: its data set is needed"):
        export(exported, tmp_path / "x.safetensors")
    export(exported, tmp_path / "x.safetensors", dataset=load("digits", tmp_path))
    assert (tmp_path / "x.safetensors").read_bytes() == command("digits.safetensors")[2].read_bytes()


def test_8_bit_integers_need_a_data_set(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="calibrated with training images: a data set is needed"):
        export(network_of_run(trained), tmp_path / "x.onnx", calibrate=5)
