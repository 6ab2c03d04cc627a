import json
import subprocess
import sys
from importlib.util import find_spec

import adaste_runtime
import numpy as np
import pytest
from adaste_runtime.cli import main, ranking
from networks import floats, residual_network
from packing import Packing
from test_version_2 import block


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
    assert main([str(model), "--bench", "--seconds", "0.01", "--batch", "2", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("calls, 1 threads", "best", "50 %", "90 %", "99 %"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["{model}"], "name at least one image"),
        (["{folder}/nothing", "a.npy"], "nothing: there is no such file"),
        (["{model}", "{folder}/nothing.npy"], "nothing.npy: there is no such file"),
        (["{model}", "{folder}/text.npy"], "is no array"),
        (["{model}", "{folder}/text.png"], "is no picture" if find_spec("PIL") else "pictures need Pillow"),
        (["{model}", "{folder}/nothing.png"], "nothing.png: there is no such file"),
        (["{model}", "{folder}/zip.npy"], "zip.npy is no array that can be read: the magic string"),
        (["{model}", "{folder}/huge.npy"], "huge.npy is no array that can be read: Unable to allocate"),
        (["{model}", "{folder}/small.npy"], "small.npy: images must be"),
        (["{model}", "{folder}/good.npy", "--top", "0"], "--top must be 1 to 7, the number of classes, got 0"),
        (["{model}", "{folder}/good.npy", "--top", "-1"], "--top must be 1 to 7, the number of classes, got -1"),
        (["{model}", "{folder}/good.npy", "--top", "8"], "--top must be 1 to 7, the number of classes, got 8"),
        (["{model}", "--bench", "--batch", "0"], "batch must be at least 1"),
        (
            ["{model}", "--bench", "--threads", "0"],
            "--threads must be 1 to 1024, or left out for one on each physical core, got 0\n",
        ),
        (["{model}", "{folder}/good.npy", "--threads", "1025"], "--threads must be 1 to 1024"),
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


def test_without_pillow_pictures_are_refused_arrays_are_not_and_missing_files_are_missing(
    model, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "there.png").touch()
    np.save(tmp_path / "image.npy", np.zeros((12, 10, 3), np.uint8))
    assert main([str(model), *(str(tmp_path / name) for name in ("there.png", "missing.png", "image.npy"))]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines()[0].endswith("image.npy")
    there, missing = err.splitlines()
    assert "there.png" in there and "pip install 'adaste-runtime[images]'" in there
    assert missing.endswith("missing.png: there is no such file")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no broken pipes")
@pytest.mark.parametrize("images", [1, 2000])  # less and more than what is kept back before it is written
def test_an_output_that_nobody_reads_ends_the_command_quietly(model, tmp_path, images):
    np.save(tmp_path / "images.npy", np.zeros((images, 12, 10, 3), np.uint8))
    run = "import sys; from adaste_runtime.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", run, str(model), str(tmp_path / "images.npy")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_version_needs_no_model(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"adaste-run {adaste_runtime.__version__}\n"


def test_json_holds_the_top_classes_of_every_image(model, tmp_path, capsys):
    images = floats(np.random.default_rng(1), 2, 3, 12, 10)
    np.save(tmp_path / "images.npy", images)
    assert main([str(model), str(tmp_path / "images.npy"), "--top", "3", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["file"], line["image"]) for line in lines] == [(str(tmp_path / "images.npy"), i) for i in (0, 1)]
    for line, logits in zip(lines, adaste_runtime.load(model)(images), strict=True):
        order = np.argsort(-logits)[:3]
        assert [(each["class"], each["name"]) for each in line["top"]] == [(i, f"class {i}") for i in order]
        assert [np.float32(each["logit"]) for each in line["top"]] == list(logits[order])
        assert 0 < sum(each["share"] for each in line["top"]) <= 1


def test_json_has_no_names_where_the_file_has_none_and_only_ascii(tmp_path, capsys):
    packing = Packing(shape=(2, 1, 1))
    packing.node("flatten")
    np.save(tmp_path / "größe.npy", np.zeros((2, 1, 1), np.float32))
    assert main([str(packing.write(tmp_path)), str(tmp_path / "größe.npy"), "--json"]) == 0
    out = capsys.readouterr().out
    assert out.isascii() and [each["name"] for each in json.loads(out)["top"]] == [None, None]


def test_json_of_a_benchmark_has_the_percentiles(model, capsys):
    assert main([str(model), "--bench", "--seconds", "0.01", "--json", "--threads", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["calls"] >= 20 and found["threads"] == 1 and found["kernels"]
    assert list(found["milliseconds"]) == ["best", "50 %", "90 %", "99 %"]
    assert found["milliseconds"]["best"] <= found["milliseconds"]["99 %"]


def test_a_description_for_people_and_one_for_programs(model, capsys):
    assert main([str(model), "--describe"]) == 0
    out = capsys.readouterr().out
    assert f"{model}: {model.stat().st_size:,} bytes, written by tests" in out
    for words in ("3 x 12 x 10", "mean 0.5 0.5 0.5", "7: class 0, class 1", "recipe   not said", "16 x 12 x 10"):
        assert words in out
    assert "27,712 of 1 bit, 600 of 32 bits" in out
    assert main([str(model), "--describe", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = {"file": str(model), "bytes": model.stat().st_size, **adaste_runtime.load(model).describe()}
    assert found == json.loads(json.dumps(wanted))


def test_a_description_escapes_what_a_terminal_would_obey(tmp_path, capsys):
    packing = residual_network(np.random.default_rng(0))[0]
    packing.facts.update(producer="\x1b[2J", recipe="\r\n", classes=["\u202e"] * 7)
    assert main([str(packing.write(tmp_path)), "--describe"]) == 0
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert all(escape in out for escape in (r"\x1b[2J", r"\r\n", r"\u202e"))


def test_a_description_names_ten_classes(tmp_path, capsys):
    packing = residual_network(np.random.default_rng(0), classes=30)[0]
    assert main([str(packing.write(tmp_path)), "--describe"]) == 0
    assert "30: class 0, " in (out := capsys.readouterr().out) and "class 9 and 20 more\n" in out


@pytest.mark.parametrize("option", ["--describe", "--bench"])
def test_what_takes_no_images_refuses_them(model, capsys, option):
    assert main([str(model), "picture.png", option]) == 2
    assert "take no images" in capsys.readouterr().err


def test_a_network_of_other_inputs_and_outputs_is_described_but_shows_no_classes(tmp_path, capsys):
    model = str(block().write(tmp_path))
    assert main([model, "--describe"]) == 0
    capsys.readouterr()
    assert main([model, "picture.png"]) == 2
    assert "this one takes x, t and gives rows, map: call it from Python" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_outputs_that_are_not_finite_are_no_classes(tmp_path, capsys, options):
    packing = Packing(shape=(2, 1, 1))
    packing.node("flatten")
    packing.linear(np.full((2, 2), 3e38, np.float32))
    np.save(tmp_path / "image.npy", np.full((2, 1, 1), 3e38, np.float32))
    assert main([str(packing.write(tmp_path)), str(tmp_path / "image.npy"), *options]) == 2
    out, err = capsys.readouterr()
    assert not out and "image.npy: the outputs are not finite" in err


def test_the_network_of_a_run_and_a_picture_are_no_models(tmp_path, capsys):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    assert main([str(tmp_path / "a.png"), "b.png"]) == 2
    assert capsys.readouterr().err.endswith("a.png: not a safetensors file (it begins like a PNG)\n")
