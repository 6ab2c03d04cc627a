"""How fast one-bit networks run on a CPU, beside ONNX Runtime and OpenVINO: latency, memory, start, file size.

    python benchmarks/inference.py                        # what this machine has; engines that are missing are named
    python benchmarks/inference.py --output FILE.json     # also as a record
    python benchmarks/inference.py --prepare DIR          # write the networks only (needs torch, onnx, onnxruntime)
    python benchmarks/inference.py --networks DIR         # measure with these, on a machine without torch
    benchmarks/carry.sh                                   # for a machine where nothing can be installed: carry/

ResNet-18 with binary weights at 32x32 (CIFAR's form, 10 classes) and 224x224 (ImageNet's form, 1,000 classes), the same
network in every engine, with 1, 2, 4, 8 and 16 threads as far as there are processors. Engines take turns in one
process: a round is a few runs of each; minimum and median over all rounds. An engine starts when the threads of the one
before have gone to sleep: ONNX Runtime's go on looking for work for about 0.1 s, and would take the processors away.
Rows with callers have that many threads of Python that use one network (one session) at the same time, for half a
second: images per second. Start and memory are those of a process of its own that loads one network and runs it once
(start.py).
"""

import argparse
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from engines import ENGINES, FLOAT_PEERS, INT8_PEERS, LIBRARY
from start import WITHOUT_NUMPY

ROUNDS, RUNS, STARTS = 12, 4, 7
SIZES, BATCHES, THREADS, CALLERS = (32, 224), (1, 16), (1, 2, 4, 8, 16), 8
CALLING = 0.5
"""Seconds for which callers call."""
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


def settle(quiet: float = 0.02, patience: float = 1.0) -> None:
    """Wait until no thread of this process is at work."""
    until = time.perf_counter() + patience
    while time.perf_counter() < until:
        before = time.process_time()
        time.sleep(quiet)
        if time.process_time() - before < quiet / 10:
            return


def built(names: list[str], folder: Path, size: int | str, batch: int, threads: int) -> dict[str, Run]:
    """The engines of these names that are installed."""
    runs: dict[str, Run] = {}
    for name in names:
        try:
            runs[name] = ENGINES[name](folder, size, batch, threads)
        except ImportError:
            continue
    return runs


def latencies(runs: dict[str, Run], images: np.ndarray, rounds: int, seconds: float) -> dict[str, Any]:
    """Milliseconds of every engine, in turns, and how far their outputs are from ONNX Runtime's."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    outputs = {name: np.array(run(images)) for name, run in runs.items()}
    until = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= 2 and time.perf_counter() > until:
            break
        for name, run in runs.items():
            settle()
            run(images)
            for _ in range(RUNS):
                began = time.perf_counter()
                run(images)
                times[name].append(1000 * (time.perf_counter() - began))
    exact = outputs["ONNX Runtime" if "ONNX Runtime" in outputs else "adaste"]
    return {
        name: {
            "min": min(times[name]),
            "median": statistics.median(times[name]),
            "runs": len(times[name]),
            "error": float(np.abs(outputs[name] - exact).max() / np.abs(exact).max()),
            "same_top": float((outputs[name].argmax(1) == exact.argmax(1)).mean()),
        }
        for name in runs
    }


def images_per_second(run: Run, images: np.ndarray, callers: int) -> float:
    """Of so many threads that call at the same time."""
    settle()
    counts = [0] * callers
    start = threading.Barrier(callers + 1)
    until = 0.0

    def call(number: int) -> None:
        run(images)
        start.wait()
        while time.perf_counter() < until:
            run(images)
            counts[number] += 1

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    until = began + CALLING
    start.wait()
    began = time.perf_counter()
    until = began + CALLING
    for thread in threads:
        thread.join()
    return sum(counts) * len(images) / (time.perf_counter() - began)


def throughputs(names: list[str], folder: Path, size: int, callers: int, rounds: int = 2) -> dict[str, Any]:
    """Images per second of one caller with one thread, and of many: on a network with one thread and one with more.

    The best of a few rounds, each of all engines in turns.
    """
    images = np.ascontiguousarray(np.load(folder / f"{size}.npy")[:1])
    one = built(names, folder, size, 1, 1)
    many = built(names, folder, size, 1, callers)
    found = {name: {"one": 0.0, "callers": 0.0, "callers_on_threads": 0.0} for name in one}
    for _ in range(rounds):
        for name, best in found.items():
            for what, run, count in (
                ("one", one[name], 1),
                ("callers", one[name], callers),
                ("callers_on_threads", many[name], callers),
            ):
                best[what] = max(best[what], images_per_second(run, images, count))
    return found


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


def report(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    rows = []
    processors = len(os.sched_getaffinity(0))
    for size in options.sizes:
        for batch in options.batches:
            images = np.ascontiguousarray(np.load(folder / f"{size}.npy")[:batch])
            for threads in [count for count in options.threads if count <= processors]:
                runs = built(options.engines, folder, size, batch, threads)
                row = latencies(runs, images, max(2, options.rounds // batch), options.row_seconds)
                rows.append({"size": size, "batch": batch, "threads": threads, "engines": row})
                told = ", ".join(f"{name} {each['min']:.2f} / {each['median']:.2f}" for name, each in row.items())
                print(f"{size}x{size}, batch {batch}, {threads} threads, ms minimum / median: {told}")
                for mine, peers in (("adaste", FLOAT_PEERS), ("adaste int8", INT8_PEERS)):
                    least, middle = ratio(row, mine, peers), ratio(row, mine, peers, "median")
                    if least and middle:
                        there = [peer for peer in peers if peer in row]
                        against = f"the better of {' and '.join(there)}" if len(there) > 1 else there[0]
                        print(f"    {mine}: {least:.2f} / {middle:.2f} times as fast as {against}")
                worst = max((each["error"] for name, each in row.items() if "int8" not in name), default=0.0)
                print(f"    largest relative difference of float32 engines {worst:.1e}", flush=True)
    callers = []
    for size in options.sizes:
        count = min(CALLERS, processors)
        found = throughputs(options.engines, folder, size, count)
        callers.append({"size": size, "callers": count, "engines": found})
        for name, each in found.items():
            ratios = ", ".join(f"{each[what] / each['one'] / count:.2f}" for what in ("callers", "callers_on_threads"))
            told = f"one caller {each['one']:.0f} images/s; {count} callers {ratios} of {count} times"
            print(f"{size}x{size}, {name}: {told}")
    names = [*options.engines, WITHOUT_NUMPY]
    processes = {size: starts(names, folder, size, STARTS) for size in options.sizes} if options.starts else {}
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.suffix != ".npy"}
    for size, started in processes.items():
        for name, each in started.items():
            mebibytes = each["peak_bytes"] / 2**20
            seconds = f"{each['min']:.3f} / {each['median']:.3f} s"
            print(f"{size}x{size} {name:20} first result, minimum / median {seconds}  memory {mebibytes:.0f} MiB")
    print(", ".join(f"{name} {count:,} bytes" for name, count in files.items()))
    return {"rows": rows, "callers": callers, "processes": processes, "files": files}


def first_line(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


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
    processors = sorted(os.sched_getaffinity(0))
    topology = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), ""),
        "flags": [flag for flag in wanted if flag in flags],
        "cores": os.cpu_count(),
        "usable_processors": len(processors),
        "hardware_threads_of_cores": sorted({first_line(topology.format(cpu)) or "unknown" for cpu in processors}),
        "quota": first_line("/sys/fs/cgroup/cpu.max"),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": versions,
        "rounds": rounds,
        "runs_per_round": RUNS,
        "starts": STARTS,
    }


def installed(names: list[str]) -> list[str]:
    """The engines that are here; without our own there is nothing to measure."""
    if LIBRARY is None and find_spec("adaste_runtime") is None:
        sys.exit("adaste-runtime is not installed: pip install ./runtime")
    packages = {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino", "torch": "torch"}
    missing = {engine for engine, package in packages.items() if find_spec(package) is None}
    if missing:
        print(f"not installed, so not measured: {', '.join(sorted(missing))}", flush=True)
    return [name for name in names if name.removesuffix(" int8") not in missing]


def unpack(carried: Path, folder: Path) -> None:
    """The networks that carry.sh packed."""
    for path in carried.glob("*.gz"):
        (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))


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
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    def listed(values: tuple[int, ...]) -> str:
        return ",".join(map(str, values))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="write the networks here, and end")
    parser.add_argument("--networks", type=Path, metavar="DIR", help="networks that were prepared")
    parser.add_argument("--carried", type=Path, metavar="DIR", help="networks that carry.sh packed")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of {RUNS} runs each ({ROUNDS})")
    parser.add_argument("--row-seconds", type=float, default=1e9, help="at most, but for two rounds")
    parser.add_argument("--sizes", type=numbers, default=SIZES, help=f"of images ({listed(SIZES)})")
    parser.add_argument("--batches", type=numbers, default=BATCHES, help=f"({listed(BATCHES)})")
    parser.add_argument("--threads", type=numbers, default=THREADS, help=f"({listed(THREADS)})")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=[*ENGINES], help=",".join(ENGINES))
    parser.add_argument("--starts", action=argparse.BooleanOptionalAction, default=True, help="measure starts, too")
    options = parser.parse_args()
    if options.prepare:
        options.prepare.mkdir(parents=True, exist_ok=True)
        prepare(options.prepare)
        return
    options.engines = installed(options.engines)
    with tempfile.TemporaryDirectory() as made:
        folder = options.networks or Path(made)
        if options.carried:
            unpack(options.carried, folder)
        elif not options.networks:
            prepare(folder)
        conditions = environment(options.rounds)
        found = report(folder, options)
    if options.output:
        write(options.output, {"environment": conditions, **found})


if __name__ == "__main__":
    main()
