"""`adaste evaluate`, `adaste export` and `adaste zoo`: trained networks, tested, written for other programs, listed."""

import argparse
import importlib.util
import statistics
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from adaste.cli import options

if TYPE_CHECKING:
    import torch

    from adaste.runs.evaluate import Exported

EVALUATE_EXAMPLES = options.examples(
    "adaste evaluate runs/digits-mlp-adaste-0123456789abcdef",
    "adaste evaluate runs/digits-mlp-adaste-0123456789abcdef --network best --device cpu",
    "adaste evaluate --network my.safetensors    a network file alone",
    "adaste evaluate runs/digits-mlp-*           several runs",
)
EXPORT_EXAMPLES = options.examples(
    "adaste export runs/digits-mlp-adaste-0123456789abcdef digits.safetensors     one bit per weight",
    "adaste export runs/digits-mlp-adaste-0123456789abcdef digits.onnx --network best",
    "adaste export --network my.safetensors digits.onnx                           a network file alone",
    "adaste export runs/digits-mlp-adaste-0123456789abcdef digits.onnx --int8 --calibrate 500",
)

ZOO_EXAMPLES = options.examples(
    "adaste zoo                  trained networks: accuracy, size, and milliseconds on this machine",
    "adaste zoo --seconds 5      measured for longer",
    "",
    'In Python: adaste.load_packed("zoo:NAME"), adaste_runtime.load("zoo:NAME").',
)

CALIBRATION = 200
"""Training images that decide on the ranges of 8-bit values, unless others are asked for."""


def add_to(commands: options.Commands) -> None:
    """Add the commands."""
    testing = options.command(commands, "evaluate", "test the networks of runs on the test images", EVALUATE_EXAMPLES)
    options.add_network(testing)
    options.add_data(testing)
    options.add_machine(testing)
    testing.set_defaults(act=evaluate)
    exporting = options.command(
        commands, "export", "write the network of a run as a one-bit file or as ONNX", EXPORT_EXAMPLES
    )
    options.add_network(exporting)
    exporting.add_argument(
        "file", metavar="FILE", type=Path, help="model.safetensors (one bit per weight) or model.onnx"
    )
    exporting.add_argument("--int8", action="store_true", help="ONNX that computes in 8-bit integers")
    exporting.add_argument(
        "--calibrate",
        type=options.at_least_one,
        metavar="N",
        help=f"with --int8: number of training images that set the ranges of values (default: {CALIBRATION})",
    )
    options.add_data(exporting)
    exporting.set_defaults(act=export)
    listing = options.command(commands, "zoo", "list the trained networks of the package adaste-zoo", ZOO_EXAMPLES)
    listing.add_argument("--threads", type=options.at_least_one, default=1, metavar="N", help="threads of the runtime")
    listing.add_argument(
        "--seconds", type=options.above_zero, default=1.0, metavar="S", help="time per measurement (default: 1)"
    )
    listing.set_defaults(act=list_zoo)


def evaluate(arguments: argparse.Namespace) -> int:
    """Evaluate one run after the other; one that cannot be evaluated does not stop the others."""
    options.use_threads(arguments.threads)
    device = options.device_named(arguments.device)
    readers, problems = options.networks(arguments), []
    for read in readers:
        try:
            _evaluate(read(), device, arguments)
        except (ValueError, OSError) as error:
            if len(readers) == 1:
                raise
            problems.append(str(error))
    if problems:
        raise ValueError(f"{len(problems)} of {len(readers)} networks were not evaluated: {'; '.join(problems)}")
    return 0


def _evaluate(exported: "Exported", device: "torch.device", arguments: argparse.Namespace) -> None:
    """Evaluate a network, and print the outcome beside what it had recorded."""
    from adaste.data import load
    from adaste.runs import evaluate as runs

    dataset = load(exported.recipe.data, arguments.data)
    score = runs.evaluate(exported, dataset, device=device, engine=arguments.engine)
    record, recipe = exported.record, exported.recipe
    epoch = f"epoch {record.epoch + 1} of {recipe.epochs}"
    print(f"{exported.path}: seed {recipe.seed}, {epoch}, {score.count:,} test images")
    print(f"now       accuracy {score.accuracy:.2f} %  loss {score.loss:.4f}  on {device}")
    if record.test_accuracy is not None and record.test_loss is not None:
        print(f"recorded  accuracy {record.test_accuracy:.2f} %  loss {record.test_loss:.4f}")


def export(arguments: argparse.Namespace) -> int:
    """Export, and print how large the file is."""
    from adaste.data import load
    from adaste.runs import export as runs

    if len(arguments.runs) > 1:
        raise ValueError(f"a file holds the network of one run, got {', '.join(map(str, arguments.runs))}: choose one")
    if arguments.calibrate and not arguments.int8:
        raise ValueError("--calibrate is for 8-bit integers: it needs --int8")
    (read,) = options.networks(arguments)
    exported = read()
    needs_images = arguments.int8 or exported.images is None
    dataset = load(exported.recipe.data, arguments.data) if needs_images else None
    calibrate = (arguments.calibrate or CALIBRATION) if arguments.int8 else None
    written = runs.export(exported, arguments.file, dataset=dataset, calibrate=calibrate)
    ratio = written.float_size / written.size
    print(f"{arguments.file}: {written.size:,} bytes, 1/{ratio:.1f} of {written.float_size:,} in float32")
    return 0


def list_zoo(arguments: argparse.Namespace) -> int:
    """Print a line per network: accuracy, size, and how long an image takes with the runtime, if that is installed."""
    from adaste.cli.lists import columns
    from adaste.packed.torch_module import zoo
    from adaste.paper.report.texts import plural

    networks, with_runtime = zoo(), importlib.util.find_spec("adaste_runtime") is not None
    rows = [("name", "accuracy %", "float32", "8-bit", "bytes", *(["ms", "ms, 8-bit"] if with_runtime else []))]
    for card in networks.cards():
        path = networks.path(card.name)
        times = [_milliseconds(path, arguments, int8=int8) for int8 in (False, True)] if with_runtime else []
        seeds = f"{card.accuracy:.2f} (n = {len(card.seeds)})"
        rows.append((card.name, seeds, f"{card.float32:.2f}", f"{card.int8:.2f}", f"{card.bytes:,}", *times))
    columns(rows)
    print("accuracy: mean of n seeds on all test images; float32, 8-bit: this file's, by the type of activations")
    if with_runtime:
        print(f"ms: a random image with {plural(arguments.threads, 'thread')} of this machine, minimum / median")
    else:
        print("Milliseconds need adaste-runtime: in a checkout, pip install ./runtime")
    return 0


def _milliseconds(path: Path, arguments: argparse.Namespace, *, int8: bool) -> str:
    """Return minimum and median of the time of an image in the torch-free runtime."""
    runtime, bench = import_module("adaste_runtime"), import_module("adaste_runtime.bench")
    network = runtime.load(path, threads=arguments.threads, int8=int8)
    times = 1e3 * bench.latencies(network, 1, arguments.seconds)
    return f"{min(times):.2f} / {statistics.median(times):.2f}"
