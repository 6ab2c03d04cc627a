"""How fast one-bit networks run on a CPU, beside ONNX Runtime and OpenVINO: latency, memory, start, file size.

    python benchmarks/inference.py                        # what this machine has; engines that are missing are named
    python benchmarks/inference.py --output FILE.json     # also as a record
    python benchmarks/inference.py --prepare DIR          # write the networks only (needs torch, onnx, onnxruntime)
    python benchmarks/inference.py --networks DIR         # measure with these, on a machine without torch

ResNet-18 with binary weights at 32x32 (CIFAR's form, 10 classes) and 224x224 (ImageNet's form, 1,000 classes), the same
network in every engine. Engines take turns in one process: a round is a few runs of each; minimum and median over all
rounds. Start and memory are those of a process of its own that loads one network and runs it once (start.py).
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from engines import ENGINES, FLOAT_PEERS, INT8_PEERS
from start import WITHOUT_NUMPY

ROUNDS, RUNS, STARTS = 12, 4, 7
SIZES = (32, 224)
Run = Callable[[np.ndarray], np.ndarray]


# --- the networks ----------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """ResNet-18 with random one-bit weights and plausible BatchNorm statistics, in the files of all engines."""
    import torch

    from adaste.models import ImageShape, ResNet
    from adaste.packed.format import to_bytes
    from adaste.packed.onnx import to_int8_onnx, to_onnx, with_real_weights
    from adaste.packed.pack import to_graph

    for size, stem, classes in zip(SIZES, ("small", "large"), (10, 1000), strict=True):
        torch.manual_seed(0)
        model = ResNet(depth=18, stem=stem).build(ImageShape(3, size, size), classes)
        images = torch.randn(32, 3, size, size)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.where(parameter >= 0, 1.0, -1.0) if parameter.ndim > 1 else parameter)
            model.train()
            for _ in range(8):  # BatchNorm's statistics
                model(images)
        graph = to_graph(model.eval(), images[:1])
        files = {
            f"{size}.safetensors": to_bytes(graph),
            f"{size}.onnx": to_onnx(with_real_weights(graph)),
            f"{size}-int8.onnx": to_int8_onnx(graph, images.numpy()),
        }
        for name, content in files.items():
            (folder / name).write_bytes(content)
        np.save(folder / f"{size}.npy", images.numpy()[:16])


# --- the measurements ------------------------------------------------------------------------------------------------


def latencies(folder: Path, size: int, batch: int, threads: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of every engine, in turns, and how far their outputs are from ONNX Runtime's."""
    images = np.ascontiguousarray(np.load(folder / f"{size}.npy")[:batch])
    runs: dict[str, Run] = {}
    for name, engine in ENGINES.items():
        try:
            runs[name] = engine(folder, size, batch, threads)
        except ImportError:
            continue
    times: dict[str, list[float]] = {name: [] for name in runs}
    outputs = {name: np.array(run(images)) for name, run in runs.items()}
    for _ in range(rounds):
        for name, run in runs.items():
            run(images)  # threads of the engine before may still be waiting for work
            for _ in range(RUNS):
                began = time.perf_counter()
                run(images)
                times[name].append(1000 * (time.perf_counter() - began))
    exact = outputs["ONNX Runtime" if "ONNX Runtime" in outputs else "adaste"]
    return {
        name: {
            "min": min(times[name]),
            "median": statistics.median(times[name]),
            "error": float(np.abs(outputs[name] - exact).max() / np.abs(exact).max()),
            "same_top": float((outputs[name].argmax(1) == exact.argmax(1)).mean()),
        }
        for name in runs
    }


def starts(names: list[str], folder: Path, size: int, repeats: int) -> dict[str, dict[str, float]]:
    """Seconds to the first result in a process of its own, engines in turns, and the least of the memory."""
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            command = [sys.executable, str(Path(__file__).parent / "start.py"), name, str(folder), str(size)]
            environment = {**os.environ, "BEGAN": str(time.time())}
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            seconds, peak = done.stdout.split()[-2:]
            found[name].append((float(seconds), int(peak)))
    return {
        name: {
            "min": min(seconds for seconds, _ in each),
            "median": statistics.median(seconds for seconds, _ in each),
            "peak_bytes": min(peak for _, peak in each),
        }
        for name, each in found.items()
    }


def ratio(row: dict[str, Any], mine: str, peers: tuple[str, ...], what: str = "min") -> float | None:
    """How many times as fast as the best of the peers."""
    there = [row[peer][what] for peer in peers if peer in row]
    return min(there) / row[mine][what] if there and mine in row else None


def report(folder: Path, rounds: int) -> dict[str, Any]:
    rows = []
    for size in SIZES:
        for batch in (1, 16):
            for threads in (1, 2):
                row = latencies(folder, size, batch, threads, max(2, rounds // batch))
                rows.append({"size": size, "batch": batch, "threads": threads, "engines": row})
                told = ", ".join(f"{name} {each['min']:.2f} / {each['median']:.2f}" for name, each in row.items())
                print(f"{size}x{size}, batch {batch}, {threads} threads, ms minimum / median: {told}")
                for mine, peers in (("adaste", FLOAT_PEERS), ("adaste int8", INT8_PEERS)):
                    least, middle = ratio(row, mine, peers), ratio(row, mine, peers, "median")
                    if least and middle:
                        there = [peer for peer in peers if peer in row]
                        against = f"the better of {' and '.join(there)}" if len(there) > 1 else there[0]
                        print(f"    {mine}: {least:.2f} / {middle:.2f} times as fast as {against}")
                worst = max(each["error"] for name, each in row.items() if "int8" not in name)
                print(f"    largest relative difference of float32 engines {worst:.1e}", flush=True)
    names = [*rows[0]["engines"], WITHOUT_NUMPY]
    processes = {size: starts(names, folder, size, STARTS) for size in SIZES}
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.suffix != ".npy"}
    for size, found in processes.items():
        for name, each in found.items():
            mebibytes = each["peak_bytes"] / 2**20
            seconds = f"{each['min']:.3f} / {each['median']:.3f} s"
            print(f"{size}x{size} {name:20} first result, minimum / median {seconds}  memory {mebibytes:.0f} MiB")
    print(", ".join(f"{name} {count:,} bytes" for name, count in files.items()))
    return {"rows": rows, "processes": processes, "files": files}


def environment(rounds: int) -> dict[str, Any]:
    """What it was measured on, without torch."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    wanted = ("avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "amx_int8")
    versions = {}
    for package in ("adaste-runtime", "numpy", "onnxruntime", "openvino", "torch"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), ""),
        "flags": [flag for flag in wanted if flag in flags],
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": versions,
        "rounds": rounds,
        "runs_per_round": RUNS,
        "starts": STARTS,
    }


def name_missing() -> None:
    """Say which engines are not installed; without our own there is nothing to measure."""
    if find_spec("adaste_runtime") is None:
        sys.exit("adaste-runtime is not installed: pip install ./runtime")
    missing = [package for package in ("onnxruntime", "openvino", "torch") if find_spec(package) is None]
    if missing:
        print(f"not installed, so not measured: {', '.join(missing)}", flush=True)


def write(path: Path, record: dict[str, Any]) -> None:
    """The record at its place, or what was there before: never half of one."""
    # Not adaste._util.files: this also runs where adaste is not installed.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("w") as file:
            file.write(json.dumps(record, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="write the networks here, and end")
    parser.add_argument("--networks", type=Path, metavar="DIR", help="networks that were prepared")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of {RUNS} runs each ({ROUNDS})")
    arguments = parser.parse_args()
    if arguments.prepare:
        arguments.prepare.mkdir(parents=True, exist_ok=True)
        prepare(arguments.prepare)
        return
    name_missing()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.networks or Path(made)
        if not arguments.networks:
            prepare(folder)
        found = report(folder, arguments.rounds)
    if arguments.output:
        record = {"environment": environment(arguments.rounds), **found}
        write(arguments.output, record)


if __name__ == "__main__":
    main()
