"""The demonstration, as a visitor meets it in Chromium."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser]
Visit = Callable[..., Any]

SEVEN = [[(0.25, 0.2), (0.7, 0.2), (0.5, 0.5), (0.4, 0.85)]]
FOUR = [[(0.5, 0.15), (0.25, 0.6), (0.75, 0.6)], [(0.6, 0.35), (0.6, 0.9)]]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


def draw(page: Any, strokes: list[list[tuple[float, float]]]) -> None:
    page.click("#clear")
    box = page.locator("#drawing").bounding_box()

    def placed(point: tuple[float, float]) -> tuple[float, float]:
        return box["x"] + point[0] * box["width"], box["y"] + point[1] * box["height"]

    for stroke in strokes:
        page.mouse.move(*placed(stroke[0]))
        page.mouse.down()
        for point in stroke[1:]:
            page.mouse.move(*placed(point), steps=4)
        page.mouse.up()


def likeliest(page: Any, expected: str) -> None:
    page.wait_for_function(f"document.querySelector('#bars .name')?.textContent === '{expected}'")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    from PIL import Image

    path = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)).save(path)
    return path


@pytest.mark.parametrize("settings", [{}, {"color_scheme": "dark"}, PHONE], ids=["desk", "dark", "phone"])
def test_drawn_digits_are_recognised(visit: Visit, settings: dict[str, Any]) -> None:
    page = visit(**settings)
    for strokes, digit in [(SEVEN, "7"), (FOUR, "4")]:
        draw(page, strokes)
        likeliest(page, digit)
    assert page.locator("#bars li").count() == 5
    assert re.fullmatch(r"(below 0\.1|\d+\.\d) ms", page.inner_text("#time"))
    assert page.inner_text("#size") == "13.0 KB"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out at the side"
    page.click("#clear")
    assert page.locator("#bars li").count() == 0


def test_every_sample_is_recognised_with_float32_and_8_bits(visit: Visit) -> None:
    page = visit()
    for kind, digit in itertools.product(("float", "int8"), range(10)):
        page.check(f"[value={kind}]")
        page.click(f"[aria-label='Test image of a {digit}']")
        likeliest(page, str(digit))


def test_a_picture_is_classified_and_what_is_none_is_explained(visit: Visit, picture: Path, tmp_path: Path) -> None:
    page = visit()
    page.click("#tab-picture")
    page.set_input_files("#picture", picture)
    page.wait_for_selector("#bars li")
    (tmp_path / "broken.png").write_bytes(picture.read_bytes()[:100])
    page.set_input_files("#picture", tmp_path / "broken.png")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.inner_text("#problem") == "this is no picture that can be read"
    page.set_input_files("#picture", picture)
    page.wait_for_selector("#problem", state="hidden")


def test_a_visitor_opens_a_file_of_his_own(visit: Visit, built: Path, picture: Path, tmp_path: Path) -> None:
    page = visit()
    content = (built / "build" / "demo" / "networks" / "digits-vgg-small.safetensors").read_bytes()
    (tmp_path / "mine.safetensors").write_bytes(content)
    (tmp_path / "cut.safetensors").write_bytes(content[:-10])
    for name, part in [("cut.safetensors", "cut.safetensors: tensor"), ("picture.png", "it begins like a PNG")]:
        page.set_input_files("#own", tmp_path / name)
        page.wait_for_function(f"document.querySelector('#problem').textContent.includes('{part}')")
        assert page.locator("#network option").count() == 2
    page.set_input_files("#own", tmp_path / "mine.safetensors")
    page.wait_for_function("document.querySelector('#network').selectedOptions[0].text === 'mine.safetensors'")
    assert page.inner_text("#about") == "1 x 8 x 8 numbers in, 10 classes"
    page.click("[aria-label='Test image of a 6']")
    likeliest(page, "6")
    page.select_option("#network", "0")
    page.wait_for_function("document.querySelector('#about').textContent.startsWith('10 classes')")


def test_a_network_for_photos_asks_for_a_picture(visit: Visit, picture: Path) -> None:
    page = visit()
    draw(page, FOUR)
    likeliest(page, "4")
    page.select_option("#network", label="Photos of 200 kinds of things")
    page.wait_for_function("document.querySelector('#size').textContent === '1.46 MB'")
    assert page.is_visible("#panel-picture") and page.locator("#bars li").count() == 0
    page.set_input_files("#picture", picture)
    page.wait_for_selector("#bars li")
    assert page.inner_text("#about").startswith("200 classes. 56.")


def test_the_camera_is_used_and_let_go(visit: Visit) -> None:
    page = visit()
    page.click("#tab-camera")
    page.click("#camera")
    page.wait_for_selector("#bars li")
    page.click("#tab-draw")
    assert page.evaluate("document.querySelector('#video').srcObject") is None
    draw(page, SEVEN)
    likeliest(page, "7")


def test_a_camera_that_is_refused_is_explained(visit: Visit) -> None:
    refusing = "navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('Permission denied') }"
    page = visit(before=refusing)
    page.click("#tab-camera")
    page.click("#camera")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.inner_text("#problem") == "The camera cannot be used: Permission denied"


def test_a_browser_without_simd_is_told_so(visit: Visit) -> None:
    page = visit(before="WebAssembly.validate = () => false", expected="#problem:not([hidden])")
    assert "WebAssembly with SIMD" in page.inner_text("#problem")


def test_tabs_and_samples_are_reached_by_keyboard(visit: Visit) -> None:
    page = visit()
    page.focus("#tab-draw")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-picture" and page.is_visible("#panel-picture")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "picture"
    page.focus("#tab-picture")
    page.keyboard.press("ArrowLeft")
    page.focus("[aria-label='Test image of a 2']")
    page.keyboard.press("Enter")
    likeliest(page, "2")


def test_the_page_opens_without_a_network_after_a_first_visit(visit: Visit) -> None:
    page = visit()
    page.evaluate("navigator.serviceWorker.ready")
    page.reload()
    page.wait_for_selector("[data-ready]")
    page.context.set_offline(True)
    page.reload()
    page.wait_for_selector("[data-ready]")
    draw(page, FOUR)
    likeliest(page, "4")


def test_many_networks_one_after_the_other_leave_the_page_alive(visit: Visit) -> None:
    page = visit()
    told = page.evaluate("""async () => {
        const { load } = await import("./adaste-runtime-web/src/index.js");
        const image = new ImageData(8, 8);
        const names = new Set();
        for (let i = 0; i < 30; ++i) {
            const net = await load("networks/digits-vgg-small.safetensors", { int8: i % 2 === 1, worker: i % 3 !== 0 });
            names.add((await net.run(image))[0].name);
            net.close();
            const problem = await net.run(image).then(() => "", (error) => error.message);
            if (problem !== "the network is closed") return problem;
        }
        return names.size;
    }""")
    assert told == 1
