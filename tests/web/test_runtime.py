"""The package adaste-runtime-web under node, beside what torch computes."""

import base64
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from adaste.packed.format import to_bytes
from adaste.packed.pack import to_graph

pytestmark = pytest.mark.slow
Script = Callable[..., Any]

SAME = "const same = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);"
READ = """
import { readFile } from "node:fs/promises";
const bytes = await readFile(values.images);
const images = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
"""


def binary_network() -> nn.Module:
    """Weights of +-1 and statistics of BatchNorm that were seen."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 40, 3, stride=2, bias=False), nn.BatchNorm2d(40), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(40 * 2 * 3, 10),
    )  # fmt: skip
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.where(parameter >= 0, 1.0, -1.0))
        for _ in range(8):
            net(torch.randn(32, 3, 11, 14))
    return net.eval()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], np.ndarray]:
    """A network and images, and the logits of torch."""
    folder = tmp_path_factory.mktemp("web")
    net = binary_network()
    images = torch.randn(5, 3, 11, 14)
    (folder / "net.safetensors").write_bytes(to_bytes(to_graph(net, images[:1])))
    images.numpy().tofile(folder / "images.f32")
    with torch.no_grad():
        logits = net(images).numpy()
    return {"file": (folder / "net.safetensors").as_uri(), "images": folder / "images.f32"}, logits


def test_the_module_is_small(built: Path) -> None:
    module = built / "dist" / "adaste_runtime.wasm"
    assert len(subprocess.run(["gzip", "-9c", module], stdout=subprocess.PIPE, check=True).stdout) < 100_000


def test_logits_are_those_of_torch(script: Script, files: Any) -> None:
    paths, expected = files
    told = script(
        READ + "const net = await load(values.file); const logits = await net.logits(images);"
        "console.log(JSON.stringify({ shape: net.inputShape, outputs: net.outputs, logits: [...logits] }))",
        **paths,
    )
    assert told["shape"] == [3, 11, 14] and told["outputs"] == 10
    found = np.array(told["logits"]).reshape(expected.shape)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_8_bit_activations_are_close_and_can_be_calibrated(script: Script, files: Any) -> None:
    paths, expected = files
    told = script(
        READ + "const net = await load(values.file, { int8: true }); const first = await net.logits(images);"
        "await net.calibrate(images); console.log(JSON.stringify([[...first], [...await net.logits(images)]]))",
        **paths,
    )
    for logits in told:
        assert np.abs(np.array(logits).reshape(expected.shape) - expected).max() < 0.03 * np.abs(expected).max()
    assert told[0] != told[1]


def test_after_an_error_the_next_call_works(script: Script, files: Any) -> None:
    paths, _ = files
    told = script(
        READ
        + SAME
        + """
        const net = await load(values.file);
        const before = await net.logits(images);
        const problem = (promise) => promise.then(() => null, (error) => error.message);
        const problems = [
          await problem(net.logits(images.map(() => NaN))),
          await problem(net.logits(new Float32Array(5))),
          await problem(net.run({ data: [], width: 3, height: 3 })),
          await problem(net.calibrate(images)),
          await problem(load(new Uint8Array(1000))),
          await problem(load("file:///no/such/file")),
        ];
        console.log(JSON.stringify({ problems, same: same(before, await net.logits(images)) }))""",
        **paths,
    )
    expected = ["not finite", "3 x 11 x 14", "data (RGBA)", "int8 can be calibrated", "header", "no such file"]
    for problem, part in zip(told["problems"], expected, strict=True):
        assert part in problem
    assert told["same"]


@pytest.mark.parametrize("count", [2_320_000, 2_400_000])
def test_memory_that_cannot_grow_is_an_error_and_the_network_goes_on(script: Script, files: Any, count: int) -> None:
    """An instance has at most 4 GiB; the images take a little less, or more."""
    told = script(
        READ
        + SAME
        + """
        const net = await load(values.file);
        const before = await net.logits(images);
        const huge = new Float32Array(3 * 11 * 14 * values.count);
        const problem = await net.logits(huge).then(() => null, (error) => error.message);
        console.log(JSON.stringify({ problem, same: same(before, await net.logits(images)) }))""",
        **files[0],
        count=count,
    )
    assert "not enough memory" in told["problem"] and told["same"]


def test_every_damage_is_refused_with_a_message(script: Script, files: Any) -> None:
    content = Path(files[0]["file"].removeprefix("file://")).read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    damaged = {
        "cut off": content[: len(content) // 2],
        "a flipped bit": content[:-1] + bytes([content[-1] ^ 1]),
        "a huge header": struct.pack("<Q", 2**60) + content[8:],
        "no description": content[:8] + b"{" + b" " * (size - 2) + b"}" + content[8 + size :],
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
        "nothing": b"",
    }
    told = script(
        "console.log(JSON.stringify(await Promise.all(Object.values(values.files).map((text) =>"
        "load(Buffer.from(text, 'base64')).then(() => null, (error) => error.message)))))",
        files={name: base64.b64encode(each).decode() for name, each in damaged.items()},
    )
    for name, message in zip(damaged, told, strict=True):
        assert message and "runtime failed" not in message, name


def test_a_huge_file_is_refused_before_it_is_read(script: Script) -> None:
    told = script("""
        const huge = Object.defineProperty(new Blob([]), "size", { value: 2 ** 31 });
        const answer = new Response("x", { headers: { "content-length": String(2 ** 31) } });
        const problem = (promise) => promise.then(() => null, (error) => error.message);
        console.log(JSON.stringify([await problem(load(huge)), await problem(load(answer))]))""")
    assert told == ["the file has 2147483648 bytes; allowed are 1073741824"] * 2


def test_pictures_are_scaled_as_pillow_does(node: Any, tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    told = []
    for width, height, shape in [(53, 37, (3, 12, 10)), (53, 37, (1, 64, 128)), (8, 8, (1, 8, 8)), (300, 7, (3, 9, 9))]:
        picture = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
        image = Image.fromarray(picture).convert("L" if shape[0] == 1 else "RGB")
        scale = max(shape[2] / width, shape[1] / height)
        size = max(shape[2], round(width * scale)), max(shape[1], round(height * scale))
        left, top = (size[0] - shape[2]) // 2, (size[1] - shape[1]) // 2
        box = (left, top, left + shape[2], top + shape[1])
        expected = np.asarray(image.resize(size, Image.Resampling.BILINEAR).crop(box)).ravel()
        rgba = np.dstack([picture, np.full((height, width), 255, np.uint8)])
        (tmp_path / "rgba").write_bytes(rgba.tobytes())
        out = node(
            "--input-type=module", "-e",
            'import { covering } from "./src/pictures.js"; import { readFileSync } from "node:fs";'
            f'const data = readFileSync("{tmp_path / "rgba"}");'
            f"console.log([...covering({{ data, width: {width}, height: {height} }}, {list(shape)})].join())",
        )  # fmt: skip
        told.append(np.array_equal(np.array(out.split(","), int), expected))
    assert all(told)


def test_top_classes_are_sorted_and_share_100_percent(script: Script, built: Path) -> None:
    digits = (built / "build" / "demo" / "networks" / "digits-vgg-small.safetensors").as_uri()
    told = script(
        "const net = await load(values.file); const data = new Uint8ClampedArray(4 * 64).fill(200);"
        "console.log(JSON.stringify(await net.run({ data, width: 8, height: 8 }, { top: 10 })))",
        file=digits,
    )
    shares = [each["probability"] for each in told]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1)
    assert sorted(each["name"] for each in told) == [str(digit) for digit in range(10)]


@pytest.mark.parametrize("program, args, said", [
    ("kernels_check", ["300"], "simd128-int8: 300 shapes, 0 failed"),
    ("fuzz_kernels", ["100"], "all right"),
    ("fuzz_files", ["1000"], "1000 files:"),
])  # fmt: skip
def test_programs_that_check_the_kernels_and_the_reader_pass(
    node: Any, program: str, args: list[str], said: str
) -> None:
    assert said in node("run_wasi.mjs", f"build/wasm/{program}.wasm", *args)


def test_the_package_holds_the_module_and_its_types(built: Path, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    subprocess.run(["npm", "pack", "--silent", "--pack-destination", tmp_path], cwd=built, check=True, stdout=-3)
    (package,) = tmp_path.glob("adaste-runtime-web-*.tgz")
    names = subprocess.run(["tar", "tf", package], capture_output=True, text=True, check=True).stdout.split()
    assert {"package/dist/adaste_runtime.wasm", "package/src/index.js", "package/src/index.d.ts"} < set(names)
    assert not any("build" in name or "demo" in name for name in names)
    assert package.stat().st_size < 110_000
