import builtins
from importlib.util import find_spec

import numpy as np
import pytest
from adaste_runtime.cli import main, ranking
from networks import floats, residual_network
from packing import Packing


@pytest.fixture
def model(tmp_path):
    return residual_network(np.random.default_rng(0))[0].write(tmp_path)


def test_the_top_classes_are_printed_with_a_bar_each(model, tmp_path, capsys):
    np.save(tmp_path / "images.npy", floats(np.random.default_rng(1), 2, 3, 12, 10))
    assert main([str(model), str(tmp_path / "images.npy"), "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("images.npy [0]") and lines[4].endswith("images.npy [1]")
    assert all("%" in line and "class" in line for line in lines[1:4])
    assert len(lines) == 8


def test_all_classes_are_printed_where_they_are_fewer_than_usual(tmp_path, capsys):
    packing = Packing(shape=(2, 1, 1))
    packing.node("flatten")
    np.save(tmp_path / "image.npy", np.zeros((2, 1, 1), np.float32))
    assert main([str(packing.write(tmp_path)), str(tmp_path / "image.npy")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_single_array_is_one_image(model, tmp_path, capsys):
    np.save(tmp_path / "image.npy", np.zeros((12, 10, 3), np.uint8))
    assert main([str(model), str(tmp_path / "image.npy"), "--int8", "--threads", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("image.npy")


def test_pictures_are_scaled_to_the_input(model, tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    image.new("RGBA", (31, 17), (200, 10, 10, 255)).save(tmp_path / "red.png")
    assert main([str(model), str(tmp_path / "red.png")]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("red.png")


def test_options_may_stand_before_the_images(model, tmp_path, capsys):
    np.save(tmp_path / "image.npy", np.zeros((12, 10, 3), np.uint8))
    assert main([str(model), "--int8", "--top", "2", str(tmp_path / "image.npy")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_what_a_terminal_would_obey_is_printed_as_an_escape(tmp_path, capsys):
    packing = residual_network(np.random.default_rng(0))[0]
    packing.facts["classes"] = [f"\x1b[2Jé{i}\n" for i in range(7)]
    np.save(tmp_path / "image.npy", np.zeros((12, 10, 3), np.uint8))
    assert main([str(packing.write(tmp_path)), str(tmp_path / "image.npy"), "--top", "7"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and len(out.splitlines()) == 8 and r"\x1b[2Jé3\n" in out
    packing.facts["nodes"][0]["op"] = "\x1b[2J"
    assert main([str(packing.write(tmp_path)), str(tmp_path / "image.npy")]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err and r"\x1b[2J" in err


def test_a_batch_that_does_not_fit_into_memory_is_one_line(model, capsys):
    assert main([str(model), "--bench", "--batch", str(10**14)]) == 2
    assert capsys.readouterr().err.startswith("adaste-run: Unable to allocate")


def test_a_ranking_is_a_softmax():
    assert ranking(np.log(np.array([0.1, 0.6, 0.3], np.float32)), ["a", "bb", "c"], 2).splitlines() == [
        "  bb   60.0%  " + "#" * 18,
        "  c    30.0%  " + "#" * 9,
    ]
    assert ranking(np.array([0.0, 1000.0], np.float32), None, 1) == "  class 1  100.0%  " + "#" * 30


def test_bench_prints_percentiles(model, capsys):
    assert main([str(model), "--bench", "--seconds", "0.01", "--batch", "2"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("calls, 1 threads", "best", "50 %", "90 %", "99 %"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["{model}"], "name at least one image"),
        (["{folder}/nothing", "a.npy"], "nothing: there is no such file"),
        (["{model}", "{folder}/nothing.npy"], "nothing.npy"),
        (["{model}", "{folder}/text.npy"], "is no array"),
        (["{model}", "{folder}/text.png"], "is no picture" if find_spec("PIL") else "pictures need Pillow"),
        (["{model}", "{folder}/nothing.png"], "nothing.png"),
        (["{model}", "{folder}/zip.npy"], "zip.npy is no array that can be read: the magic string"),
        (["{model}", "{folder}/huge.npy"], "huge.npy is no array that can be read: Unable to allocate"),
        (["{model}", "{folder}/small.npy"], "small.npy: images must be"),
        (["{model}", "{folder}/good.npy", "--top", "0"], "--top must be 1 to 7, the number of classes, got 0"),
        (["{model}", "{folder}/good.npy", "--top", "-1"], "--top must be 1 to 7, the number of classes, got -1"),
        (["{model}", "{folder}/good.npy", "--top", "8"], "--top must be 1 to 7, the number of classes, got 8"),
        (["{model}", "--bench", "--batch", "0"], "batch must be at least 1"),
        (["{model}", "--bench", "--threads", "0"], "threads must be"),
    ],
)
def test_what_is_wrong_is_said(model, tmp_path, capsys, arguments, message):
    (tmp_path / "text.npy").write_text("text")
    (tmp_path / "text.png").write_text("text")
    with (tmp_path / "zip.npy").open("wb") as file:
        np.savez(file, image=np.zeros((12, 10, 3), np.uint8))
    np.save(tmp_path / "good.npy", np.zeros((12, 10, 3), np.uint8))
    np.save(tmp_path / "small.npy", np.zeros((1, 2, 2, 3), np.uint8))
    with (tmp_path / "huge.npy").open("wb") as file:
        facts = {"descr": "|u1", "fortran_order": False, "shape": (10**15, 12, 10, 3)}
        np.lib.format.write_array_header_1_0(file, facts)
    assert main([part.format(model=model, folder=tmp_path) for part in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("adaste-run: ") and message in captured.err and "Traceback" not in captured.err


@pytest.mark.parametrize("bad", ["text.npy", "missing.npy", "small.npy", "text.png", "cut.png", "folder.png"])
def test_an_image_that_cannot_be_used_does_not_keep_the_others_from_being_shown(model, tmp_path, capsys, bad):
    np.save(tmp_path / "good.npy", np.zeros((12, 10, 3), np.uint8))
    np.save(tmp_path / "small.npy", np.zeros((1, 2, 2, 3), np.uint8))
    for name in ("text.npy", "text.png"):
        (tmp_path / name).write_text("text")
    (tmp_path / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "folder.png").mkdir()
    paths = [str(tmp_path / name) for name in ("good.npy", bad, "good.npy")]
    assert main([str(model), *paths]) == 2
    out, err = capsys.readouterr()
    assert out.count("good.npy") == 2 and bad not in out
    assert err.startswith("adaste-run: ") and bad in err and err.count("\n") == 1


def test_an_output_that_is_closed_is_no_fault_of_the_images(model, tmp_path, capsys, monkeypatch):
    def closed(*_):
        raise BrokenPipeError("Broken pipe")

    np.save(tmp_path / "image.npy", np.zeros((12, 10, 3), np.uint8))
    monkeypatch.setattr("adaste_runtime.cli.ranking", closed)
    assert main([str(model), *[str(tmp_path / "image.npy")] * 3]) == 2
    assert capsys.readouterr().err == "adaste-run: Broken pipe\n"


def test_without_pillow_pictures_are_refused_and_arrays_are_not(model, tmp_path, capsys, monkeypatch):
    real = builtins.__import__

    def without_pillow(name, *rest, **named):
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    assert main([str(model), str(tmp_path / "red.png")]) == 2
    assert "pip install adaste-runtime[images]" in capsys.readouterr().err
