"""How fast one-bit networks run in a web page, beside ONNX Runtime Web: latency, start, sizes.

    make web
    python benchmarks/inference.py --prepare DIR                         # the networks (needs torch, onnx, onnxruntime)
    python benchmarks/web/measure.py --networks DIR                      # fetches onnxruntime-web from npm
    python benchmarks/web/measure.py --networks DIR --output FILE.json   # also as a record

ResNet-18 with binary weights at 32x32 (10 classes) and 224x224 (1,000 classes), the same network in every engine, one
image at a time. All engines take turns in one page of Chromium, on its main thread: a round is a few runs of each;
minimum and median over all rounds. Pages of their own measure ONNX Runtime Web with two threads, and the start, from
the first byte asked for to the network loaded. Logits are compared with those of adaste-runtime on this machine.
"""

import argparse
import gzip
import http.server
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from adaste._util.files import write_json

HERE = Path(__file__).parent
WEB = HERE.parents[1] / "web"
PEER = "1.30.0"
PEER_FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
RUNTIME_FILES = ("src/index.js", "src/engine.js", "src/pictures.js", "dist/adaste_runtime.wasm")
ROUNDS, RUNS, STARTS = {32: 40, 224: 16}, 3, 9
THREADS = 2


def serve(folders: dict[str, Path]) -> http.server.ThreadingHTTPServer:
    """A plain server of these folders, with the headers that give pages threads and a fine clock."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            first, _, rest = path.strip("/").partition("/")
            return str(folders[first] / rest if first in folders else HERE / first)

        def end_headers(self) -> None:
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
            super().end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    Handler.extensions_map[".mjs"] = "text/javascript"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def facts(times: list[float]) -> dict[str, float]:
    return {"min": min(times), "median": statistics.median(times), "n": len(times)}


def native_logits(networks: Path, size: int, images: np.ndarray) -> dict[str, np.ndarray]:
    """What adaste-runtime computes here; its float32 layers without fused multiply-adds, which WebAssembly lacks."""
    import adaste_runtime

    os.environ["ADASTE_RUNTIME_KERNEL"] = "float"
    results = {}
    for name, int8 in (("adaste", False), ("adaste int8", True)):
        net = adaste_runtime.load(networks / f"{size}.safetensors", int8=int8)
        if int8:
            net.calibrate(images)
        results[name] = net(images[:1])
    del os.environ["ADASTE_RUNTIME_KERNEL"]
    return results


def measure(page: Any, networks: Path, size: int) -> dict[str, Any]:
    images = np.ascontiguousarray(np.load(networks / f"{size}.npy")[:16])
    (networks / f"{size}.f32").write_bytes(images.tobytes())
    told = page.evaluate("([...args]) => measure(...args)", [size, ROUNDS[size], RUNS])
    expected = native_logits(networks, size, images)
    rows = {}
    for name, (times, logits) in told.items():
        rows[name] = facts(times)
        if name in expected:
            difference = np.abs(np.array(logits, np.float32) - expected[name].ravel()).max()
            rows[name]["error"] = float(difference / np.abs(expected[name]).max())
    return rows


def size_of(files: list[Path]) -> dict[str, int]:
    contents = [path.read_bytes() for path in files]
    return {"raw": sum(map(len, contents)), "gzipped": sum(len(gzip.compress(each, 9)) for each in contents)}


def cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())


def report(networks: Path, peer: Path) -> dict[str, Any]:
    server = serve({"networks": networks, "peer": peer, "runtime": WEB})
    address = f"http://127.0.0.1:{server.server_address[1]}/page.html"
    load_before = os.getloadavg()[0]
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])

        def opened() -> Any:
            page = browser.new_context().new_page()
            page.set_default_timeout(240_000)
            page.goto(address)
            page.wait_for_function("window.measure !== undefined")
            return page

        latencies = {size: measure(opened(), networks, size) for size in ROUNDS}
        threaded = {
            size: {
                name: facts(times)
                for name, (times, _) in opened()
                .evaluate("([...args]) => threaded(...args)", [size, rounds, RUNS, THREADS])
                .items()
            }
            for size, rounds in ROUNDS.items()
        }
        starts: dict[str, list[float]] = {"adaste": [], "onnxruntime-web": [], "onnxruntime-web int8": []}
        for _ in range(STARTS):
            for name, times in starts.items():
                page = opened()
                times.append(page.evaluate("(name) => start(name)", name))
                page.context.close()
        version = browser.version
        browser.close()
    server.shutdown()
    runtime, engine = [WEB / name for name in RUNTIME_FILES], [peer / name for name in PEER_FILES]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "load_average": [load_before, os.getloadavg()[0]],
        "chromium": version,
        "onnxruntime-web": PEER,
        "milliseconds": latencies,
        "threads": THREADS,
        "milliseconds_with_threads": threaded,
        "start_32_milliseconds": {name: facts(times) for name, times in starts.items()},
        "bytes": {
            "adaste_runtime.wasm": size_of(runtime[-1:]),
            "onnxruntime-web.wasm": size_of(engine[-1:]),
            "everything for 32x32, adaste": size_of([*runtime, networks / "32.safetensors"]),
            "everything for 32x32, onnxruntime-web": size_of([*engine, networks / "32.onnx"]),
            "everything for 32x32, onnxruntime-web int8": size_of([*engine, networks / "32-int8.onnx"]),
        },
    }


def tell(record: dict[str, Any]) -> None:
    for size, rows in record["milliseconds"].items():
        print(f"{size}x{size}, ms minimum / median:")
        for name, row in rows.items():
            error = f", logits within {row['error']:.1e} of adaste-runtime's" if "error" in row else ""
            print(f"    {name}: {row['min']:.2f} / {row['median']:.2f} (n = {row['n']}){error}")
        for mine, other in (("adaste", "onnxruntime-web"), ("adaste int8", "onnxruntime-web int8")):
            least, middle = (rows[other][what] / rows[mine][what] for what in ("min", "median"))
            print(f"    {mine}: {least:.2f} / {middle:.2f} times as fast as {other}")
    for size, rows in record["milliseconds_with_threads"].items():
        for name, row in rows.items():
            print(f"{size}x{size}, {name}, {record['threads']} threads: {row['min']:.2f} / {row['median']:.2f}")
    for name, row in record["start_32_milliseconds"].items():
        print(f"start, {name}: {row['min']:.0f} / {row['median']:.0f} ms")
    for name, row in record["bytes"].items():
        print(f"{name}: {row['raw']:,} bytes, gzipped {row['gzipped']:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=Path, required=True, help="the folder that inference.py --prepare wrote")
    parser.add_argument("--peer", type=Path, help="the folder dist of onnxruntime-web, if it is there already")
    parser.add_argument("--output", type=Path, help="write a record")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peer = chosen.peer
        if peer is None:
            subprocess.run(["npm", "install", "--silent", "--prefix", folder, f"onnxruntime-web@{PEER}"], check=True)
            peer = Path(folder) / "node_modules" / "onnxruntime-web" / "dist"
        record = report(chosen.networks, peer)
    tell(record)
    if chosen.output:
        write_json(chosen.output, record)


if __name__ == "__main__":
    main()
