"""Check every network of the zoo over all test images of its data with adaste-runtime, and write its card.

    python benchmarks/zoo.py --output results/benchmarks/zoo.json
    python benchmarks/zoo.py cifar10-resnet18       # only this one; its card is written, and no record

A network is added as zoo/adaste_zoo/networks/NAME.safetensors (`adaste export RUN FILE`), with its run and those of
other seeds recorded under results/runs. Each is run with float32 activations and with 8-bit ones, which are calibrated
on training images. Both accuracies are those of whole test sets, without torch.
"""

import argparse
import hashlib
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import adaste_runtime
import adaste_zoo
import numpy as np
import torch
from adaste_runtime.bench import latencies

from adaste._util.files import write_json
from adaste.data import Dataset, load
from adaste.paper.index import Run, collect
from adaste.runs.environment import environment

CALIBRATION, BATCH = 500, 100
ROOT = Path(__file__).parents[1]


def middle(images: Any, network: adaste_runtime.Network) -> Any:
    """The middle of images as large as the network takes them; all of them where they have that size."""
    _, height, width = network.input_shape
    top, left = round((images.shape[1] - height) / 2), round((images.shape[2] - width) / 2)
    return images[:, top : top + height, left : left + width]


def accuracy(network: adaste_runtime.Network, dataset: Dataset) -> float:
    """Percent of the test images whose largest output is that of their class."""
    right = 0
    for first in range(0, len(dataset.test), BATCH):
        part = slice(first, first + BATCH)
        outputs = network(middle(dataset.test.images[part], network))
        right += int((outputs.argmax(1) == dataset.test.labels[part]).sum())
    return 100 * right / len(dataset.test)


def milliseconds(network: adaste_runtime.Network) -> dict[str, float]:
    """The time of a call with one random image."""
    times = 1e3 * latencies(network, 1, seconds=2.0)
    return {"min": times.min(), "median": float(np.median(times)), "calls": len(times), "threads": network.threads}


def run_and_seeds(digest: str, runs: Sequence[Run]) -> tuple[Run, list[Run]]:
    """The run of a recipe, and those of all its seeds in their order."""
    own = [run for run in runs if run.digest == digest]
    if not own:
        raise SystemExit(f"no finished run of the recipe {digest} is recorded in the folder of --runs")
    alike = [run for run in runs if run.recipe.unseeded == own[0].recipe.unseeded]
    return own[0], sorted(alike, key=lambda run: run.recipe.seed)


def check(file: Path, runs: Sequence[Run], arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure a network, write its card, and return its row of the record."""
    content = file.read_bytes()
    facts = adaste_runtime.load(file).describe()
    run, seeds = run_and_seeds(facts["recipe"], runs)
    dataset = load(run.recipe.data, arguments.data)
    if tuple(facts["classes"]) != dataset.classes:
        raise SystemExit(f"{file} has other classes than {dataset.name}: {facts['classes']}")
    began = time.perf_counter()
    whole = adaste_runtime.load(file, threads=arguments.threads)
    coarse = adaste_runtime.load(file, threads=arguments.threads, int8=True)
    chosen = np.linspace(0, len(dataset.train) - 1, num=min(CALIBRATION, len(dataset.train)), dtype=np.int64)
    coarse.calibrate(middle(dataset.train.images[chosen], coarse))
    card = adaste_zoo.Card(
        name=file.stem,
        data=run.recipe.data,
        classes=dataset.classes,
        recipe=run.recipe.digest,
        recorded=run.result.last_accuracy,
        seeds=tuple(each.result.last_accuracy for each in seeds),
        float32=accuracy(whole, dataset),
        int8=accuracy(coarse, dataset),
        images=len(dataset.test),
        checked=datetime.now(UTC).date().isoformat(),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    write_json(file.with_suffix(".json"), vars(card))
    times = {kind: milliseconds(network) for kind, network in (("float32", whole), ("int8", coarse))}
    print(
        f"{card.name}: recorded {card.recorded:.2f} %, float32 {card.float32:.2f}, int8 {card.int8:.2f} on "
        f"{card.images:,} images; mean of {len(seeds)} seeds {statistics.fmean(card.seeds):.2f}; {card.bytes:,} bytes",
        flush=True,
    )
    return {
        **vars(card),
        "folder": run.folder.name,
        "calibration_images": len(chosen),
        "milliseconds": times,
        "seconds": time.perf_counter() - began,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks (default: all)")
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument("--runs", type=Path, default=ROOT / "results" / "runs", help="folder of the recorded runs")
    parser.add_argument("--threads", type=int, default=1, help="of the runtime (default 1)")
    parser.add_argument("--output", type=Path, help="write a record, as JSON; of all networks")
    arguments = parser.parse_args()
    files = sorted(adaste_zoo.NETWORKS.glob("*.safetensors"))
    if unknown := set(arguments.names) - {file.stem for file in files}:
        parser.error(f"the zoo has no {', '.join(sorted(unknown))}; it has {', '.join(file.stem for file in files)}")
    if arguments.output and arguments.names:
        parser.error("a record has all networks: leave out --output or the names")
    runs = collect(arguments.runs).runs
    rows = [check(file, runs, arguments) for file in files if not arguments.names or file.stem in arguments.names]
    if arguments.output:
        record = {"environment": environment(torch.device("cpu")), "runtime": adaste_runtime.__version__, "rows": rows}
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
