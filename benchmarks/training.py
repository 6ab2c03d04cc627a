"""How fast networks train: seconds per epoch, start-up and memory, on one GPU or on a CPU beside a plain loop.

    python benchmarks/training.py                      # what this machine has
    python benchmarks/training.py --output FILE.json   # also as a record

Every row is a process of its own, as a user would start it. Images are CIFAR-10 if the data folder has them, else
random ones of the same size: the speed is the same. An epoch is 390 steps of 128 images. Of the epochs of a run the
first is left out (kernels are still being chosen in it).
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

START = "ADASTE_BENCHMARK_START"
EPOCHS = 6
RELEASED = 12.7
"""Seconds per epoch of the released AdaSTE code, ResNet-18 on an H200 (results/preliminary)."""

OTHER_ENGINES = [
    ("ResNet-18, compiled engine", ["cifar10-resnet18-adaste"], "compiled"),
    ("ResNet-18, eager engine", ["cifar10-resnet18-adaste"], "eager"),
]


def child(name: str, device_name: str, epochs: int, data: Path | None, engine: str) -> dict[str, Any]:
    """Train in this process; the seconds since the parent started it, and those of every epoch."""
    gc.set_threshold(200_000, 20, 100)  # as the command `adaste` does
    import torch

    from adaste.recipes.presets import recipe
    from adaste.training.execution import algorithms
    from adaste.training.trainer import Training

    imported = time.time()
    device = torch.device(device_name)
    # Statistics of BatchNorm are left as they are: benchmarks/norm_statistics_curve.py has the seconds of that.
    chosen = replace(recipe(name, epochs=epochs), norm_always=False)
    with algorithms(deterministic=False, device=device):
        training = Training(chosen, images(data), device=device, engine=engine)
        ready = time.time()
        first: list[float] = []

        def after_step() -> None:
            if not first:
                if device.type == "cuda":
                    torch.cuda.synchronize()
                first.append(time.time())

        records = list(training.run(after_step))
    began = float(os.environ[START])
    return {
        "name": name,
        "engine": training.execution.mode.value,
        "import_seconds": imported - began,
        "ready_seconds": ready - began,
        "start_seconds": first[0] - began,
        "epoch_seconds": [record.seconds for record in records],
        "evaluation_seconds": [record.evaluation_seconds for record in records],
        "memory_bytes": torch.cuda.max_memory_reserved() if device.type == "cuda" else None,
        "last_loss": records[-1].loss,
    }


def images(data: Path | None) -> Any:
    """CIFAR-10, or random images of its size."""
    import numpy as np

    from adaste.data import DataError, Dataset, Split, load

    try:
        return load("cifar10", data)
    except DataError:
        random = np.random.default_rng(0)

        def split(count: int) -> Split:
            pixels = random.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
            return Split(pixels, random.integers(0, 10, count))

        classes = tuple(map(str, range(10)))
        return Dataset("random", classes, split(50_000), split(10_000), (0.49, 0.48, 0.45), (0.25, 0.24, 0.26), "")


def started(name: str, engine: str, arguments: argparse.Namespace, extra: dict[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--child", name, "--device", arguments.device, "--engine", engine]
    command += ["--epochs", str(arguments.epochs)] + (["--data", str(arguments.data)] if arguments.data else [])
    environment = {**os.environ, **extra, START: str(time.time())}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def measured(names: list[str], engine: str, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """These runs at once, each in a process of its own."""
    from adaste.runs.study.processes import shared_gpu

    with shared_gpu(print) if len(names) > 1 else nullcontext({}) as variables:
        processes = [started(name, engine, arguments, variables) for name in names]
        for process in processes:
            output, _ = process.communicate()
            if process.returncode:
                raise SystemExit(f"a run failed with exit code {process.returncode}")
            yield json.loads(output.splitlines()[-1])


def steady(runs: list[dict[str, Any]]) -> tuple[float, float]:
    """Minimum and median seconds of an epoch, over the runs that shared the machine and per run."""
    # The first epoch chooses kernels, and in the last ones a neighbour may have ended already.
    kept = slice(1, None) if len(runs) == 1 else slice(2, -2)
    seconds = [second for run in runs for second in run["epoch_seconds"][kept]]
    return min(seconds) / len(runs), statistics.median(seconds) / len(runs)


def on_gpu(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    resnet, vgg = "cifar10-resnet18-adaste", "cifar10-vgg16-adaste"
    rows = []
    for title, names, engine in [
        ("ResNet-18, first start", [resnet], "auto"),
        ("ResNet-18, second start", [resnet], "auto"),
        ("ResNet-18", [resnet], "auto"),
        ("ResNet-18, fourth start", [resnet], "auto"),
        ("VGG-16", [vgg], "auto"),
        ("four ResNet-18 at once", [resnet] * 4, "auto"),
        *([] if arguments.brief else OTHER_ENGINES),
    ]:
        runs = list(measured(names, engine, arguments))
        least, median = steady(runs)
        rows.append({"row": title, "epoch_min": least, "epoch_median": median, "runs": runs})
        print(
            f"{title:28} epoch {least:.3f} / {median:.3f} s   evaluation "
            f"{statistics.median(runs[0]['evaluation_seconds'][1:]):.3f} s   start "
            f"{max(run['start_seconds'] for run in runs):.1f} s   memory "
            f"{max(run['memory_bytes'] for run in runs) / 2**30:.2f} GiB   {RELEASED / least:.1f}x the released code",
            flush=True,
        )
    return rows


def on_cpu(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from plain_loop import beside_a_plain_loop

    dataset = images(arguments.data)
    return [beside_a_plain_loop(method, dataset, arguments.engine) for method in ("full-precision", "adaste")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    parser.add_argument("--device", default=None, help="cpu or cuda; what is there if not given")
    parser.add_argument("--engine", default="auto", help="on a CPU: auto, eager or compiled")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"of every run on a GPU ({EPOCHS})")
    parser.add_argument("--brief", action="store_true", help="on a GPU: the fastest engine only")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child, arguments.device, arguments.epochs, arguments.data, arguments.engine)))
        return
    import torch

    from adaste._util.files import write_json
    from adaste.runs.environment import environment

    arguments.device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    rows = on_gpu(arguments) if arguments.device.startswith("cuda") else on_cpu(arguments)
    if arguments.output:
        record = {"environment": environment(torch.device(arguments.device)), "rows": rows}
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
