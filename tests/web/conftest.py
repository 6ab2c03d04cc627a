"""The runtime for web pages, as `make web` builds it: under node, and the page in Chromium."""

import contextlib
import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).parents[2] / "web"


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder web/, where it is built and node can run it."""
    if shutil.which("node") is None:
        pytest.skip("there is no node to run WebAssembly with")
    if not (WEB / "dist" / "adaste_runtime.wasm").exists():
        pytest.skip("the runtime for web pages is not built: `make web` does it")
    return WEB


@pytest.fixture(scope="session")
def node(built: Path) -> Callable[..., str]:
    """Runs node in web/; what it prints."""

    def run(*args: str, **settings: Any) -> str:
        done = subprocess.run(["node", "--no-warnings", *args], cwd=built, capture_output=True, text=True, **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def script(node: Callable[..., str]) -> Callable[..., Any]:
    """Runs lines of JavaScript that know `load` and `values`, and print JSON at their end."""

    def run(lines: str, **values: Any) -> Any:
        head = f'import {{ load }} from "./src/index.js"; const values = {json.dumps(values, default=str)};\n'
        return json.loads(node("--input-type=module", "-e", head + lines))

    return run


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    """A plain server of the demonstration."""
    handler = functools.partial(Quiet, directory=str(built / "build" / "demo"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium to open the page in")
    camera = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with sync.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", *camera])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Opens the page, ready. No test may end with a complaint of the page, or a request beyond its server."""
    complaints: list[str] = []
    strange: list[str] = []
    with contextlib.ExitStack() as stack:

        def opened(before: str = "", expected: str = "[data-ready]", **settings: Any) -> Any:
            context = stack.enter_context(chromium.new_context(**settings))
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            local = (address, f"blob:{address}", "data:")
            page.on("request", lambda request: request.url.startswith(local) or strange.append(request.url))
            if before:
                page.add_init_script(before)
            page.goto(address)
            page.wait_for_selector(expected)
            return page

        yield opened
    assert not complaints and not strange
